"""ncu-other-kernels: nothing but inputs was profiled."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support.profiled import SM, TIME, opened
from support.rules import answers, assert_silent
from synth_ncu import Kernel, report

RULE = "ncu-other-kernels"
RANDOM = (
    "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, 4, "
    "void at::native::templates::cuda::uniform_and_transform<float>>(long)"
)
FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
    "std::array<char *, 1>>(int)"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char *, 3>>(int)"
)


def run_of(folder: Path, *names: str) -> Run:
    lit = {SM: 46.0, TIME: 9_000.0}
    return opened(folder, report([Kernel(name=name, metrics=lit) for name in names]))


@pytest.mark.parametrize("names", [[RANDOM], [RANDOM, FILL]])
def test_random_numbers_and_fills(tmp_path: Path, names: list[str]) -> None:
    run = run_of(tmp_path, *names)
    (found,) = answers(run, RULE)
    assert "-k regex:NAME" in found.fix
    assert sightline.findings(run)[0].rule == RULE


@pytest.mark.parametrize("own", ["rms_norm(float *)", ADD])
def test_a_kernel_that_computes(tmp_path: Path, own: str) -> None:
    assert_silent(run_of(tmp_path, RANDOM, own), RULE)


THRUST = (
    "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::"
    "ParallelForAgent<thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<int>, "
    "int>, unsigned long>, unsigned long>(int)"
)


@pytest.mark.parametrize(
    ("name", "confidence"),
    [
        (THRUST, "high"),
        ("fillMatrix(float *, int)", "medium"),
        ("void app::init_kernel<4>(int)", "medium"),
    ],
)
def test_fills_of_templates_and_of_ones_own(tmp_path: Path, name: str, confidence: str) -> None:
    (found,) = answers(run_of(tmp_path, name), RULE)
    assert found.confidence == confidence
    assert ("by the names" in found.summary) is (confidence == "medium")


@pytest.mark.parametrize("own", ["filter(float *)", "fillet3d(int)", "initial_value_solve(int)"])
def test_names_that_only_begin_alike(tmp_path: Path, own: str) -> None:
    assert_silent(run_of(tmp_path, own), RULE)
