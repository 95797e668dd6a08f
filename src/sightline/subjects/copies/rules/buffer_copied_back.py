"""In each turn a buffer is filled and overwritten, and the result is copied back.

Symptom
    A fill, a kernel and a copy within the GPU, of as many bytes, again and again on one stream.

Why it hurts
    Both pass over the whole buffer and compute nothing: the fill writes what the kernel overwrites,
    the copy reads and writes what two swapped pointers would give.

Evidence
    Fills and copies within the GPU of the same size that take turns on a stream, with a kernel
    between them. Addresses are not recorded, so that they are one pair of buffers is a conclusion.
    The gain is a replay without both: an upper bound.

Threshold
    Buffers of 1 MiB and more, four turns and more (ours: fewer may be chance). Both take over 5 %
    of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    Swap the two pointers after each turn instead of copying back (ping-pong buffers), and drop the
    fill where the kernel writes every element.

False positives
    A kernel that adds to what is there needs its zeros; a copy may keep a state on purpose.

References
    CUDA C++ Best Practices Guide, "Memory Optimizations"; PyTorch Performance Tuning Guide, on
    needless copies.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, Loss, keep_notable, make_finding
from sightline.replay.gains import sum_windows
from sightline.replay.replay import remove_ops
from sightline.subjects.copies.buffers import list_copied_back

RULE = Rule("buffer-copied-back", "Buffers filled and copied back each iteration")
_DEVICE = ["rank", "device_id"]
_LENGTH = pl.col("end_ns") - pl.col("start_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    moves = list_copied_back(run).with_columns(ns=_LENGTH)
    if moves.is_empty():
        return
    ids = moves.get_column("device_op_id")
    cost = int(moves.get_column("ns").sum())
    found = make_finding(
        run,
        RULE,
        "Buffers are filled that are overwritten, and results are copied back to where the next "
        f"iteration reads them: {format_pct(100 * cost / sum_windows(run))} of the window.",
        Loss(
            cost_ns=cost,
            bound_ns=find_largest(moves.group_by(_DEVICE).agg(pl.col("ns").sum()), "ns"),
            change=lambda nodes: remove_ops(nodes, ids),
        ),
        Evidence(
            [*_describe_buffers(moves), "that both are of one pair of buffers is not recorded"],
            rows=_list_longest(moves),
            where={
                "ranks": moves.get_column("rank").unique().sort().to_list(),
                "stream_id": moves.item(0, "stream_id"),
            },
            calls=moves.select("ns", host_op_id="launch_id"),
        ),
        Advice(
            fix=choose_fix(
                run,
                "swap the two buffers after each iteration instead of copying back, and drop the "
                "fill where the kernel writes every element",
                pytorch="write into two tensors alternately (out=...), and torch.empty "
                "where everything is overwritten",
                native="swap the two pointers after each iteration instead of copying back, and "
                "drop the memset where the kernel writes every element",
            ),
            verify="sightline stats breakdown AFTER: exposed_copy_pct under 5",
            cause="each iteration reads one buffer, writes another and copies it back",
            sources=("CUDA C++ Best Practices Guide: Memory Optimizations",),
        ),
        confidence="medium",
        is_bound=True,
    )
    yield from keep_notable(run, found)


def _describe_buffers(moves: pl.DataFrame) -> list[str]:
    """'377 × memset of 268.4 MB, 31.46 ms', those that take longest."""
    groups = (
        moves.group_by("kind", "bytes")
        .agg(n=pl.len(), ns=pl.col("ns").sum())
        .sort("ns", "kind", "bytes", descending=[True, False, False])
    )
    return [
        f"{format_count(n)} × {kind} of {format_bytes(size)}, {format_ns(ns)}"
        for kind, size, n, ns in groups.head(MAX_ROWS).rows()
    ]


def _list_longest(moves: pl.DataFrame) -> list[dict[str, object]]:
    return (
        moves.sort("ns", "device_op_id", descending=[True, False])
        .head(MAX_ROWS)
        .select(*_DEVICE, "stream_id", "device_op_id", "start_ns", "end_ns", "bytes", "launch_id")
        .to_dicts()
    )
