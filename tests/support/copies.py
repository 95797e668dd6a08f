"""One transfer between two kernels of a stream: the same recording for all rules about copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.core.model.run import Run
from support.traces import Event, kernel, launched, opened

MB = 1_000_000


def transfer(name: str, ts: int, dur: int, size: int | None = MB, **place: Any) -> Event:
    """A copy or fill, by its name in Kineto's recordings."""
    cat = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    known = {} if size is None else {"bytes": size}
    return kernel(name, ts, dur, cat=cat, **known, **place)


def exposed_for(folder: Path, length: int, name: str, size: int | None = MB) -> Run:
    """A window of 1,000 µs without a gap: kernel, transfer of `length`, kernel, all queued.

    Without the transfer the second kernel follows the first: cost and gain are its length.
    """
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, transfer(name, 500, length, size), api="cudaMemcpyAsync"),
            launched(40, kernel("b", 500 + length, 510 - length)),
        ],
    )


def hidden_for(folder: Path, length: int, name: str) -> Run:
    """The same transfer on a stream of its own, beside a kernel of 1,000 µs."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 1_000)),
            launched(20, transfer(name, 500, length, stream=9), api="cudaMemcpyAsync"),
        ],
    )
