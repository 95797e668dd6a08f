"""CUDA API calls by name: nsys calls it cuda_api_sum."""

from __future__ import annotations

from sightline.analyses.nsys._shared import API_HINT, api_name, host_rows, name_column
from sightline.analyses.nsys._sums import sum_ranges

ANALYSIS, run = sum_ranges(
    "cuda_api_sum",
    "How long did the CUDA API calls take in all? (as nsys stats)",
    lambda run: host_rows(run, "runtime", "driver").with_columns(Name=api_name()),
    by=[name_column("Name", "API function")],
    count="Num Calls",
    what="CUDA API calls",
    hint=API_HINT,
)
