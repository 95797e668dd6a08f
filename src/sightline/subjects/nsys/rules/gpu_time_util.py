"""The GPU has little to do in parts of the run, as nsys analyze lists them.

Symptom
    Phases in which kernels and copies cover less than half of the time.

Why it hurts
    The device is paid for and mostly waits.

Evidence
    The run of each process and device in 30 parts: those in use for less than 50 % of their
    length, neighbors joined (`sightline stats gpu_time_util`). The cost is what is missing to
    100 %.

Threshold
    50 % of 30 parts: the vendor's own defaults. A warning from 5 % of the window (TraceLens
    agent, 2026-08), else a note.

Fix
    See what the host did meanwhile: gpu-idle, launch-bound and host-late name it.

False positives
    Phases that need no GPU.

References
    NVIDIA Nsight Systems User Guide, "Expert Systems Analysis" (gpu_time_util). Asked with
    --vendor only: the rules of sightline say what it costs the device: gpu-idle.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.nsys.rules._shared import list_vendor_rows

RULE = Rule("gpu-time-util", "Low GPU utilization in parts of the run", vendor=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from list_vendor_rows(
        run,
        RULE,
        "gpu_time_util",
        "Parts of the run with less than 50 % utilization",
        fix="sightline findings without --vendor says what the host did meanwhile",
        lost=pl.col("Duration (ns)") * (1 - pl.col("In-Use (%)") / 100),
    )
