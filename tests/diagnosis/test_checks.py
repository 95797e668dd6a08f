"""What a finding says must hold after the change does not hold before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.diagnosis.check_figures import add_figures
from sightline.errors import MissingDataError, SightlineError
from sightline.lab.exercises import find_exercise, list_exercises
from support.campaigns import CAMPAIGNS, sample
from support.corpus import list_recordings, name_recording
from support.places import EXAMPLES

LAB = [
    path
    for exercise in list_exercises()
    if (path := exercise.find_recording("baseline")) is not None
]
Rows = Callable[[pl.DataFrame], bool]


def is_under(column: str, limit: float) -> Rows:
    """Whether no row is above the limit."""
    return lambda rows: not (rows.get_column(column).fill_null(0) > limit).any()


def is_over(column: str, limit: float) -> Rows:
    """Whether a row is above the limit."""
    return lambda rows: bool((rows.get_column(column).fill_null(0) > limit).any())


def has_no(column: str, pattern: str) -> Rows:
    """Whether no row's text has it."""
    return lambda rows: not rows.get_column(column).cast(pl.String).str.contains(pattern).any()


# Of each check that names a state: analysis, its words, and whether rows of that analysis are in
# it. What only compares (fewer, less, nearer) holds of no recording beside itself.
STATES: list[tuple[str, str, Rows]] = [
    ("breakdown", r"idle_pct under (?P<limit>\d+)", is_under("idle_pct", 15)),
    ("breakdown", r"exposed_copy_pct under 5(\.0)?", is_under("exposed_copy_pct", 5)),
    ("breakdown", "a row for each device", lambda rows: rows.height > 1),
    ("allocator_churn", "given_back of 0", is_under("given_back", 0)),
    ("idle_rules", "no gap of rule recompilation", has_no("rule", "^recompilation$")),
    ("collective_mismatches", "no rows", pl.DataFrame.is_empty),
    ("hangs", "no rows", pl.DataFrame.is_empty),
    ("out_of_memory", "no rows", pl.DataFrame.is_empty),
    ("energy_of_states", "no 'busy but idle'", has_no("state", "busy but idle")),
    ("engine_steps", "graph_launches over 0, duration_ns", is_over("graph_launches", 0)),
    ("memory_leaks", "no row of this place", pl.DataFrame.is_empty),
    ("slow_clocks", "no kernel of this cause", pl.DataFrame.is_empty),
    ("launch_shape", "idle_lanes_pct is 0", is_under("idle_lanes_pct", 0)),
    ("launch_shape", "idle_sms_pct (is )?0", is_under("idle_sms_pct", 0)),
    ("launch_shape", "tail_idle_pct near 0", is_under("tail_idle_pct", 1)),
    ("launch_shape", "one shape, the fastest", lambda rows: rows.height <= 1),
]
_CHECK = re.compile(r"sightline stats (?P<analysis>\w+) \S+: (?P<words>.+)")


def find_met(recording: str) -> list[tuple[str, str]]:
    """The findings of a recording whose check already holds, with it."""
    session = sightline.open(recording)
    return [(f.rule, f.verify or "") for f in session.findings() if _is_met(session, f)]


def _is_met(session: sightline.Session, finding: Finding) -> bool:
    check = _CHECK.search(finding.verify or "")
    if check is None or finding.abstained:
        return False
    for analysis, words, holds in STATES:
        if analysis == check["analysis"] and re.fullmatch(words, check["words"]):
            try:
                return holds(session.ask(analysis))
            except MissingDataError:
                return False
    return False


@pytest.mark.parametrize("path", sample(LAB, 6), ids=lambda path: Path(path).parts[-3])
def test_no_exercise_has_a_check_that_holds_before_its_change(path: str) -> None:
    assert find_met(str(path)) == []


def test_idle_time_that_a_check_names_is_said() -> None:
    found = sightline.open(str(EXAMPLES / "simulated-dataloader.json.gz")).findings()
    assert found[0].verify is not None
    assert found[0].verify.endswith("total_ns of data_loading (now 11.07 ms)")


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    sample([p for p in list_recordings("**/*") if p.stat().st_size < 20_000_000], 60),
    ids=name_recording,
)
def test_no_recording_has_a_check_that_holds_before_its_change(path: Path) -> None:
    if not CAMPAIGNS and path.stat().st_size > 300_000:
        pytest.skip("a campaign: make sweep")
    try:
        met = find_met(str(path))
    except SightlineError:
        return
    assert met == []


def test_a_share_that_is_small_already_is_not_what_must_fall() -> None:
    check = "sightline stats breakdown AFTER: exposed_copy_pct under {}"
    run = sightline.open(str(EXAMPLES / "simulated-dataloader.json.gz"))
    above, below = (
        add_figures(run, [replace(run.findings()[0], verify=check.format(limit))])[0].verify
        for limit in (5, 6)
    )
    assert above == check.format(5)
    assert below == (
        "sightline stats breakdown AFTER: exposed_copy_ns and idle_ns (now 873.8 µs and 11.16 ms)"
    )


def test_gains_from_the_same_idle_time_are_not_to_be_added() -> None:
    answer = sightline.open(
        str(find_exercise("item-each-step").find_recording("baseline"))
    ).answer()
    notes = [note for note in answer.notes if "overlap" in note]
    assert notes == [
        "The gains of sync-in-step and host-late overlap: the GPU is idle for 16.22 ms in all."
    ]
