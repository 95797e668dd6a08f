"""skinny-gemm: products of few rows, on an A100 of 2.039 TB/s."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import computed, kernel, opened, told

RULE = "skinny-gemm"


def product(folder: Path, a: list[int], b: list[int], length: int, name: str = "aten::mm") -> Run:
    """A product in a window of 1,000 µs."""
    events = [
        computed("aten::relu", 0, kernel("k", 100, 500 - length // 2)),
        computed(name, 20, kernel("gemm", 600 - length // 2, length), **told(a, b)),
        computed("aten::relu", 40, kernel("k", 600 + length // 2, 500 - length // 2)),
    ]
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}
    return opened(folder, events, deviceProperties=[gpu])


def test_eight_rows(tmp_path: Path) -> None:
    """8 × 8,000 × 8,000: 128.256 MB at 2.039 TB/s are 62.9 of 200 µs."""
    assert_speaks(
        product(tmp_path, [8, 8000], [8000, 8000], 200),
        RULE,
        cost_ns=137_099,
        gain_ns=137_099,
        evidence=["1 × aten::mm m=8 n=8000 k=8000, 200.0 µs at 31.5 % of its roof"],
        fix="a larger batch",
        severity="warning",
        confidence="medium",
    )


def test_at_the_memory_rate_nothing_is_lost(tmp_path: Path) -> None:
    """What lies above the roof is 4.7 % of the window."""
    assert_silent(product(tmp_path, [8, 8000], [8000, 8000], 110), RULE)


def test_128_rows_are_a_tile(tmp_path: Path) -> None:
    assert_silent(product(tmp_path / "a", [128, 8000], [8000, 8000], 400), RULE)
    assert_speaks(
        product(tmp_path / "b", [127, 8000], [8000, 8000], 400),
        RULE,
        cost_ns=335_231,
        gain_ns=335_231,
        evidence=["m=127"],
        fix="batch",
    )


def test_batched_products_are_mostly_attention(tmp_path: Path) -> None:
    run = product(tmp_path, [64, 8, 1000], [64, 1000, 1000], 400, "aten::bmm")
    assert_silent(run, RULE)
