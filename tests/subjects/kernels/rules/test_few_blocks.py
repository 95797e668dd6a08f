"""few-blocks: kernels that leave most of an A100's 108 multiprocessors empty."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened
from synth_nsys import Export

RULE = "few-blocks"
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}


def run_of(folder: Path, *kernels: tuple[str, int, int]) -> Run:
    """Kernels (name, blocks, µs) one after another from 200 µs on, launched before."""
    events, begin = [], 200
    for i, (name, blocks, length) in enumerate(kernels):
        shape = {"grid": [blocks, 1, 1], "block": [256, 1, 1]}
        events.append(launched(10 * i, kernel(name, begin, length, **shape)))
        begin += length
    return opened(folder, events, deviceProperties=[{**A100, "computeMinor": 0}])


def test_two_of_20_blocks(tmp_path: Path) -> None:
    """Side by side, what remains of each 100 and 60 µs is 100 µs."""
    found = assert_speaks(
        run_of(tmp_path, *[("left", 20, 100), ("right", 20, 60)] * 5),
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=["20 blocks of 256 threads on 108 multiprocessors", "between zero and this"],
        fix="streams of their own",
        severity="critical",
        title="Kernels of few blocks one after another",
    )
    assert (found.method or "").startswith("bound")


def test_one_block(tmp_path: Path) -> None:
    """Of 540 µs a hundred-and-eighth remains, 5 µs."""
    assert_speaks(
        run_of(tmp_path, ("scan", 1, 540), ("wide", 1000, 460)),
        RULE,
        cost_ns=535_000,
        gain_ns=535_000,
        evidence=["1 block of 256 threads on 108 multiprocessors"],
        fix="more blocks",
        title="Kernels of few blocks",
    )


@pytest.mark.parametrize(
    ("kernels", "gain_ns"),
    [
        ([("left", 27, 100)] * 4, 300_000),  # one kernel again and again may need its own result
        ([("left", 27, 100), ("right", 81, 100)], 100_000),  # they do not fit beside each other
        ([("left", 27, 19), ("right", 27, 19)], 28_500),  # as short as launches
        ([("left", 27, 100), ("wide", 1080, 100), ("right", 27, 100)], 150_000),  # not in a row
    ],
    ids=["the same", "half", "short", "apart"],
)
def test_each_by_itself(tmp_path: Path, kernels: list[tuple[str, int, int]], gain_ns: int) -> None:
    """Of each a quarter, or three quarters, of the multiprocessors is filled, and that remains."""
    assert_speaks(
        run_of(tmp_path, *kernels),
        RULE,
        cost_ns=gain_ns,
        gain_ns=gain_ns,
        evidence=["27 blocks of 256 threads on 108 multiprocessors"],
        fix="more blocks",
        title="Kernels of few blocks",
        confidence="medium",
    )


def test_nearly_all_multiprocessors(tmp_path: Path) -> None:
    (found,) = answers(run_of(tmp_path, ("left", 81, 100)), RULE)
    assert (found.gain_ns, found.confidence) == (25_000, "low")


@pytest.mark.parametrize(
    "kernels",
    [
        [("ampere_sgemm_32x32_tn", 20, 500)],  # a library chose the grid
        [("ampere_sgemm_32x32_tn", 1, 99), ("wide", 1080, 1)],
        [("last", 1, 5), ("wide", 1080, 40)],  # where few blocks are right: the end of a reduction
        [("fill", 108, 400)],
    ],
    ids=["library", "short library", "small beside large", "full"],
)
def test_few_blocks_that_are_right(tmp_path: Path, kernels: list[tuple[str, int, int]]) -> None:
    assert_silent(run_of(tmp_path, *kernels), RULE)


def test_a_library_s_kernel_that_is_serial(tmp_path: Path) -> None:
    """The name of a program's own kernel may be that of what it does: 2 of 108 are filled."""
    (found,) = answers(run_of(tmp_path, ("ampere_sgemm_32x32_tn", 2, 540)), RULE)
    assert found.gain_ns == 530_000
    assert "a batch" in (found.fix or "")


