"""Launch calls wait for room in a stream's queue, and other work is launched late for it.

Symptom
    Launch calls that take as long as a kernel instead of a few µs, on a stream with about a
    thousand operations pending; another stream or device runs dry meanwhile.

Why it hurts
    A full queue stops the thread. By itself that is a good sign: the host is far ahead, and the
    device is the limit. It costs time where the same thread also feeds another stream or device, or
    has other work to do: that waits behind the full queue.

Evidence
    Launch calls longer than twice the usual one, with a thousand operations of their stream not
    yet started (`sightline stats dependencies`: kind finish with a launch edge); Nsight Systems
    also records "Command buffer full". The gain is a replay in which these calls return at once.

Threshold
    A queue takes 1022 to 1024 operations (HolisticTraceAnalysis, queue length: launches block from
    1024 on). Reported where the replay gains over 5 % of the window; a remark where calls block for
    over 5 % of it and nothing is gained.

Fix
    Launch the other stream's or device's work first, or from a thread of its own; capture the
    burst as one CUDA graph, which is one entry in the queue.

False positives
    A program with one stream: a full queue is how it should be, and the rule only remarks on it.

References
    HolisticTraceAnalysis, "Queue length analysis"; CUPTI, CUpti_ActivityOverheadKind
    (COMMAND_BUFFER_FULL).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.replay.gains import replay_gain as replayed
from sightline.replay.gains import sum_windows
from sightline.replay.graph import list_nodes
from sightline.replay.replay import is_finish, remove_waits

RULE = Rule("queue-full", "Launch queue full")
# A queue of that length is what can block: fewer operations on a device need no look.
_LEAST = 1_000


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if run.rows("device_ops") < _LEAST or not run.rows("host_ops"):
        return
    blocked = _list_blocked(run)
    waited = sum_column(blocked, "ns")
    # No replay can gain more than the threads waited.
    if 100 * waited < NOTABLE_PCT * sum_windows(run):
        return

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return remove_waits(nodes, _list_full(nodes))

    gained = replayed(run, without).ns
    if not gained:  # the device limits, and nothing is lost by it
        return
    some = f"{format_several(blocked.height, 'launch call')}, {format_ns(waited)} in all"
    buffers = run.scan("host_ops").filter(
        pl.col("layer") == "overhead",
        pl.coalesce("category", "name").str.contains("(?i)command buffer full"),
    )
    seen = buffers.select(pl.len()).collect().item()
    found = make_finding(
        run,
        RULE,
        f"Launch calls block on a full queue ({some}). Work of other streams or devices is "
        f"launched up to {format_ns(gained)} late because of it.",
        Loss(cost_ns=gained, bound_ns=gained),
        Evidence(
            [
                f"the calls block for {format_pct(100 * waited / sum_windows(run))} of the window",
                *([f"{format_count(seen)} × command buffer full, as recorded"] if seen else []),
            ],
            rows=blocked.head(MAX_ROWS).to_dicts(),
            where={"ranks": blocked.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="launch the other stream's or device's work first or from its own thread, or "
            "capture the burst as one CUDA graph",
            verify="sightline findings AFTER: no queue-full above info",
            cause="one thread launches faster than the stream executes",
            sources=("HolisticTraceAnalysis: a queue blocks at 1024 operations",),
        ),
        confidence="medium",
    )
    yield replace(found, method="replay of the dependency graph without it")


def _list_full(nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are returns of launch calls that waited for room."""
    return is_finish(nodes) & nodes.get_column("launch").is_not_null()


def _list_blocked(run: Run) -> pl.DataFrame:
    """The calls that waited: the longest first."""
    nodes = list_nodes(run)
    calls = nodes.filter(_list_full(nodes))
    begin = nodes.get_column("start_ns").gather(calls.get_column("prev"))
    return (
        calls.with_columns(call_ns=begin)
        .select(
            "rank",
            "device_id",
            launch_id="ref_id",
            start_ns="call_ns",
            end_ns="end_ns",
            ns=pl.col("end_ns") - pl.col("call_ns"),
        )
        .sort("ns", "start_ns", descending=[True, False])
    )
