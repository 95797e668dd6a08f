"""Copies by direction, their rate, and what is won by pinning and hiding them."""

from pathlib import Path

from support.printed import DOWN, MS, UP, open_sums
from support.rules import assert_silent, assert_speaks

KERNELS = [("k()", 10, 40 * MS, 4 * MS)]
COPIES = [(DOWN, 2, 100 * MS, 60 * MS), (UP, 4, 60 * MS, 20 * MS)]
SIZES = [(DOWN, 2, 500.0), (UP, 4, 1250.0)]


def test_pageable_and_synchronous(tmp_path: Path) -> None:
    calls = [("cudaMemcpy", 6, 165 * MS, 60 * MS)]
    # Pinned, they take 20 and 50 ms: of 200 ms 50 are left, with the kernels beside the uploads.
    assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, copies=COPIES, sizes=SIZES, calls=calls),
        "summed-copies",
        cost_ns=160 * MS,
        gain_ns=150 * MS,
        evidence=["80.0 %", "500.0 MB in 100.0 ms (5.0 GB/s)", "1.250 GB in 60.00 ms (20.8 GB/s)"],
        fix="pin",
        states_limit=True,
    )


def test_pinned_and_asynchronous_has_no_bound(tmp_path: Path) -> None:
    calls = [("cudaMemcpyAsync", 6, MS, MS), ("cudaHostAlloc", 2, MS, MS)]
    found = assert_speaks(
        open_sums(tmp_path, kernels=KERNELS, copies=COPIES, sizes=SIZES, calls=calls),
        "summed-copies",
        cost_ns=160 * MS,
        gain_ns=None,
        evidence=["link's rate", "sums do not show"],
        fix="copy less",
    )
    assert "pin " not in found.fix


def test_small_part(tmp_path: Path) -> None:
    run = open_sums(tmp_path, kernels=KERNELS, copies=[(UP, 4, 2 * MS, MS)])
    assert_silent(run, "summed-copies")