def test_the_same_kernel_with_more_blocks(tmp_path: Path) -> None:
    """One block could take 5 µs, but the full launch is there: 60 µs. That is what remains."""
    found = assert_speaks(
        run_of(tmp_path, ("solve", 1, 540), ("solve", 2000, 60), ("wide", 1080, 400)),
        RULE,
        cost_ns=480_000,
        gain_ns=480_000,
        evidence=["`solve` runs with 1 block", "takes 60.00 µs with 2,000 blocks"],
        fix="more blocks",
        confidence="high",
    )
    assert "540.0 µs with 1" in found.evidence[-1]


def test_a_longer_launch_of_more_blocks_gives_its_rate(tmp_path: Path) -> None:
    """Each of 1,000 blocks takes 1 µs of a full GPU: of each 25 µs with 20 blocks 20 remain."""
    (found,) = answers(run_of(tmp_path, *[("solve", 20, 25)] * 40, ("solve", 1000, 1000)), RULE)
    assert found.gain_ns == 40 * 5_000


def test_a_larger_problem_tells_nothing(tmp_path: Path) -> None:
    """Each of 54 blocks has far more work: of 100 µs with 27 a quarter remains all the same."""
    run = run_of(tmp_path, *[("solve", 27, 100)] * 40, ("solve", 54, 2000))
    assert sum(f.gain_ns or 0 for f in answers(run, RULE)) >= 40 * 75_000


def test_never_more_than_an_empty_kernel_leaves(tmp_path: Path) -> None:
    (found,) = answers(run_of(tmp_path, *[("step", 1, 12)] * 20), RULE)
    assert found.gain_ns == 20 * (12_000 - 3_000)


def test_what_runs_beside_another_kernel(tmp_path: Path) -> None:
    shape = {"grid": [20, 1, 1], "block": [256, 1, 1]}
    both = [
        launched(10 * i, kernel(name, 200, 100, stream=7 + i, **shape))
        for i, name in enumerate(("left", "right"))
    ]
    run = opened(tmp_path, both, deviceProperties=[{**A100, "computeMinor": 0}])
    assert_silent(run, RULE)


def test_streams_in_turn_are_another_rule_s(tmp_path: Path) -> None:
    """Each fills a fifth, on streams of their own: they only wait for one another."""
    shape = {"grid": [20, 1, 1], "block": [256, 1, 1]}
    in_turn = [
        launched(10 * i, kernel("solve", 200 + 100 * i, 100, stream=7 + i % 4, **shape))
        for i in range(8)
    ]
    run = opened(tmp_path, in_turn, deviceProperties=[{**A100, "computeMinor": 0}])
    assert_silent(run, RULE)


@pytest.mark.parametrize(("wide_us", "fix"), [(60, "one launch do several"), (600, "more blocks")])
def test_a_launch_that_takes_as_long_with_more_blocks(
    tmp_path: Path, wide_us: int, fix: str
) -> None:
    """120 launches of one block, a level each: with ten blocks they take as long, or ten times."""
    run = run_of(tmp_path, *[("level", 1, 60)] * 120, ("level", 10, wide_us))
    (found,) = answers(run, RULE)
    assert fix in (found.fix or "")


@pytest.mark.parametrize(("moves", "speaks"), [(1, True), (14, False)], ids=["a few", "most of it"])
def test_a_kernel_that_waits_for_pages(tmp_path: Path, moves: int, speaks: bool) -> None:
    """One block for 2.4 ms, in which pages move for 120 µs each: more blocks make none of them."""
    export = Export("3.25.0")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA A100-SXM4-80GB", smCount=108)
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("add", 10_000, 2_410_000, 1, gridX=1)
    for i in range(moves):
        begin = 20_000 + 160_000 * i
        export.copy(11, begin, begin + 120_000, 0, 1 << 20, 4, 2, virtualAddress=i << 20)
    run = sightline.open(str(export.write(tmp_path / "run.sqlite")))
    assert [f.rule for f in answers(run, RULE) if not f.abstained] == [RULE] * speaks
