"""CUDA API calls by name: nsys calls it cuda_api_sum."""

from __future__ import annotations

from sightline.subjects.nsys.analyses._shared import (
    API_HINT,
    declare_name,
    list_host_ops,
    strip_api_version,
)
from sightline.subjects.nsys.analyses._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "cuda_api_sum",
    "How long did the CUDA API calls take in all? (as nsys stats)",
    lambda run: list_host_ops(run, "runtime", "driver").with_columns(Name=strip_api_version()),
    by=[declare_name("Name", "API function")],
    count="Num Calls",
    what="CUDA API calls",
    hint=API_HINT,
)
