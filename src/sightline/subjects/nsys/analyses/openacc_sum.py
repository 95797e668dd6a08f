"""OpenACC events by name: nsys calls it openacc_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import declare_name, list_host_ops
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "openacc_sum",
    "How long did OpenACC events take in all? (as nsys stats)",
    lambda run: list_host_ops(run, "openacc").rename({"name": "Name"}),
    by=[declare_name("Name", "event")],
    count="Count",
    what="OpenACC events",
    hint="Record with:  nsys profile --trace=cuda,openacc",
)
