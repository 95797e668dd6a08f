"""Kernel names, as Nsight Compute and as timelines write them."""

from __future__ import annotations

import pytest

from sightline.core.algebra.kernel_names import normalize_kernel_name


@pytest.mark.parametrize(
    ("ncu", "timeline"),
    [
        (
            "void gemm<(int)32, (bool)1>(int, const float *)",
            "void gemm<32, true>(int, float const*)",
        ),
        ("<unnamed>::k(float *)", "(anonymous namespace)::k(float*)"),
        ("void a::b<float, (unsigned int)4>(T1)", "void a::b<float, 4u>(float)"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ],
)
def test_names_meet_across_tools(ncu, timeline):
    assert normalize_kernel_name(ncu) == normalize_kernel_name(timeline)


def test_different_instances_stay_apart():
    assert normalize_kernel_name("void gemm<(int)32>(int)") != normalize_kernel_name(
        "void gemm<64>(int)"
    )
