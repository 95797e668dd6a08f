"""Kernels that a compiler cut out of functions: SYCL's lambdas and classes, OpenMP's regions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.kernel_labels import label_kernels, shorten_kernel_name
from sightline.core.offload_names import name_lambda, name_region, split_launch_shape

HANDLER = "::{lambda(sycl::_V1::handler&)#1}::operator()(sycl::_V1::handler&) const::"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("RunAndCheck(sycl::_V1::queue, unsigned int)" + HANDLER + "__GEMM", "__GEMM"),
        ("_ZTSZZL11RunAndCheckN4sycl3_V15queueERKSt6vectorIfSaIfEES6_RS4_jfENKUlRNS0_7handlerEE_"
         "clES9_E6__GEMM", "__GEMM"),
        ("gemv(float const*, sycl::_V1::range<1>)" + HANDLER + "{lambda(sycl::_V1::nd_item<1>)#2}",
         "gemv::lambda#1.2"),
        ("ns::run<float>(int)::{lambda(sycl::_V1::nd_item<1>)#3}", "run::lambda#3"),
        ("main::{lambda(auto:1)#4}", "main::lambda#4"),
        ("_ZTSZ4mainEUlT_E0_", "main::lambda#2"),
        ("_ZTSN2at6native3xpu27VectorizedElementwiseKernelILi4ENS1_13BinaryFunctorIfffNS1_10AddFun"
         "ctorIfEEEENS_6detail5ArrayIPcLi3EEE23TrivialOffsetCalculatorILi2EjEEE",
         "VectorizedElementwiseKernel<AddFunctor>"),
        ("__omp_offloading_802_68e1f09__Z12ComputeOnGPURKSt6vectorIfSaIfEES3_RS1_jf_l59",
         "ComputeOnGPU line 59"),
        ("__omp_offloading_10303_1a2b_main_l7_debug__", "main line 7"),
        ("nvkernel_main_F1L34_2", "main line 34"),
        ("nvkernel__Z5solvePdi_F12L7_4", "solve line 7"),
        ("gemm_kernel[SIMD16 {20; 1; 1} {64; 8; 1}]", "gemm_kernel"),
    ],
)  # fmt: skip
def test_label(name: str, label: str) -> None:
    assert shorten_kernel_name(name) == label


def test_launches_of_one_kernel_differ_by_their_shape() -> None:
    names = [f"scale[SIMD16 {{{n}; 1; 1}} {{64; 8; 1}}]" for n in (20, 40)]
    assert list(label_kernels(names).values()) == [
        "scale<SIMD16 20x1x1 of 64x8x1>", "scale<SIMD16 40x1x1 of 64x8x1>",
    ]  # fmt: skip


def test_regions_of_one_line_are_told_apart() -> None:
    names = ["nvkernel_main_F1L34_2", "nvkernel_main_F1L34_6"]
    assert len(set(label_kernels(names).values())) == 2


@pytest.mark.parametrize(
    "name",
    ["GEMM", "aten::mm", "void f<int>(int)", "ampere_sgemm_32x128_tn", "nvkernel_", "main",
     "void k<A::{lambda(int)#1}>(A::{lambda(int)#1})", "{lambda(int)#1}"],
)  # fmt: skip
def test_other_names_are_left_alone(name: str) -> None:
    assert name_region(name) is None
    assert name_lambda(name) is None
    assert split_launch_shape(name) == (name, "")


@given(st.text("ab<>(){}[],:;#0 ~_ZTSNIES_l{lambda}operator()", max_size=60))
def test_any_text_has_a_label(name: str) -> None:
    assert shorten_kernel_name(name) or not name.strip()
