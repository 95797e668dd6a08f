"""OpenMP events by name: nsys calls it openmp_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import declare_name, list_host_ops
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "openmp_sum",
    "How long did OpenMP events take in all? (as nsys stats)",
    lambda run: list_host_ops(run, "openmp").rename({"name": "Name"}),
    by=[declare_name("Name", "event")],
    count="Count",
    what="OpenMP events",
    hint="Record with:  nsys profile --trace=cuda,openmp",
)
