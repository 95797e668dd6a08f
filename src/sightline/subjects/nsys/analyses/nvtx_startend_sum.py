"""NVTX start/end ranges by name: nsys calls it nvtx_startend_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import NVTX_HINT, declare_name, list_nvtx_ranges
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "nvtx_startend_sum",
    "How long did the start/end ranges take in all? (as nsys stats)",
    lambda run: list_nvtx_ranges(run, kinds=("startend",)),
    by=[declare_name("Range", "domain and text of the range")],
    count="Instances",
    what="start/end ranges",
    hint=NVTX_HINT,
    notes=("Nested ranges are each counted in full.",),
)
