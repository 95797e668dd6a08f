"""The device waits for the next batch.

Symptom
    A long gap at the start of each step, while the launching thread is inside the data loader.

Why it hurts
    The program runs at the speed of reading, decoding and collating on the CPU; a faster device
    changes nothing.

Evidence
    Gaps whose launch came late because its thread was inside a range called DataLoader for most
    of the gap (`sightline stats idle_rules`, rule dataloader-starved). The gain is a replay in
    which the loader takes no time.

    Before the first batch of a pass over a loader with workers the thread is silent while they are
    forked: that is loading, too (timeline/loader_starts.py).

Threshold
    Over 10 % of the window (XProf: a step is input-bound where infeed is at or above 10 %).

Fix
    DataLoader(num_workers=..., pin_memory=True, persistent_workers=True, prefetch_factor=...);
    move decoding and augmentation out of __getitem__, or to the GPU.

False positives
    A first batch while workers start; choose the window with --window steady. A loader that
    itself waits for the GPU (a transform on the device) is a synchronization, not loading.

References
    XProf overview page (openxla/xprof); PyTorch Performance Tuning Guide, "Enable asynchronous
    data loading and augmentation".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import Advice, Evidence, Loss, abstain, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.replay import shorten_thinking
from sightline.subjects.idle.rules._loading import LOAD_AHEAD
from sightline.timeline import causes
from sightline.timeline.host_ranges import measure_loader_starts, measure_loading

RULE = Rule(
    "dataloader-starved",
    "Waiting for the DataLoader",
    causes=(causes.DATA_LOADING,),
    explains_lateness=True,
    apart=True,
)

LOADING_PCT = 10.0
_KEEP = (
    "DataLoader(..., persistent_workers=True), which keeps the workers and what they hold between "
    "passes; or use one iterator for several passes (a sampler that repeats)"
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    if not run.rows("host_ops"):
        yield abstain(RULE, "no CPU activity was recorded: record it too")
        return
    mine = claim_gaps(run, RULE, least_pct=LOADING_PCT)
    if mine is None:
        return

    starts = 2 * measure_loader_starts(run) > mine.cost_ns

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return shorten_thinking(nodes, measure_loading(run, nodes))

    yield make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window while the launching thread "
        + (
            "waits for the DataLoader to start its workers, pass after pass."
            if starts
            else "waits for the next batch in the DataLoader."
        ),
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(mine.evidence, rows=mine.rows, where=mine.where("data_loading"), calls=mine.calls),
        Advice(
            fix=_KEEP if starts else LOAD_AHEAD,
            verify="sightline stats idle AFTER: total_ns of data_loading",
            cause="each pass over the DataLoader starts its workers, and ends them after the "
            "last batch"
            if starts
            else "loading a batch takes longer than the GPU needs to process one"
            + (
                "; the training process loads it itself (num_workers=0)"
                if _loads_in_process(mine.host_op)
                else ""
            ),
            sources=("XProf overview page: input-bound at or above 10 %",),
        ),
    )


def _loads_in_process(host_op: str | None) -> bool:
    """Whether the loader's own name says that it has no workers."""
    return host_op is not None and "SingleProcess" in host_op
