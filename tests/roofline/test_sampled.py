"""Bounds by samples: what they hold of kernels whose truth is drawn, and what they rest on."""

from __future__ import annotations

import random

import pytest

from sightline.roofline.launch import limit_device
from sightline.roofline.sampled import (
    Chip,
    Samples,
    Shape,
    bound_rate,
    bound_share,
    bound_warps,
    count_warps,
    find_unsized,
    fits_time,
    sum_operations,
    sum_requests,
)

A100 = Chip(limit_device("8.0"), 108, 1_410_000_000)  # 64 warps, 32 blocks an SM
T4 = Chip(limit_device("7.5"), 40, 1_590_000_000)
SHAPE = Shape(1, 10_000, 256, 32, 0)


def make_samples(issued: dict[str | None, int], count: int = 1000, **more) -> Samples:
    known = {"period_cycles": None, "seconds": None, "parts": False} | more
    return Samples(count, issued, **known)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        (SHAPE, 32, 64),  # eight blocks of eight warps fit
        (Shape(1, 10_000, 256, 168, 0), 4, 8),  # registers: one block, as in cutlassTiles
        (Shape(1, 10_000, 512, 38, 0), 24, 48),  # three blocks, as in prof1
        (Shape(1, 10_000, 128, 32, 163_840), 2, 4),  # shared memory: one block
        (Shape(1, 108 * 3, 256, 32, 0), 12, 24),  # the grid has three blocks for each SM
        (Shape(1, 110, 256, 32, 0), 110 / 108 * 4, 16),  # two SMs have a second block
        (Shape(1, 5, 256, 32, 0), 4, 8),  # most SMs have none, and these are not sampled
        (Shape(1, 1, 32, 32, 0), 1, 1),  # a warp is a warp
    ],
)
def test_active_warps(shape: Shape, low: float, high: float) -> None:
    found = bound_warps([shape], A100)
    assert (found.low, found.high) == (pytest.approx(low), high)


def test_active_warps_of_unlike_or_unknown_launches() -> None:
    both = bound_warps([SHAPE, Shape(9, 10_000, 256, 168, 0)], A100)
    assert (both.low, both.high) == (4, 64)
    nothing = bound_warps([], A100)
    assert (nothing.low, nothing.high) == (1, 64)
    # Before compute capability 8.0 the driver keeps no shared memory: 64 KiB are one block's.
    assert bound_warps([Shape(1, 9999, 128, 32, 65_536)], T4).high == 4


def test_launched_warps() -> None:
    assert count_warps([Shape(3, 10, 33, 32, 0), Shape(1, 1, 64, 32, 0)]) == 3 * 10 * 2 + 2


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 1.0])
def test_a_share_lies_in_its_bounds_as_often_as_it_says(share: float) -> None:
    chance, whole, kernels = random.Random(7), 2000, 300
    inside = 0
    for _ in range(kernels):
        found = bound_share(sum(chance.random() < share for _ in range(whole)), whole)
        inside += found.low - 1e-12 <= share <= found.high + 1e-12
    # Three standard deviations of 300 below 95 %.
    assert inside / kernels >= 0.95 - 3 * (0.05 * 0.95 / kernels) ** 0.5


def test_the_truth_of_drawn_kernels_lies_within() -> None:
    """Kernels with any number of warps that the assumption allows, any rate, and any mix."""
    chance, kernels, inside = random.Random(3), 300, {"cycle": 0, "second": 0}
    for _ in range(kernels):
        bounds = bound_warps([SHAPE], A100)
        warps = chance.uniform(bounds.low, bounds.high)
        issue = chance.uniform(0.05, 3.9)  # instructions of an SM in a cycle
        math_share, clock = chance.uniform(0.05, 0.8), chance.uniform(0.7, 1) * 1.41e9
        active, seconds, period = chance.uniform(0.5, 1), 0.02, 1 << 12
        count = int(108 * active * seconds * clock / period)
        met = round(chance.gauss(0, 1) * (count * issue / warps) ** 0.5 + count * issue / warps)
        math = sum(chance.random() < math_share for _ in range(max(met, 1)))
        issued = {"FFMA": math, "IMAD": max(met, 1) - math}
        samples = make_samples(issued, count, period_cycles=period, seconds=seconds)
        part, each = sum_operations(samples)["fp32"]
        rate = bound_rate(part, each, samples, [SHAPE], A100)
        flop = issue * math_share * 64
        inside["cycle"] += rate.per_cycle.low <= flop <= rate.per_cycle.high
        assert rate.per_second is not None
        truth = flop * 108 * active * clock
        inside["second"] += rate.per_second.low <= truth <= rate.per_second.high
    assert min(inside.values()) / kernels >= 0.95


