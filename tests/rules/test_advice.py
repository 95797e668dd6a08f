"""Advice follows the program: its framework's options, its vendor's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.rules.advice import choose_fix, name_for_vendor
from support import exports
from support.rules import answers
from support.traces import call, host, kernel, launched, opened
from synth_nsys import Export


@pytest.mark.parametrize(
    ("name", "fix"),
    [("aten::mm", "usual"), ("vllm::all_reduce", "for vLLM"), ("jit_step", "for JAX")],
)
def test_of_the_framework_else_the_usual(tmp_path: Path, name: str, fix: str) -> None:
    run = opened(tmp_path, [host("cpu_op", name, 0, 10), kernel("k", 5, 5)])
    assert choose_fix(run, "usual", vllm="for vLLM", jax="for JAX") == fix


@pytest.mark.parametrize(
    ("text", "amd"),
    [
        ("replay it as a CUDA graph", "replay it as a HIP graph"),
        ("use cudaMemcpyAsync and cudaHostAlloc", "use hipMemcpyAsync and hipHostAlloc"),
        ("CUDA_VISIBLE_DEVICES per process", "HIP_VISIBLE_DEVICES per process"),
        ("warm up; CUDA_MODULE_LOADING=EAGER for servers", "warm up"),
        (
            "allocate once; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against churn",
            "allocate once",
        ),
        ("torch.cuda.set_device(local_rank)", "torch.cuda.set_device(local_rank)"),
    ],
)
def test_names_of_the_vendor(tmp_path: Path, text: str, amd: str) -> None:
    ours = opened(tmp_path / "amd", [call("hipLaunchKernel", 0, 5, 1), kernel("k", 5, 5, 1)])
    theirs = opened(tmp_path / "nv", [call("cudaLaunchKernel", 0, 5, 1), kernel("k", 5, 5, 1)])
    assert name_for_vendor(ours, text) == amd
    assert name_for_vendor(theirs, text) == text


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
    (found,) = answers(run, "allocator-churn")
    assert "expandable_segments" not in found.fix
    assert "allocate once" in found.fix
