"""Whose code a kernel is, by its name."""

from __future__ import annotations

import pytest

from sightline.core.algebra.kernel_libraries import find_library


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x256_8x4_tt_align1>(T1::Params)", "cuBLAS"),
        ("void cutlass::Kernel2<cutlass_75_tensorop_f16_s1688gemm_256x64_nt>()", "cuBLAS"),
        ("ampere_sgemm_128x64_nn", "cuBLAS"),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", "cuBLAS"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x8", "cuBLAS"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_TNT", "cuBLAS"),
        ("void gemv2T_kernel_val<int, float, float, float, float, 128, 16>(T1)", "cuBLAS"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tilesize128x128x16_nhwckrsc_nhwc", "cuDNN"),
        ("void cudnn::bn_fw_tr_1C11_singleread<float, 512>(cudnnTensorStruct)", "cuDNN"),
        ("void at::native::unrolled_elementwise_kernel<at::native::Fill<int>>", "PyTorch"),
        ("void cub::DeviceReduceKernel<cub::DeviceReducePolicy<int>>(T2)", "CUB"),
        ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::X>(T2)", "Thrust"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x8", "rocBLAS"),
        ("void mul_mat_q<(ggml_type)2, 128, false>(char const*, int const*)", "llama.cpp"),
        ("void mul_mat_vec_q<(ggml_type)13, 1>(void const*)", "llama.cpp"),
        ("quantize_mmq_q8_1", "llama.cpp"),
        # The program's own: CUTLASS' templates, and names that resemble a library's.
        ("void cutlass::Kernel<cutlass::gemm::kernel::B2bGemm<int, 128>>(T1::Params)", None),
        ("gemm(float *, float *, float *, int)", None),
        ("void gemm_v1_alter<128, 8, 128, 8, 8>(float *)", None),
        ("sgemm_naive(int, int, int)", None),
        ("mul_mat_kernel(float *, float *)", None),
        ("convolve_rows(float *)", None),
        ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_libraries(name: str | None, library: str | None) -> None:
    assert find_library(name) == library
