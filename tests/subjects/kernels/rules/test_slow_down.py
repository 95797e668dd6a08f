"""slow-down: like kernels take longer from some moment on."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.copies import transfer
from support.rules import answers, assert_silent, assert_speaks
from support.traces import copy, kernel, launched, opened, queued

RULE = "slow-down"


def kernels(lengths: list[int]) -> list[tuple[str, int]]:
    """Two kinds by turns."""
    return [(name, length) for length in lengths for name in ("gemm", "norm")]


def test_half_of_the_run_at_two_thirds_of_the_pace(tmp_path: Path) -> None:
    """40 × 2 kernels of 100 µs, then as many of 150: 80 × 50 µs are lost."""
    assert_speaks(
        opened(tmp_path, queued(*kernels([100] * 40 + [150] * 40))),
        RULE,
        cost_ns=4_000_000,
        gain_ns=4_000_000,
        evidence=["40 × gemm, 6.000 ms", "50.0 % slower from 8."],
        fix="record the clocks",
        confidence="medium",
    )


def with_copies(folder: Path, sizes: list[int]) -> Run:
    """The same slow-down, with copies of these sizes on another stream, 100 µs apart."""
    work = queued(*kernels([100] * 40 + [150] * 40))
    span = 10_000 // len(sizes)
    copies = [
        launched(2000 + 10 * i, copy("Memcpy HtoD", 3000 + span * i, 1, size, stream=9))
        for i, size in enumerate(sizes)
    ]
    return opened(folder, [*work, *copies])


def test_who_grows_with_its_own_work_does_not_slow_down(tmp_path: Path) -> None:
    """Each copy is larger than the one before: the same kernels have more to do."""
    assert_silent(with_copies(tmp_path, [1 << i for i in range(10, 20)]), RULE)


def test_copies_of_one_size(tmp_path: Path) -> None:
    assert [f.gain_ns for f in answers(with_copies(tmp_path, [1024] * 10), RULE)] == [4_000_000]


def test_one_kind_alone_is_its_own_affair(tmp_path: Path) -> None:
    work = [
        (n, 150 if n == "norm" and i > 40 else 100) for i in range(80) for n in ("gemm", "norm")
    ]
    assert_silent(opened(tmp_path, queued(*work)), RULE)


def test_a_slow_spell_that_ends_is_no_lasting_slow_down(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, queued(*kernels([100] * 30 + [150] * 20 + [100] * 30))), RULE)


def test_nine_percent(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, queued(*kernels([100] * 40 + [109] * 40))), RULE)


def test_fewer_than_20_alike(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, queued(*kernels([100] * 9 + [150] * 9))), RULE)


def test_who_is_given_twice_as_much_does_not_slow_down(tmp_path: Path) -> None:
    """Before each kernel its data is copied: 1 MB for those of 100 µs, 2 MB for those of 200.

    Where it is 1 MB for all, 39 are slower: the moment is found to a twentieth of the window.
    """
    for name, size in (("a", 2_000_000), ("b", 1_000_000)):
        work, at = [], 500
        for i in range(80):
            length, fed = (100, 1_000_000) if i < 40 else (200, size)
            fed_by = transfer("Memcpy HtoD (Pinned -> Device)", at, 10, fed)
            work.append(launched(4 * i, fed_by, api="cudaMemcpyAsync", dur=1))
            work.append(launched(4 * i + 2, kernel("gemm", at + 10, length), dur=1))
            at += 10 + length
        run = opened(tmp_path / name, work)
        if name == "a":
            assert_silent(run, RULE)
        else:
            assert_speaks(
                run,
                RULE,
                cost_ns=3_900_000,
                gain_ns=3_900_000,
                evidence=["39 × gemm"],
                fix="clocks",
            )


def test_what_differs_as_much_before_it_is_not_alike(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, queued(*kernels([60, 100] * 20 + [120] * 40))), RULE)
