"""Calls are named as people write them."""

from __future__ import annotations

from pathlib import Path

from support import exports
from synth_nsys import Export


def test_the_version_behind_a_call_is_not_shown(tmp_path: Path) -> None:
    """Twenty kernels, a wait behind each; `cuMemAlloc_v2` is the driver's own name."""
    export = Export()
    for i in range(20):
        at = 100_000 * i
        export.api("cudaLaunchKernel_v7000", at, at + 5_000, 3 * i)
        export.kernel("k", at + 10_000, at + 20_000, 3 * i)
        export.api("cudaDeviceSynchronize_v3020", at + 6_000, at + 21_000, 3 * i + 1)
        export.api("cuMemAlloc_v2", at + 22_000, at + 80_000, 3 * i + 2)
    found = [f for f in exports.opened(tmp_path, export).findings() if not f.abstained]
    told = "\n".join(line for f in found for line in (f.title, f.summary, *f.evidence))
    assert "_v3020" not in told and "_v7000" not in told
    assert "cudaDeviceSynchronize" in told
    assert "cuMemAlloc_v2" in told
