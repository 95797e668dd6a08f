"""NVTX ranges by name: nsys calls it nvtx_sum."""

from __future__ import annotations

from sightline.analyses.nsys._shared import NVTX_HINT, name_column, nvtx_ranges
from sightline.analyses.nsys._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "nvtx_sum",
    "How long did the annotated ranges take in all? (as nsys stats)",
    nvtx_ranges,
    by=[
        name_column("Style", "PushPop or StartEnd"),
        name_column("Range", "domain and text of the range"),
    ],
    count="Instances",
    what="annotated ranges",
    hint=NVTX_HINT,
    notes=("Nested ranges are each counted in full.",),
)
