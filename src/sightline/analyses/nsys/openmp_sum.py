"""OpenMP events by name: nsys calls it openmp_sum."""

from __future__ import annotations

from sightline.analyses.nsys._shared import host_rows, name_column
from sightline.analyses.nsys._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "openmp_sum",
    "How long did OpenMP events take in all? (as nsys stats)",
    lambda run: host_rows(run, "openmp").rename({"name": "Name"}),
    by=[name_column("Name", "event")],
    count="Count",
    what="OpenMP events",
    hint="Record with:  nsys profile --trace=cuda,openmp",
)
