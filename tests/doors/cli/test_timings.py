"""--timings: what each stage of a command took, beside an answer that is as without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.command import sightline
from support.pages import ROOT

TRACE = str(ROOT / "examples" / "simulated-dataloader.json.gz")
ROW = re.compile(r"^(\S.*?)  +([\d.]+)  +([\d.]+)  +([\d.]+)  +([\d.]+)  +([\d,]+)$", re.MULTILINE)


def test_the_stages_sum_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sightline("report", TRACE)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))  # or the answer is there already
    timed = sightline("report", TRACE, "--timings")
    assert timed.out == plain.out
    assert plain.err == ""
    rows = {
        name: [float(v.replace(",", "")) for v in values]
        for name, *values in ROW.findall(timed.err)
    }
    whole = rows.pop("the whole")
    assert {"find out the format", "ask the rules", "all else"} <= set(rows)
    assert list(rows)[-1] == "all else"
    for column in (0, 2):  # each row is rounded to a hundredth
        assert abs(sum(row[column] for row in rows.values()) - whole[column]) <= 0.006 * len(rows)
    assert max(len(line) for line in timed.err.splitlines()) <= 80


def test_a_command_that_fails_says_what_it_took() -> None:
    outcome = sightline("report", "there-is-none.json", "--timings")
    assert outcome.code == 2
    assert "the whole" in outcome.err
