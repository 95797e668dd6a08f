"""NVTX push/pop ranges by name: nsys calls it nvtx_pushpop_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import NVTX_HINT, declare_name, list_nvtx_ranges
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "nvtx_pushpop_sum",
    "How long did the push/pop ranges take in all? (as nsys stats)",
    lambda run: list_nvtx_ranges(run, kinds=("pushpop",)),
    by=[declare_name("Range", "domain and text of the range")],
    count="Instances",
    what="push/pop ranges",
    hint=NVTX_HINT,
    notes=("Nested ranges are each counted in full.",),
)
