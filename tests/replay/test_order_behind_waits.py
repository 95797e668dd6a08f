"""A wait of the host that is taken out leaves its order to the streams: as an event would."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support import exports
from support.rules import answers
from synth_nsys import Export

US = 1_000


def levels(folder: Path, streams: int) -> Run:
    """Twelve levels of 500 µs, each launched behind a wait for the one before, 100 µs later.

    They come behind a pause of 9 ms, which is idle time, too, and none of the waits'.
    """
    export = Export()
    export.api("cudaLaunchKernel", 0, 5 * US, 99)
    export.kernel("first", 10 * US, 1_000 * US, 99, gridX=1)
    for i in range(12):
        at = 10_000 * US + 700 * US * i
        export.api("cudaLaunchKernel", at, at + 5 * US, i + 1)
        export.kernel("level", at + 10 * US, at + 510 * US, i + 1, stream=7 + i % streams, gridX=1)
        export.api("cudaDeviceSynchronize", at + 10 * US, at + 600 * US, 0)
    return exports.opened(folder, export)


@pytest.mark.parametrize("streams", [1, 4])
def test_kernels_that_a_wait_kept_apart_stay_apart(tmp_path: Path, streams: int) -> None:
    """Of 200 µs between two levels all can go, and no kernel runs beside the one before it."""
    (found,) = answers(levels(tmp_path, streams), "sync-in-step")
    assert found.gain_ns is not None
    assert 10 * 190 * US <= found.gain_ns <= 11 * 200 * US
