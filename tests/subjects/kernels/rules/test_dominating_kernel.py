"""dominating-kernel: one kernel takes more time than all others together."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.diagnosis.diagnose import diagnose_run
from sightline.views.terminal.finding_text import write_verdict
from support.rules import assert_silent, assert_speaks
from support.traces import call, kernel, opened, queued

RULE = "dominating-kernel"


def test_three_fifths_of_kernel_time(tmp_path: Path) -> None:
    """A remark, without a gain: nothing says that the kernel could be shorter."""
    found = assert_speaks(
        opened(tmp_path, queued(("gemm", 200), ("gemm", 400), ("add", 400))),
        RULE,
        cost_ns=600_000,
        gain_ns=None,
        evidence=["gemm"],
        fix="ncu",
        severity="info",
        cost_pct=60.0,
    )
    assert "60.0 %" in found.summary
    assert "2 instances, median 300.0 µs" in found.summary


def test_the_only_kernel_of_a_program_with_gaps(tmp_path: Path) -> None:
    """What the program is bound by comes first, where nothing else would gain a tenth."""
    found = assert_speaks(
        opened(tmp_path, queued(*[("gemm", 100)] * 12)),
        RULE,
        cost_ns=1_200_000,
        gain_ns=None,
        evidence=["100.0 %", "12 instances"],
        fix="ncu",
    )
    assert found.states_limit


@pytest.mark.parametrize(
    "kernels",
    [
        [kernel("gemm", 0, 499), kernel("add", 499, 301), kernel("mul", 800, 200)],
        [kernel("gemm", 0, 600), kernel("add", 1_500, 10)],
        [kernel("ncclDevKernel_AllReduce", 0, 600), kernel("gemm", 600, 100)],
        [call("cudaMalloc", 0, 5)],
    ],
    ids=["under half", "hardly any compute", "communication", "no device"],
)
def test_silence(tmp_path: Path, kernels: list[object]) -> None:
    assert_silent(opened(tmp_path, kernels), RULE)


def test_the_verdict_of_a_healthy_run_names_it(tmp_path: Path) -> None:
    run = opened(tmp_path, queued(*[("gemm", 100)] * 12))
    verdict = write_verdict(diagnose_run(run), run)
    assert verdict.startswith("Healthy")
    assert verdict.endswith("lies in its kernels, most of it in gemm.")
