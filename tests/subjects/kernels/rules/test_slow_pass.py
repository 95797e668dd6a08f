"""slow-pass: kernels named after one pass over data, against the array that was copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support import exports
from support.exports import Export
from support.rules import answers, assert_silent

RULE = "slow-pass"
US = 1_000
SIZE = 64 << 20
GRID = SIZE // 4 // 256  # a thread for each float
# Once, at 80 % of an RTX 2080 Ti's 616 GB/s.
ONCE_NS = SIZE / 616 / 0.8


def passes(
    folder: Path, name: str, length_us: int, *, size: int = SIZE, grid: int = GRID, runs: int = 10
) -> Run:
    """An upload of 1 ms, and so many launches one after another."""
    export = Export()
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA GeForce RTX 2080 Ti", smCount=68)
    export.api("cudaMemcpy", 0, 1_000 * US, 1)
    export.copy(1, 10 * US, 1_000 * US, 1, size, 1, 2)
    for n in range(runs):
        at = (1_010 + n * length_us) * US
        export.api("cudaLaunchKernel", 1_001 * US + n, 1_001 * US + n + 1, 2 + n)
        export.kernel(name, at, at + length_us * US, 2 + n, gridX=grid, blockX=256)
    return exports.opened(folder, export)


@pytest.mark.parametrize(
    ("name", "times", "often"),
    [
        ("reduceNeighbored(int *, int *, unsigned int)", 1, "once"),
        ("transposeNaive(float *, float *)", 2, "twice"),
        ("vectorAdd(float *, float *, float *)", 3, "three times"),
    ],
)
def test_five_times_what_one_pass_takes(tmp_path: Path, name: str, times: int, often: str) -> None:
    """All but that is gained: no less than each algorithm moves."""
    length = round(5 * times * ONCE_NS / US)
    (found,) = answers(passes(tmp_path, name, length), RULE)
    gain = 10 * (length * US - times * ONCE_NS)
    assert found.gain_ns == pytest.approx(gain, rel=0.001)
    assert "takes 5.0 times what its data need" in found.summary
    assert f"to pass {often} over the 67.11 MB that were copied" in " ".join(found.evidence)
    assert "warp shuffles" in (found.fix or "")
    assert found.confidence == "medium"


@pytest.mark.parametrize(
    "case",
    [
        {"name": "reduce6(float *)", "length_us": round(1.9 * ONCE_NS / US)},
        {"name": "update_cells(float *)", "length_us": 5_000},
        {"name": "reduce6(float *)", "length_us": 5_000, "grid": GRID // 32},
        {"name": "reduce6(float *)", "length_us": 5_000, "grid": 8 * GRID},
        {"name": "reduce6(float *)", "length_us": 5_000, "size": 8 << 20, "grid": GRID // 8},
        {"name": "void cub::DeviceReduceKernel<float>(T1)", "length_us": 5_000},
    ],
    ids=["near it", "another algorithm", "threads that loop", "other data", "small", "a library's"],
)
def test_silence(tmp_path: Path, case: dict[str, object]) -> None:
    assert_silent(passes(tmp_path, **case), RULE)  # type: ignore[arg-type]
