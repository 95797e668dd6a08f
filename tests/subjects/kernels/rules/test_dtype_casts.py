"""dtype-casts: kernels that aten::_to_copy launched."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import call, kernel, launched, op, opened

RULE = "dtype-casts"


def casting(folder: Path, length: int, name: str = "aten::_to_copy") -> Run:
    """A window of 1,000 µs: kernel, kernel of an operator, kernel, all queued."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            op(name, 15, 15),
            op("aten::copy_", 18, 10),
            launched(20, kernel("copy_kernel", 500, length)),
            launched(40, kernel("b", 500 + length, 510 - length)),
        ],
    )


def test_a_cast_of_400_us(tmp_path: Path) -> None:
    assert_speaks(
        casting(tmp_path, 400),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × copy_kernel, 400.0 µs"],
        fix="torch.bfloat16",
        severity="critical",
    )


def test_a_copy_that_is_no_cast(tmp_path: Path) -> None:
    assert_silent(casting(tmp_path, 400, "aten::clone"), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(casting(tmp_path / "a", 49), RULE)
    assert_speaks(
        casting(tmp_path / "b", 50),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="torch.bfloat16",
    )


def test_a_device_that_waits_for_launches_gains_nothing_by_shorter_kernels(tmp_path: Path) -> None:
    """Ten casts of 10 µs, launched every 50: launch-bound speaks for these."""
    work = [
        e
        for i in range(10)
        for e in (
            op("aten::_to_copy", 50 * i, 10),
            launched(50 * i + 2, kernel("k", 50 * i + 12, 10)),
        )
    ]
    assert_silent(opened(tmp_path, work), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)


def test_the_host_goes_with_its_casts(tmp_path: Path) -> None:
    """Twenty pairs of a cast of 100 µs and a kernel of 10, for each of which the host needs 50.

    Without the casts the host is the limit: 20 × 50 µs, and not 20 × 100.
    """
    work, at = [], 0
    for i in range(20):
        work += [
            op("aten::to", at, 50),
            op("aten::_to_copy", at + 1, 48),
            launched(at + 40, kernel("copy_kernel", 60 + 110 * i, 100)),
            launched(at + 90, kernel("b", 160 + 110 * i, 10)),
        ]
        at += 100
    (found,) = answers(opened(tmp_path, work), RULE)
    assert found.gain_ns is not None
    assert 1_000_000 <= found.gain_ns <= 1_300_000
