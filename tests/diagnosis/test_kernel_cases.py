"""The line of a profiled kernel that a finding quotes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.diagnosis.kernel_cases import load_cases
from support.profiled import TIME, opened, with_code


@pytest.mark.parametrize(
    ("opcodes", "quoted"),
    [
        ((), ("scale.cu:12", pytest.approx(100 * 30 / 33), "of the samples")),
        (("LDG",), ("scale.cu:10", 100.0, "of LDG")),
        (("LDG", "STG"), ("scale.cu:10", 50.0, "of LDG and STG")),
        (("BAR",), ("scale.cu:12", pytest.approx(100 * 30 / 33), "of the samples")),
    ],
    ids=["samples", "an operation", "as often: the first line", "none of these"],
)
def test_the_line_that_is_quoted(tmp_path: Path, opcodes: tuple[str, ...], quoted: object) -> None:
    """Two lines: the load in the first one, 30 of 33 samples in the second."""
    run = opened(tmp_path, with_code(**{TIME: 1000.0}))
    (case,) = load_cases(run, (TIME,), "--set full", opcodes=opcodes)
    line = case.hot_line
    assert line is not None
    assert (line.quote(), line.share_pct, line.of) == quoted
