"""Small exports of Nsight Systems, opened."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.model.run import Run
from synth_nsys import Export

MS = 1_000_000
# The export's numbers of directions and kinds of memory.
HTOD, DTOH, DTOD = 1, 2, 8
PAGEABLE, PINNED, ON_DEVICE = 0, 1, 2


def opened(folder: Path, export: Export) -> Run:
    """The run that the tool makes of an export."""
    folder.mkdir(parents=True, exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))


def one_copy(name: str, kind: int, size: int, src: int, dst: int) -> Export:
    """A kernel [0, 900), and a copy [1000, 1100), called by that name at 950 (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api(name, 950, 990, 2)
    export.copy(kind, 1_000, 1_100, 2, size, src, dst)
    return export


def one_fill(name: str, memory: int) -> Export:
    """A kernel [0, 900), and a fill [1000, 1100), called by that name at 950 (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api(name, 950, 990, 2)
    export.fill(1_000, 1_100, 2, 64, memory)
    return export


def one_wait(name: str) -> Export:
    """Two kernels in [0, 1100), and a call of that name in [1100, 1140) (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api("cudaLaunchKernel", 10, 10, 2)
    export.kernel("k", 900, 1_100, 2)
    export.api(name, 1_100, 1_140, 3)
    return export


def two_kernels(first: tuple[int, int], second: tuple[int, int]) -> Export:
    """Two kernels, [start, end) in ms."""
    export = Export()
    for number, (start, end) in enumerate((first, second), start=1):
        export.api("cudaLaunchKernel", start * MS, start * MS + 10, number)
        export.kernel("k", start * MS + 20, end * MS + 20, number)
    return export
