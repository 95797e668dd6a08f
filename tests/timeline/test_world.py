"""What kind of program it is, by the names that each kind leaves in a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.timeline.world import read_world
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
    assert read_world(run).framework == framework


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("void at::native::vectorized_elementwise_kernel<4>", "pytorch"),
        ("__omp_offloading_10303_main_l42", "openmp"),
        ("nvkernel_advec_cell_F1L72_2", "openmp"),
        ("saxpy", "native"),
        ("main_42_gpu", "openacc"),
        ("cuda_parallel_launch_local_memory<Functor>", "kokkos"),
        ("trt_turing_h1688cudnn_128x128_ldg8_relu_exp_interior_nhwc_tn_v1", "tensorrt"),
        ("gpu_fill_kernel_(CompilerMetadata<DynamicSize>, CuDeviceArray<Float64, 1, 1>)", "julia"),
        ("cudapy::__main__::add$241(Array<float, 1, C, mutable, aligned>)", "numba"),
        ("cupy_multiply__float32_float_float32", "cupy"),
    ],
)
def test_framework_by_kernels(tmp_path: Path, name: str, framework: str) -> None:
    export = Export()
    export.api("cudaLaunchKernel", 0, 10, 1)
    export.kernel(name, 20, 900, 1)
    run = exports.opened(tmp_path, export)
    assert read_world(run).framework == framework


def test_what_the_profiler_of_pytorch_recorded_is_pytorch(tmp_path: Path) -> None:
    assert read_world(opened(tmp_path, [kernel("saxpy", 5, 5)])).framework == "pytorch"


def test_sglang_uses_kernels_of_vllm(tmp_path: Path) -> None:
    line = host("python_function", "/opt/sglang/python/sglang/srt/model.py(1): forward", 0, 10)
    run = opened(tmp_path, [line, kernel("void vllm::rms_norm_kernel", 5, 5)])
    assert read_world(run).framework == "sglang"


@pytest.mark.parametrize(
    ("api", "vendor"),
    [("hipLaunchKernel", "amd"), ("cudaLaunchKernel", "nvidia"), ("zeCommandListAppend", "intel")],
)
def test_vendor_by_calls_where_no_device_is_named(tmp_path: Path, api: str, vendor: str) -> None:
    run = opened(tmp_path, [call(api, 0, 5, 1), kernel("k", 5, 5, 1)])
    assert (read_world(run).framework, read_world(run).vendor) == ("pytorch", vendor)


@pytest.mark.parametrize(
    ("names", "language", "purpose"),
    [
        (["aten::mm", "autograd::engine::evaluate_function: AddmmBackward0"], "python", "training"),
        (["aten::mm", "Optimizer.step#AdamW.step"], "python", "training"),
        (["aten::mm", "aten::relu"], "python", "inference"),
        (["vllm::all_reduce", "aten::mm"], "python", "inference"),
    ],
)
def test_language_and_purpose(
    tmp_path: Path, names: list[str], language: str, purpose: str
) -> None:
    ranges = [host("cpu_op", name, 20 * i, 10) for i, name in enumerate(names)]
    world = read_world(opened(tmp_path, [*ranges, kernel("k", 5, 5)]))
    assert (world.language, world.purpose) == (language, purpose)


def test_a_compiled_program_and_one_of_which_nothing_is_known(tmp_path: Path) -> None:
    export = Export()
    export.api("cudaLaunchKernel", 0, 10, 1)
    export.kernel("saxpy", 20, 900, 1)
    compiled = read_world(exports.opened(tmp_path / "a", export))
    assert (compiled.framework, compiled.language) == ("native", "compiled")
    alone = Export()
    alone.kernel("saxpy", 20, 900, 1)
    unknown = read_world(exports.opened(tmp_path / "b", alone))
    assert (unknown.framework, unknown.language) == ("unknown", "unknown")
