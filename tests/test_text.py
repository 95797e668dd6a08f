"""Texts from recordings, made short and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.text import fit_text, shorten_kernel_name


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_32x128_tn", "ampere_sgemm_32x128_tn"),
        (
            "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long)",
            "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
            "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>)",
            "vectorized_elementwise_kernel<AddFunctor>",
        ),
        (
            "void at::native::(anonymous namespace)::"
            "vectorized_layer_norm_kernel<float, float>(int)",
            "vectorized_layer_norm_kernel",
        ),
        (
            "void cutlass::Kernel2<"
            "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>"
            "(T1::Params)",
            "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8",
        ),
        ("", ""),
    ],
)
def test_kernel_name(name, short):
    assert shorten_kernel_name(name) == short


@given(st.text(max_size=200), st.integers(2, 100))
def test_fit_never_exceeds_its_width_and_holds_nothing_that_steers_a_terminal(text, width):
    fitted = fit_text(text, width)
    assert len(fitted) <= width
    assert fitted.isprintable()
    shorten_kernel_name(text)  # never fails, whatever a recording calls a kernel
