"""Kernels that set up random number generators take a large part of the window.

Symptom
    A kernel such as `setup_kernel(curandState *)` that takes longer than the one that draws.

Why it hurts
    `curand_init` with a sequence number skips ahead in the generator's sequence, by matrix products
    in local memory for each thread. The states are all that it makes.

Evidence
    Kernel names and signatures. The gain is a replay in which each takes an empty kernel's time: an
    upper bound, as a generator without skipping ahead still writes its states.

Threshold
    Kernels of 10 µs and more; what could be saved is over 5 % of the window (TraceLens agent,
    2026-08).

Fix
    A counter-based generator (Philox), sequence 0 with a seed for each thread, or fewer threads.

False positives
    Kernels of that name that do something else, too. In a long run it happens once.

References
    cuRAND Library, Programming Guide: Device API Overview, Performance Notes.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.rules._launches import FLOOR_NS, LEAST_NS
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_computing
from sightline.timeline.generators import CAUSE, FIX, SOURCE, sets_up_generators

RULE = Rule("generator-setup", "Setting up random number generators")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    names = run.ask("kernels").select("name").unique().filter(sets_up_generators(pl.col("name")))
    if names.is_empty():
        return
    setting_up = list_computing(run).filter(
        pl.col("name").is_in(names.get_column("name").implode()), pl.col("length") >= LEAST_NS
    )
    found = find_shorter_kernels(
        run,
        RULE,
        setting_up.with_columns(factor=FLOOR_NS / pl.col("length")),
        "{share} of the window goes into the states of random number generators.",
        cause=CAUSE,
        fix=FIX,
        sources=(SOURCE,),
        is_bound=True,
    )
    if found:
        yield found
