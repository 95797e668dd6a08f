"""What kind of program it is, by the names that each kind leaves in a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.timeline.programs import Program, recognise_program
from support import exports
from support.traces import call, host, kernel, opened
from synth_nsys import Export


@pytest.mark.parametrize(
    ("cat", "name", "framework"),
    [
        ("cpu_op", "aten::mm", "pytorch"),
        ("user_annotation", "ProfilerStep#1", "pytorch"),
        ("python_function", "vllm/v1/worker/gpu_model_runner.py(1): execute_model", "vllm"),
        ("cpu_op", "vllm::all_reduce", "vllm"),
        ("python_function", "/opt/sglang/python/sglang/srt/model.py(1): forward", "sglang"),
        ("user_annotation", "jit_train_step", "jax"),
    ],
)
def test_framework_by_names(tmp_path: Path, cat: str, name: str, framework: str) -> None:
    run = opened(tmp_path, [host(cat, name, 0, 10), kernel("k", 5, 5)])
    assert recognise_program(run).framework == framework


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("void at::native::vectorized_elementwise_kernel<4>", "pytorch"),
        ("__omp_offloading_10303_main_l42", "openmp"),
        ("nvkernel_advec_cell_F1L72_2", "openmp"),
        ("saxpy", "native"),
    ],
)
def test_framework_by_kernels(tmp_path: Path, name: str, framework: str) -> None:
    export = Export()
    export.api("cudaLaunchKernel", 0, 10, 1)
    export.kernel(name, 20, 900, 1)
    run = exports.opened(tmp_path, export)
    assert recognise_program(run).framework == framework


def test_what_the_profiler_of_pytorch_recorded_is_pytorch(tmp_path: Path) -> None:
    assert recognise_program(opened(tmp_path, [kernel("saxpy", 5, 5)])).framework == "pytorch"


def test_sglang_uses_kernels_of_vllm(tmp_path: Path) -> None:
    line = host("python_function", "/opt/sglang/python/sglang/srt/model.py(1): forward", 0, 10)
    run = opened(tmp_path, [line, kernel("void vllm::rms_norm_kernel", 5, 5)])
    assert recognise_program(run).framework == "sglang"


@pytest.mark.parametrize(
    ("api", "vendor"),
    [("hipLaunchKernel", "amd"), ("cudaLaunchKernel", "nvidia"), ("zeCommandListAppend", "intel")],
)
def test_vendor_by_calls_where_no_device_is_named(tmp_path: Path, api: str, vendor: str) -> None:
    run = opened(tmp_path, [call(api, 0, 5, 1), kernel("k", 5, 5, 1)])
    assert recognise_program(run) == Program("pytorch", vendor)
