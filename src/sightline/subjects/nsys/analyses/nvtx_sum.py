"""NVTX ranges by name: nsys calls it nvtx_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import NVTX_HINT, declare_name, list_nvtx_ranges
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "nvtx_sum",
    "How long did the annotated ranges take in all? (as nsys stats)",
    list_nvtx_ranges,
    by=[
        declare_name("Style", "PushPop or StartEnd"),
        declare_name("Range", "domain and text of the range"),
    ],
    count="Instances",
    what="annotated ranges",
    hint=NVTX_HINT,
    notes=("Nested ranges are each counted in full.",),
)
