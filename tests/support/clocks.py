"""Kernels beside samples of their device's clock, as Nsight Systems exports them."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from synth_nsys import Export

MS = 1_000_000
CLOCK, REASONS = "GPC Clock Frequency [MHz]", "Clock Event Reasons"


def ten_kernels(
    folder: Path, mhz: int | None, reasons: int | None = None, best_hz: int | None = 1_980_000_000
) -> Run:
    """Ten kernels of 2 ms without a gap, at one clock, on a device whose best may be known."""
    export = Export("3.25.0")
    if best_hz is not None:
        export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", smCount=132, clockRate=best_hz)
    for number, (metric, value) in enumerate(((CLOCK, mhz), (REASONS, reasons)), start=5):
        if value is not None:
            export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=number, metricName=metric)
            export.add("GPU_METRICS", timestamp=0, typeId=0, metricId=number, value=value)
    for i in range(10):
        at = 10_000 + 2 * MS * i
        export.api("cudaLaunchKernel", 1_000 * i, 1_000 * i + 500, i + 1)
        export.kernel("gemm", at, at + 2 * MS, i + 1)
    folder.mkdir(parents=True, exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))
