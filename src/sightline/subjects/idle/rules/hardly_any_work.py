"""Hardly anything ran on the GPU: the program ended early, or never used it.

Symptom
    A handful of copies or memsets, and no kernel.

Why it hurts
    There is nothing to judge: shares of a window of microseconds say nothing of the program.

Evidence
    No kernel, and fewer than ten operations, in the recording; when the last call to the GPU's
    driver ended.

Threshold
    Ten operations (ours: fewer show no pattern), none of them a kernel; any number of copies and
    memsets of which the device is idle for 85 % (ours), where no call launched a kernel; or fewer
    than ten kernels, or each of them once, of less than 0.5 ms together (ours: a hundred launches),
    and with the copies beside them of less than 1 ms.

Fix
    See why the program stopped, or did not reach its kernels: its own output, an error that a call
    returned, a GPU that it did not find. Then record it again.

False positives
    A tool that only copies once.

References
    Ours, from recordings whose programs ended within their set-up.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.price import NO_WORK, TOO_LITTLE
from sightline.subjects.idle.rules._parts import ask_rules, find_largest_copy, list_parts
from sightline.timeline.api_calls import LAUNCHES
from sightline.timeline.copies import is_too_little, ran_enough
from sightline.timeline.host_ranges import IN_API

_IDLE_PCT = 85.0

RULE = Rule("hardly-any-work", "Hardly anything ran on the GPU")


def check(run: Run) -> Iterator[Finding]:
    """At most one remark."""
    if not run.rows("device_ops"):
        return
    if ran_enough(run) and not _never_launches(run):
        if is_too_little(run) and not _only_communicates(run):
            yield _say_too_little(run)
        return
    calls = _list_calls(run)
    lines = []
    if calls.height:
        took = calls.item(-1, "end_ns") - calls.get_column("start_ns").min()
        lines = [
            f"{format_several(calls.height, 'call')} in {format_ns(took)}, the last one "
            f"{calls.item(-1, 'name')}"
        ]
    launches = int(calls.get_column("name").str.contains(LAUNCHES).sum())
    count = format_several(run.rows("device_ops"), "copy or memset", "copies and memsets")
    yield build_finding(
        RULE,
        f"No kernel ran, though {format_several(launches, 'call')} launched one, and {count}: the "
        "launches failed, or what they ran was not recorded."
        if launches
        else f"No kernel ran, and {count}: the program ended before its work, or does none on the "
        "GPU.",
        Evidence(lines, where={NO_WORK: True}),
        Advice(
            fix="check each launch (cudaGetLastError after it, compute-sanitizer): a binary for "
            "another architecture, too many threads or too much shared memory make it fail "
            "silently; what the program measured for them is not valid"
            if launches
            else "see in the program's output why it ended, or whether it found the GPU; then "
            "record it again",
            verify="sightline stats kernels AFTER",
            cause="a failed launch is silent until the program checks for errors"
            if launches
            else "the recording holds only the set-up",
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _only_communicates(run: Run) -> bool:
    """Whether collectives are all that was recorded, as NCCL's own tools do."""
    rows = run.ask("breakdown")
    return sum_column(rows, "exposed_comm_ns") > 0 and not sum_column(rows, "compute_ns")


def _list_calls(run: Run) -> pl.DataFrame:
    """The calls to the GPU's driver and runtime, in the order in which they ended."""
    columns = ["layer", "name", "start_ns", "end_ns"]
    return run.table("host_ops", columns).filter(IN_API).sort("end_ns")


def _never_launches(run: Run) -> bool:
    """Whether calls were recorded, none launches, and the device does next to nothing.

    A benchmark of copies launches nothing either, and is busy.
    """
    kinds = run.columns("device_ops", ("kind",)).get_column("kind")
    if not kinds.is_in(["memcpy", "memset"]).all():
        return False
    idle = run.ask("breakdown").select(pl.col("idle_ns").sum() / pl.col("window_ns").sum()).item()
    names = _list_calls(run).get_column("name")
    return bool(names.len() and 100 * idle >= _IDLE_PCT and not names.str.contains(LAUNCHES).any())


def _describe_pause(run: Run) -> list[str]:
    """The gap that is most of the window, where what ends it has a kernel that never ran before.

    That is all that one call handed to the device: a list of commands is submitted at once.
    """
    gaps = run.ask("idle_gaps").sort("duration_ns", descending=True)
    window_ns = sum_column(run.ask("breakdown"), "window_ns")
    if gaps.is_empty() or 2 * gaps.item(0, "duration_ns") < window_ns:
        return []
    gap = gaps.row(0, named=True)
    ops = run.table("device_ops", ["device_op_id", "launch_id", "kind", "name", "start_ns"])
    kernels = ops.filter(pl.col("kind") == "kernel").sort("start_ns", "device_op_id")
    handed = (pl.col("device_op_id") == gap["after_id"]) | (pl.col("launch_id") == gap["launch_id"])
    new = kernels.unique("name", keep="first", maintain_order=True).filter(handed)
    if new.is_empty():
        return []
    ns, name = gap["duration_ns"], shorten_kernel_name(new.item(0, "name"))
    share = format_pct(100 * ns / window_ns)
    return [f"{format_ns(ns)} ({share}) are one pause, before {name} runs for the first time"]


def _say_too_little(run: Run) -> Finding:
    """Of a few kernels that take microseconds: what is around them is start-up."""
    ops = run.table("device_ops", ["kind", "start_ns", "end_ns"])
    took = ops.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    kernels = ops.filter(pl.col("kind") == "kernel").height
    copies = format_several(ops.height - kernels, "copy or memset", "copies and memsets")
    what = format_several(kernels, "kernel") + (f" and {copies}" if ops.height > kernels else "")
    pause = _describe_pause(run)
    lines = [*pause, *list_parts(run, ask_rules(run), find_largest_copy(run))]
    return build_finding(
        RULE,
        f"{what} took {format_ns(int(took))} in all: too little to judge, and everything around "
        "it is start-up.",
        Evidence(lines, where={TOO_LITTLE: "too little ran: nothing shows that it recurs"}),
        Advice(
            fix="record a problem of real size, several times, after a warm-up",
            verify="sightline stats kernels AFTER",
            cause="kernels are loaded, and some are compiled, when they are first used"
            if pause
            else "the recording holds a first call or a test",
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )
