"""A GPU does not answer its driver any more.

Symptom
    nvidia-smi prints "GPU is lost", "[Unknown Error]" or ERR! where values should stand, or cannot
    determine a device's handle.

Why it hurts
    Whatever runs on that GPU has ended or hangs, and a job that spans several waits for it. Figures
    of the others are of a node that cannot work as a whole.

Evidence
    What the log says of the GPU, with its PCI address or number (`sightline sql LOG "select * from
    device_events"`).

Threshold
    None: a GPU answers, or not.

Fix
    Read the XID in the kernel log: 79 (the GPU has fallen off the bus) needs a restart of the node,
    and where it comes again the GPU, its power or its riser replaced.

False positives
    A GPU that was taken out of the machine, or given to a virtual one, while the log was written.

References
    NVIDIA, NVML API Reference: NVML_ERROR_GPU_IS_LOST; NVIDIA, XID Errors, 79.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding

RULE = Rule("lost-gpu", "A GPU does not answer")
_MOST_NAMED = 4


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, of all GPUs that are lost."""
    said = run.table("quality").filter(pl.col("kind") == "device_lost")
    if said.is_empty():
        return
    lost = (
        run.table("device_events")
        .filter(pl.col("event") == "device-lost")
        .unique(["rank", "device_id", "text", "source"], keep="first", maintain_order=True)
    )
    devices = lost.get_column("device_id").drop_nulls().unique().sort().to_list()
    places = lost.filter(pl.col("device_id").is_null()).get_column("source").unique().to_list()
    named = [f"GPU {number}" for number in devices] + sorted(filter(None, places))
    what = ", ".join(named[:_MOST_NAMED]) or "A GPU"
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    verb = "do not answer" if len(named) > 1 else "does not answer"
    lines = lost.get_column("text").drop_nulls().unique(maintain_order=True).to_list()
    yield build_finding(
        RULE,
        f"{what}{more} {verb} the driver: what ran there has ended or hangs.",
        Evidence(
            lines[:_MOST_NAMED] or said.get_column("text").to_list()[:_MOST_NAMED],
            where={"device_id": devices[0]} if len(devices) == 1 else {},
        ),
        Advice(
            fix="read the XID in the kernel log:  dmesg | grep -i xid  then  sightline explain xid "
            "79; drain the node, and restart it",
            verify="sightline health: every GPU answers",
            cause=f"{format_several(max(len(named), 1), 'GPU')} lost",
        ),
        severity="critical",
        confidence="high",
        states_limit=True,
        is_asked=True,
    )