def test_warps_that_end_are_a_lower_bound_without_a_period() -> None:
    """Every warp executes EXIT: 1000 FFMA for each that was met are as many for each warp."""
    many = make_samples({"FFMA": 1_000_000, "EXIT": 600, "@EXIT": 400}, 50_000_000, seconds=0.01)
    rate = bound_rate(1_000_000, (64.0, 64.0), many, [SHAPE], A100).per_second
    assert rate is not None
    exact = 80_000 * 1000 * 64 / 0.01
    assert 0.9 * exact < rate.low < exact
    none = make_samples({"FFMA": 1000}, 50_000, seconds=0.01)
    rate = bound_rate(1000, (64.0, 64.0), none, [SHAPE], A100).per_second
    # None among a thousand: one warp's instructions are at least some 260 FFMA.
    assert rate is not None
    assert rate.low == pytest.approx(80_000 * 64 / 0.01 * 1000 / 1.96**2, rel=0.01)
    # Of what no launch is known, nothing follows.
    unknown = bound_rate(1_000_000, (64.0, 64.0), many, [], A100).per_second
    assert unknown is not None
    assert unknown.low == 0


def test_more_samples_than_cycles_do_not_count_cycles() -> None:
    cycles = 108 * 0.01 * 1.41e9
    for factor, fits in ((0.2, True), (1.0, True), (1.2, False), (4.0, False)):
        count = int(factor * cycles / 1024)
        samples = make_samples({"FFMA": 9}, count, period_cycles=1024, seconds=0.01)
        assert fits_time(samples, A100) is fits
    assert not fits_time(make_samples({"FFMA": 9}), A100)


def test_nothing_exceeds_what_the_clock_allows() -> None:
    samples = make_samples({"FFMA": 1, "EXIT": 0}, 10**7, period_cycles=1024, seconds=1e-6)
    rate = bound_rate(1, (64.0, 64.0), samples, [SHAPE], A100).per_second
    assert rate is not None
    assert rate.low <= rate.high


def test_flop_of_an_instruction() -> None:
    issued = {"FFMA": 3, "FADD": 1, "DFMA": 2, "HFMA2": 1, "HADD2": 1, "HMMA.16816.F32.BF16": 5,
              "DMMA.8x8x4": 1, "IMAD": 7, None: 4, "HGMMA.64x256x16.F32": 2}  # fmt: skip
    assert sum_operations(make_samples(issued)) == {
        "fp32": (4, (7 / 4 * 32, 7 / 4 * 32)),
        "fp64": (2, (64, 64)),
        # An HFMA2 may load a constant.
        "fp16": (2, (32, 96)),
        "bf16_tensor": (5, (4096, 4096)),
        "fp64_tensor": (1, (512, 512)),
        "fp16_tensor": (2, (131_072, 131_072)),  # a quarter of the warp group's
    }


def test_lanes_that_may_be_off() -> None:
    """By a predicate none may be on; where lanes part and meet again, one."""
    assert sum_operations(make_samples({"@FFMA": 2}))["fp32"] == (2, (0, 64))
    assert sum_operations(make_samples({"FFMA": 2}, parts=True))["fp32"] == (2, (2, 64))
    # All lanes of a warp take part in a matrix product.
    assert sum_operations(make_samples({"@HMMA.16816.F16": 1}, parts=True)) == {
        "fp16_tensor": (1, (4096, 4096))
    }


def test_bytes_that_are_asked_of_the_l1() -> None:
    issued = {"LDG.128": 1, "STG": 1, "@LDL.U8": 2, "LDS.128": 9, "LDGSTS.64": 1, "LDG.odd": 5}
    assert sum_requests(make_samples(issued)) == (5, (28 * 32 / 5, 30 * 32 / 5))
    assert sum_requests(make_samples({"LDS": 3})) == (0, (0.0, 0.0))


def test_products_without_a_size() -> None:
    assert find_unsized({"HMMA.SP": 2, "QMMA": 1, "@HMMA": 3, "HMMA.16816.F16": 9, None: 1}) == 6
