"""Ranks wait in a collective that others never came to.

Symptom
    The job stands still, and after minutes the watchdog kills it: "Watchdog caught collective
    operation timeout". It names a rank that waited, seldom the one that was waited for.

Why it hurts
    Every rank waits for the missing one; all GPUs of the job are lost from then on.

Evidence
    PyTorch's flight recorder, dumped by each rank (TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_
    TIMEOUT=1): which collective each rank asked for last, in each process group, and at which line
    (`sightline stats hangs`). Missing ranks that wait for another themselves are victims; named
    are those who wait for nobody, or for each other only.

Threshold
    One collective with a missing rank, in records that were kept.

Fix
    Look at what the named rank did instead: its own last record, its log, its stack
    (py-spy dump). A rank whose dump is not there has died, or could not write.

False positives
    Dumps taken while the job was running, or at different moments: a rank may just be late.

References
    PyTorch tutorial "Flight Recorder for Debugging Stuck Jobs"; torch/distributed/flight_recorder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.advice import NATIVE_STACKS, PYTHON_STACKS, choose_fix
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.communication.rules._late import name_group, name_ranks

RULE = Rule("collective-hang", "Hang in a collective", over_time=True)
_SHOWN = 8


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: the first collective that waits for a rank that nobody keeps."""
    if not run.rows("flight_records"):
        return
    rows = run.ask("hangs").filter(pl.col("blamed").list.len() > 0)
    if rows.is_empty():
        return
    first = rows.row(0, named=True)
    blamed = sorted(set(rows.get_column("blamed").explode().to_list()))
    dumped = set(run.table("recordings").get_column("rank"))
    yield build_finding(
        RULE,
        _say_hang(first, blamed, dumped),
        Evidence(
            (
                *(_say_last(run, rank, here=rank in dumped) for rank in blamed[:_SHOWN]),
                f"{format_several(rows.height, 'collective')} cannot end without such a rank",
            ),
            rows=rows.head(_SHOWN).to_dicts(),
            where={"ranks": blamed, "source": first["place"]},
        ),
        Advice(
            fix="see what that rank did instead: its log, or  "
            + choose_fix(run, NATIVE_STACKS, python=PYTHON_STACKS)
            + "  while it hangs",
            verify="sightline stats hangs AFTER: no rows",
            cause="a rank went another way in the program, died, or is stuck on its host or GPU",
            sources=("PyTorch tutorial: Flight Recorder for Debugging Stuck Jobs",),
        ),
        severity="critical",
        confidence="high" if set(blamed) <= dumped else "medium",
        method="records of the ranks compared: no time is measured",
        states_limit=True,
    )


def _say_hang(row: dict[str, Any], blamed: list[int], dumped: set[int]) -> str:
    here = [rank for rank in row["missing"] if rank in blamed]
    others = len(row["missing"]) - len(here)
    # Without its dump a rank may have died in it as well as before it.
    silent = not dumped.intersection(here)
    verb = "left no dump, and never came to or died in" if silent else "never came to"
    said = (
        f"{name_ranks(here).capitalize()} {verb} {row['op']} number {row['sequence']} of "
        f"{name_group(row)}, in which {name_ranks(row['waiting'])} "
        f"{'waits' if len(row['waiting']) == 1 else 'wait'}"
    )
    if row["place"]:
        said += f", at {row['place']}"
    return said + (f"; others hold up {others} more." if others else ".")


def _say_last(run: Run, rank: int, *, here: bool) -> str:
    if not here:
        return f"rank {rank} has no dump"
    own = run.table("flight_records").filter(pl.col("rank") == rank).sort("created_ns", "record")
    if own.is_empty():
        return f"rank {rank} is in no collective: its dump holds no open record"
    last = own.row(-1, named=True)
    return (
        f"rank {rank} asked last for {last['op']} number {last['sequence']} of {name_group(last)}"
        + (f", at {last['place']}" if last["place"] else "")
    )
