"""Requests that are not understood, and options that mean the same in every command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sightline.core.units import format_ns
from support.command import sightline
from support.traces import kernel, write

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "simulated-dataloader.json.gz")


@pytest.mark.parametrize(
    ("words", "usage", "said"),
    [
        (["report", "X", "--jsn"], "sightline report", "did you mean --json?"),
        (["top", "--foo"], "sightline top", "it does not know --foo"),
        (["export", "X", "--fromat", "chrome"], "sightline export", "did you mean --format?"),
        (
            ["history", "list", "--metrik"],
            "sightline history",
            "--metric or --metrics?",
        ),
        (["tour", "9"], "sightline tour", "it does not know 9"),
    ],
)
def test_an_unknown_word_shows_the_usage_and_the_nearest_option(capsys, words, usage, said):
    with pytest.raises(SystemExit) as ended:
        from sightline.doors.cli.main import main

        main(words)
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith(f"usage: {usage} ")
    assert said in " ".join(err.split())


@pytest.mark.parametrize(
    "words",
    [
        ["critical-path", EXAMPLE],
        ["whatif", EXAMPLE, "--remove", "memcpy:HtoD"],
        ["stats", "breakdown", EXAMPLE],
        ["sql", EXAMPLE, "SELECT count(*) AS n FROM device_ops"],
    ],
)
def test_data_is_the_same_printed_and_written_to_a_file(tmp_path: Path, words: list[str]) -> None:
    target = tmp_path / "answer.json"
    printed = json.loads(sightline(*words, "--json").out)
    outcome = sightline(*words, "-o", target)
    assert (outcome.code, outcome.out) == (0, "")
    assert json.loads(target.read_text()) == printed
    assert json.loads(sightline(*words, "--format", "json").out) == printed


def test_an_answer_is_not_written_over_the_recording(tmp_path: Path) -> None:
    trace = write(tmp_path, [kernel("k", 0, 5)], "t.json")
    before = trace.read_bytes()
    outcome = sightline("stats", "breakdown", trace, "-o", trace)
    assert (outcome.code, trace.read_bytes()) == (2, before)
    assert "it is a recording that is read" in outcome.said


def test_nothing_is_written_where_the_command_fails(tmp_path: Path) -> None:
    outcome = sightline("critical-path", "nowhere.json", "-o", tmp_path / "x.json")
    assert (outcome.code, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.parametrize("name", ["idle:data_loading", "dataloader-starved", "dataloader_starved"])
def test_what_if_takes_a_findings_own_word_and_gives_its_answer(name: str) -> None:
    (row,) = json.loads(sightline("whatif", EXAMPLE, "--remove", name, "--json").out)
    found = json.loads(sightline("findings", EXAMPLE, "--json").out)
    mine = next(f for f in found if f["rule"] == "dataloader-starved")
    assert row["saved"]["amount"] == mine["gain_ns"] > 0
    screen = sightline("whatif", EXAMPLE, "--remove", name).out
    assert "Waiting for the DataLoader" in screen
    assert row["window_ns"] - row["new_window_ns"] == mine["gain_ns"]
    assert f"window 17.44 ms → at least {format_ns(row['new_window_ns'])}" in screen


def test_what_if_of_a_finding_that_is_not_there_says_which_are() -> None:
    outcome = sightline("whatif", EXAMPLE, "--remove", "launch-bound")
    assert outcome.code == 2
    assert "launch-bound is not a finding of this recording" in outcome.said
    assert "dataloader-starved" in outcome.said


def test_one_rank_is_neither_compared_with_others_nor_scaled() -> None:
    assert "there is one rank only" in sightline("ranks", EXAMPLE).said
    assert "does not show how the program scales" in sightline("scaling", EXAMPLE).said
    assert "is given twice" in sightline("scaling", EXAMPLE, EXAMPLE).said
    assert {sightline(c, EXAMPLE).code for c in ("ranks", "scaling")} == {2}


@pytest.mark.parametrize("listing", ["rules", "analyses"])
def test_listings_are_groups_with_ids_as_screens_write_them(listing: str) -> None:
    text = sightline(listing).out
    rows = json.loads(sightline(listing, "--json").out)
    assert "sightline.subjects" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(re.search(rf"^  {row['name']} ", text, re.MULTILINE) for row in rows)
    assert text.startswith("Communication\n")
    if listing == "rules":
        assert all("_" not in row["name"] for row in rows)


@pytest.mark.parametrize(
    ("ending", "form"), [(".pftrace", "perfetto"), (".perfetto-trace", "perfetto")]
)
def test_an_export_takes_its_format_from_the_ending(tmp_path: Path, ending: str, form: str) -> None:
    whole, named = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    assert sightline("export", EXAMPLE, "-o", whole).code == 0
    assert sightline("export", EXAMPLE, "--format", form, "-o", named).code == 0
    assert whole.read_bytes() == named.read_bytes()


def test_a_history_that_is_not_there_yet_is_called_so(tmp_path: Path) -> None:
    outcome = sightline("history", "list", "--history", tmp_path / "none")
    assert outcome.code == 2
    assert "there is no history yet" in outcome.said


def test_one_point_of_a_history_is_no_curve(tmp_path: Path) -> None:
    place = ("--history", tmp_path / "h")
    assert sightline("history", "add", EXAMPLE, *place).code == 0
    lines = sightline("history", "show", "step_ns", *place).out.splitlines()
    assert any("one point, so there is no curve yet" in line for line in lines)
    assert len(lines) < 8


def test_tables_of_a_recording_are_those_that_it_has(tmp_path: Path) -> None:
    trace = write(tmp_path, [kernel("k", 0, 5)])
    assert "device_ops" in sightline("tables", trace).out
    assert json.loads(sightline("tables", trace, "--json").out)["device_ops"] == 1
