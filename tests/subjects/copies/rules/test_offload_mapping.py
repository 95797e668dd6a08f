"""offload-mapping: regions of OpenMP or OpenACC that copy all that they name, each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.copies import transfer
from support.rules import answers, assert_silent
from support.traces import kernel, launched, opened

RULE = "offload-mapping"
UP, DOWN = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
MIB = 1 << 20


def regions(folder: Path, name: str = "nvkernel_step__F1L10_2_", count: int = 6) -> Run:
    """Regions of 1,000 µs: two copies in, a kernel and two copies out, each of 100 µs.

    Between the two copies one way the runtime fills or empties its buffer for 100 µs; 300 µs lie
    between two regions.
    """
    events = []
    for i in range(count):
        at = 1_000 * i
        for begin, copy in ((0, UP), (200, UP), (400, DOWN), (600, DOWN)):
            op = transfer(copy, at + begin + 5, 100, MIB)
            events.append(launched(at + begin, op, api="cuMemcpyAsync"))
        events.append(launched(at + 302, kernel(name, at + 305, 100)))
    return opened(folder, [e for each in events for e in each])


@pytest.mark.parametrize("name", ["nvkernel_step__F1L10_2_", "__omp_offloading_3_5b_step_l10",
                                  "solve_10_gpu"])  # fmt: skip
def test_six_regions_that_map_four_arrays(tmp_path: Path, name: str) -> None:
    """Copies run alone for 24 × 100 µs, and 12 gaps of 100 µs are the runtime's."""
    (found,) = answers(regions(tmp_path, name), RULE)
    assert (found.cost_ns, found.severity) == ((24 + 12) * 100_000, "critical")
    for line in ("12 × HtoD, 12.58 MB in 1.200 ms", "kernels run in 6 groups",
                 "12 gaps between two copies one way, 1.200 ms in all"):  # fmt: skip
        assert any(line in said for said in found.evidence)
    assert "around the loop" in (found.fix or "")
    assert found.gain_ns is not None
    # What must remain: the six kernels, what is sent before the first and fetched behind the last.
    assert 20 * 100_000 <= found.gain_ns <= (20 + 10) * 100_000
    assert sum(f.direct_ns or 0 for f in answers(regions(tmp_path, name), "host-late")) <= 2_000_000


def test_the_same_copies_of_a_cuda_program(tmp_path: Path) -> None:
    assert_silent(regions(tmp_path, "void step<float>(float*)"), RULE)


def test_two_regions_are_no_loop(tmp_path: Path) -> None:
    assert_silent(regions(tmp_path, count=2), RULE)


def test_copies_without_work_between_them(tmp_path: Path) -> None:
    """One array in and out of each region, from pageable memory: one finding, and no second one."""
    events = []
    for i in range(6):
        at = 1_000 * i
        for begin, copy in ((0, "Memcpy HtoD (Pageable -> Device)"),
                            (500, "Memcpy DtoH (Device -> Pageable)")):  # fmt: skip
            events.append(launched(at + begin, transfer(copy, at + begin + 5, 300, MIB)))
        events.append(launched(at + 310, kernel("nvkernel_step__F1L10_2_", at + 315, 100)))
    run = opened(tmp_path, [e for each in events for e in each])
    (found,) = answers(run, RULE)
    assert found.cost_ns == 12 * 300_000
    assert found.gain_ns is not None and found.gain_ns <= 10 * 300_000 + 5 * 300_000
    assert_silent(run, "pageable-copies")
    assert_silent(run, "d2h-in-step")
