"""Graphs are captured or built in the window, while the device waits.

Symptom
    Calls of cudaStreamBeginCapture and cudaGraphInstantiate between launches of graphs.

Why it hurts
    A captured call puts nothing on the device, and making a graph of a thousand nodes executable
    takes milliseconds. A graph pays where it is captured once and launched often.

Evidence
    Gaps in which the launching thread captured (cudaStreamBeginCapture to cudaStreamEndCapture)
    or built a graph (cudaGraphInstantiate, cudaGraphExecUpdate, cudaGraphAdd...Node). The gain is a
    replay in which both take no time.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Capture in the warm-up, once for each shape, and keep the executable graph; where only
    parameters change, update it (cudaGraphExecUpdate) or let the kernels read them from memory.

False positives
    A recording of a server's start, in which it captures its graphs once and for all.

References
    CUDA C++ Programming Guide, "CUDA Graphs"; PyTorch, torch.cuda.CUDAGraph; vLLM,
    cudagraph_capture_sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.host_changes import remove_ranges
from sightline.timeline import causes
from sightline.timeline.host_ranges import list_capture_ranges

RULE = Rule(
    "graph-capture-in-window",
    "Graph capture in the window",
    causes=(causes.GRAPH_CAPTURE,),
    explains_lateness=True,
    over_time=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return
    ranges = list_capture_ranges(run)
    spent = sum_column(ranges.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    yield make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window while the host captures or "
        "builds graphs.",
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns,
            change=lambda nodes: remove_ranges(nodes, ranges),
        ),
        Evidence(
            [
                *mine.evidence,
                f"{format_several(ranges.height, 'time')} captured or built, {format_ns(spent)} in "
                "all",
            ],
            rows=mine.rows,
            where=mine.where("graph_capture"),
            calls=mine.calls,
        ),
        Advice(
            fix=choose_fix(
                run,
                "capture once for each shape, before the loop, and replay that graph",
                serving="capture at start-up the sizes of batches that occur, and no others",
                pytorch="capture once for each shape, before the loop, and replay that graph: "
                "static input buffers with torch.cuda.CUDAGraph, or torch.compile("
                'mode="reduce-overhead") with shapes that stay',
                native="capture and instantiate once, before the loop; where only parameters "
                "change, cudaGraphExecUpdate, or let kernels read them from device memory",
            ),
            verify="sightline stats idle AFTER: total_ns of graph_capture",
            cause="a graph is captured or built where it could be launched again",
            sources=("CUDA C++ Programming Guide: CUDA Graphs",),
        ),
    )
