"""Advice follows the program: its framework's options, its vendor's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import findings
from sightline.diagnosis.advice import choose_fix
from support import exports
from support.rules import answers
from support.traces import call, host, kernel, launched, opened
from synth_nsys import Export


@pytest.mark.parametrize(
    ("name", "fix"),
    [("aten::mm", "neutral"), ("vllm::all_reduce", "for vLLM"), ("jit_step", "for JAX")],
)
def test_of_the_framework_else_the_neutral(tmp_path: Path, name: str, fix: str) -> None:
    run = opened(tmp_path, [host("cpu_op", name, 0, 10), kernel("k", 5, 5)])
    assert choose_fix(run, "neutral", vllm="for vLLM", jax="for JAX") == fix


def test_a_program_without_a_framework_is_told_its_own_calls(tmp_path: Path) -> None:
    export = Export()
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("saxpy", 10_000, 110_000, 1)
    export.api("cudaDeviceSynchronize", 20_000, 111_000, 2)
    export.api("cudaLaunchKernel", 132_000, 137_000, 3)
    export.kernel("saxpy", 140_000, 240_000, 3)
    (found,) = answers(exports.opened(tmp_path, export), "sync-in-step")
    assert "cudaDeviceSynchronize" in found.fix
    assert ".item()" not in found.fix


def test_on_amd_a_finding_names_what_amd_has(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100), api="hipLaunchKernel"),
            call("hipMalloc", 120, 800),
            launched(930, kernel("b", 940, 60), api="hipLaunchKernel"),
        ],
    )
    (found,) = (f for f in findings(run) if f.rule == "allocator-churn")
    assert "expandable_segments" not in found.fix
    assert "allocate once" in found.fix


def test_a_world_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="tensorflow"):
        choose_fix(opened(tmp_path, [kernel("k", 5, 5)]), "neutral", tensorflow="other")
