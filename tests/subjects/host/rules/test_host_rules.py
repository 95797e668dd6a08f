"""Programs without a device: real recordings, slow for one reason each, and sums by another way.

`programs.py` made the recordings (PyTorch 2.13, one core); `make sweep` runs it anew.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.timeline.host_parts import list_segments, list_windows
from support.campaigns import CAMPAIGNS
from support.places import ROOT
from support.simulated import simulated

HERE = Path(__file__).parent
# What was planted, and the share of a step that its fix took off it, without the profiler.
FIRST = {
    "loading": ("host-loading", 0.75),
    "small_operators": ("host-dispatch", 0.76),
    "python_work": ("host-python", 0.19),
    "optimizer_loop": ("host-optimizer", 0.27),
}


def open_recorded(name: str) -> Any:
    return sightline.open(str(HERE / f"recorded/{name}.json.gz"))


@pytest.mark.parametrize("name", FIRST)
def test_the_planted_cause_is_found_first(name: str) -> None:
    first = open_recorded(name).findings()[0]
    assert first.rule == FIRST[name][0]
    assert first.gain_ns <= first.cost_ns
    assert first.evidence and first.fix and first.verify


def test_where_operators_have_much_to_do_that_is_said() -> None:
    (only,) = open_recorded("healthy").findings()
    assert (only.rule, only.states_limit, only.gain_ns) == ("host-busy", True, None)
    assert "Matrix product takes" in only.summary


def sum_by_hand(path: Path) -> dict[str, int]:
    """Self time of the steps' thread by what is innermost, an event after the other."""
    events = [
        e for e in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation", "python_function")
    ]  # fmt: skip
    steps = [e for e in events if e["name"].startswith("ProfilerStep#")]
    thread = steps[0]["tid"]
    begin = min(round(s["ts"] * 1000) for s in steps)
    end = max(round(s["ts"] * 1000) + round(s["dur"] * 1000) for s in steps)
    mine = sorted(
        ((round(e["ts"] * 1000), -round(e["dur"] * 1000), e["cat"], e["name"]) for e in events
         if e["tid"] == thread),
    )  # fmt: skip
    found: dict[str, int] = {}
    open_ranges: list[tuple[int, str]] = []  # end, what
    at = begin

    def spend(until: int) -> None:
        nonlocal at
        until = min(max(until, begin), end)
        if until > at:
            what = open_ranges[-1][1] if open_ranges else "none"
            found[what] = found.get(what, 0) + until - at
            at = until

    for start, minus, cat, name in mine:
        while open_ranges and open_ranges[-1][0] <= start:
            spend(open_ranges[-1][0])
            open_ranges.pop()
        spend(start)
        stop = start - minus
        if open_ranges:
            stop = min(stop, open_ranges[-1][0])
        open_ranges.append((stop, "DataLoader" if "dataloader" in name.lower() else cat))
        if len(open_ranges) > 1 and open_ranges[-2][1] == "DataLoader":
            open_ranges[-1] = (stop, "DataLoader")
    while open_ranges:
        spend(open_ranges[-1][0])
        open_ranges.pop()
    spend(end)
    return found


@pytest.mark.parametrize("name", [*FIRST, "healthy"])
def test_parts_tile_the_window_and_equal_a_walk_by_hand(name: str) -> None:
    run = open_recorded(name)
    windows = list_windows(run)
    segments = list_segments(run)
    assert segments.get_column("own_ns").sum() == windows.item(0, "end_ns") - windows.item(
        0, "start_ns"
    )
    by_hand = sum_by_hand(HERE / f"recorded/{name}.json.gz")
    loading = segments.filter(pl.col("part") == "loading data").get_column("own_ns").sum()
    operators = segments.filter(
        pl.col("part") != "loading data", pl.col("layer") == "op"
    ).get_column("own_ns").sum()  # fmt: skip
    # Times of the format are decimals of a microsecond: a ns a range is rounded otherwise.
    assert loading == pytest.approx(by_hand.get("DataLoader", 0), rel=1e-3, abs=5000)
    assert operators == pytest.approx(by_hand["cpu_op"], rel=1e-3)


def test_the_loaders_time_is_exact_where_it_is_known() -> None:
    made = simulated("cpu_only")
    (first,) = [f for f in made.run.findings() if f.rule == "host-loading"]
    host = made.run.table("host_ops")
    loader = host.filter(pl.col("name").str.contains("DataLoader"))
    outermost = loader.filter(~pl.col("parent_id").is_in(loader.get_column("host_op_id").implode()))
    assert first.cost_ns == outermost.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()


def test_a_run_with_a_device_is_none_of_theirs() -> None:
    found = simulated("dataloader_starved").run.findings()
    assert not [f for f in found if f.rule.startswith("host-") and f.rule != "host-late"]


@pytest.mark.campaign
@pytest.mark.skipif(not CAMPAIGNS, reason="real programs, alone on a machine: make sweep")
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", FIRST)
def test_real_programs_and_what_their_fix_gains(name: str, tmp_path: Path) -> None:
    took = {}
    for which in ("slow", "fixed"):
        command = [sys.executable, str(HERE / "programs.py"), name, which,
                   str(tmp_path / f"{which}.json")]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        took[which] = float(done.stdout)
    first = sightline.open(str(tmp_path / "slow.json")).findings()[0]
    assert first.rule == FIRST[name][0]
    assert took["fixed"] < took["slow"]


def test_the_rank_that_the_others_wait_for_is_named() -> None:
    run = sightline.open(*(str(HERE / f"recorded/two_ranks-{n}.json.gz") for n in (0, 1)))
    first = run.findings()[0]
    assert (first.rule, first.where["late_ranks"]) == ("host-communication", [1])
    assert "rank 1 waits least" in first.evidence[0]
    assert "more in Python" in first.evidence[1] and "sleep" in first.evidence[1]
    # Rank 0 waits three times for 30 ms that rank 1 sleeps, and for the transfers.
    assert first.gain_ns > 3 * 30_000_000
    # What rank 1 alone loses time with is the reason, and no second problem.
    assert first.cause.startswith("host-python on these ranks")
    assert first.fix.startswith("on rank 1: ")
    assert "host-python" not in [f.rule for f in run.findings()]


def test_the_late_rank_and_the_wait_for_it_are_one_finding_with_figures_of_their_ranks() -> None:
    """Rank 1 alone runs Python, for half of its time: a quarter of both ranks' together."""
    run = sightline.open(str(ROOT / "lab" / "straggler" / "recorded" / "baseline.sightline"))
    found = run.findings()
    assert [f.rule for f in found] == ["host-communication"]
    assert found[0].summary.startswith("Rank 1 comes late: rank 0 spends 71.")
    (why,) = [line for line in found[0].evidence if line.startswith("host-python: On rank 1")]
    assert "49.0 % of its time" in why and found[0].evidence.index(why) == 2
