"""Kernels as real recordings name them, on NVIDIA's and on AMD's devices, and as plans of work."""

from __future__ import annotations

from dataclasses import dataclass

from worlds.calls import Work
from worlds.dice import Dice

_VEC = "void at::native::vectorized_elementwise_kernel<4, at::native::"
_ARR3 = ", std::array<char*, 3ul> >(int, at::native::"
_CK = (
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_"
    "34GridwiseGemmMultiD_xdl_cshuffle_v3"
)

# kind: name on NVIDIA, name on AMD, name without tensor cores ("" where there is no such variant)
NAMES: dict[str, tuple[str, str, str]] = {
    "gemm": (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_"
        "execute_segment_k_off_kernel__5x_cublas",
        "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB1_AFC1",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_"
        "aligna4_alignc4_execute_kernel__5x_cublas",
    ),
    "gemm_wide": (
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN",
        "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT128x224x64_MI16x16x1_SN_LDSB1_AFC1",
        "ampere_sgemm_128x64_tn",
    ),
    "gemm_grad": (
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nt",
        "Cijk_Ailk_Bjlk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x32_MI16x16x1_SN_LDSB1_AFC1",
        "ampere_sgemm_128x128_nt",
    ),
    "flash": (
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, "
        "128, 4, false, false, cutlass::bfloat16_t>>(pytorch_flash::Flash_fwd_params)",
        "attn_fwd",
        "",
    ),
    "flash_grad": (
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::"
        "Flash_bwd_kernel_traits<64, 128, 128, 8>>(pytorch_flash::Flash_bwd_params)",
        "bwd_kernel_fuse",
        "",
    ),
    "norm": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
        "float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16*)",
    )
    * 2
    + ("",),
    "norm_grad": (
        "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<"
        "c10::BFloat16, float>(c10::BFloat16 const*, c10::BFloat16 const*, float const*)",
    )
    * 2
    + ("",),
    "gelu": (_VEC + "GeluCUDAKernelImpl(at::TensorIteratorBase&)",) * 2 + ("",),
    "gelu_grad": (_VEC + "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)",) * 2 + ("",),
    "add": (_VEC + "CUDAFunctor_add<c10::BFloat16>" + _ARR3 + "CUDAFunctor_add<c10::BFloat16>)",)
    * 2
    + ("",),
    "mul": (_VEC + "BinaryFunctor<float, float, float, at::native::MulFunctor<float> >",) * 2
    + ("",),
    "tanh": (_VEC + "tanh_kernel_cuda(at::TensorIteratorBase&)",) * 2 + ("",),
    "triton": ("bias_gelu_residual",) * 2 + ("",),
    "relu": (
        _VEC + "(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)",
    )
    * 2
    + ("",),
    "relu_grad": (_VEC + "(anonymous namespace)::threshold_kernel_impl<c10::BFloat16>",) * 2
    + ("",),
    "conv": (
        "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
        "warpgroupsize1x1x1_g1_execute_kernel__5x_cudnn",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x64x32_wt32x32x8_ws1x1_wr1x2",
        "void cudnn::cnn::implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false>",
    ),
    "conv_grad": (
        "sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_"
        "stage4_warpsize2x2x1_g1_tensor16x8x16_execute_kernel_cudnn",
        "igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8_ws1x2_wr2x2",
        "void cudnn::cnn::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>",
    ),
    "conv_weight": (
        "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_"
        "tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_execute_kernel_cudnn",
        "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x256x32_wt32x32x8_ws1x1_wr2x2",
        "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>",
    ),
    "batch_norm": (
        "void cudnn::bn_fw_tr_1C11_kernel_NHWC<__nv_bfloat16, float, int, 128, true, 1, true>",
        "void at::native::batch_norm_transform_input_kernel<c10::BFloat16, float, true, int>",
        "",
    ),
    "batch_norm_grad": (
        "void cudnn::bn_bw_1C11_kernel_new<__nv_bfloat16, float, float2, 128, true, 1>",
        "void at::native::batch_norm_backward_kernel<c10::BFloat16, c10::BFloat16, float, int>",
        "",
    ),
    "pool": ("void at::native::(anonymous namespace)::max_pool_forward_nhwc<c10::BFloat16, int>",)
    * 2
    + ("",),
    "to_nhwc": (
        "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, float, false, true>",
        "batched_transpose_32x32_half",
        "",
    ),
    "to_nchw": (
        "void cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16, float, true, false>",
        "batched_transpose_16x32_half",
        "",
    ),
    "gather": (
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, "
        "unsigned int, 2, 2, -2, true>",
    )
    * 2
    + ("",),
    "embedding": (
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 64>",
    )
    * 2
    + ("",),
    "embedding_grad": (
        "void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1",
    )
    * 2
    + ("",),
    "spmm": (
        "void cusparse::csrmm_v3_kernel<true, false, int, float, float, void>",
        "void rocsparse::csrmmnn_general_kernel<256u, 64u, int, int, float>",
        "",
    ),
    "scatter": (
        "void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_"
        "gather_internal_kernel<true, at::native::OpaqueType<8> >::operator()>",
    )
    * 2
    + ("",),
    "softmax": (
        "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, "
        "10, false, false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int)",
    )
    * 2
    + ("",),
    "loss": ("void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d",) * 2
    + ("",),
    "adam": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor>",
    )
    * 2
    + ("",),
    "paged": (
        "void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128, 512>",
        "_ZN4vllm25paged_attention_v1_kernelIDF16_DF16_Li128ELi16ELi256ELi0EEEvPT_",
        "",
    ),
    "rms": ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, float)",) * 2
    + ("",),
    "silu": ("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>>",) * 2
    + ("",),
    "argmax": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, "
        "at::native::ArgMaxOps<float>, unsigned int, long, 4> >",
    )
    * 2
    + ("",),
    "stencil": ("void advance<double, 8>(double const*, double*, int, int, int)",) * 2 + ("",),
    "flux": ("void compute_fluxes<double>(double const*, double const*, double*, int, int)",) * 2
    + ("",),
    "pack": ("pack_halo(double const*, double*, int, int)",) * 2 + ("",),
    "unpack": ("unpack_halo(double const*, double*, int, int)",) * 2 + ("",),
    "scan": ("scan_rows(float const*, float*, int)",) * 2 + ("",),
    "serial": ("scan_rows(float const*, float*, int)",) * 2 + ("",),
    "dt": ("void cub::DeviceReduceSingleTileKernel<cub::DeviceReducePolicy<double, int, Min>>",) * 2
    + ("",),
}
PLAIN_FACTOR = 4.0  # a product without tensor cores against one with them (fp32 against tf32/bf16)
BLOCKS = {
    "gemm": (384, 168),
    "conv": (384, 168),
    "flash": (128, 255),
    "stencil": (256, 96),
    "serial": (32, 32),
}
# How many such blocks a multiprocessor holds: 65,536 registers, given out by 256 to each warp.
HELD = {(384, 168): 1, (128, 255): 2, (256, 96): 2, (128, 32): 16, (32, 32): 32}
MULTIPROCESSORS = 108  # of the smallest device that recordings are written for


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a plan: its kind in `NAMES`, its length (ns), how much of the device it fills.

    `blocks`: those of its grid, where its data says so and not its length.
    """

    kind: str
    ns: float
    share: float = 1.0
    blocks: int | None = None


def make_work(kernel: Kernel, dice: Dice, vendor: str, *, plain: bool = False) -> Work:
    """One execution of a kernel, its length drawn."""
    nvidia, amd, without = NAMES[kernel.kind]
    slow = plain and bool(without)
    name = without if slow else amd if vendor == "amd" else nvidia
    length = dice.kernel(kernel.ns)
    threads, registers = BLOCKS.get(kernel.kind.split("_")[0], (128, 32))
    blocks = max(1, round(132 * 4 * kernel.share * max(1.0, kernel.ns / 20_000)))
    if kernel.share <= 0.5:  # one wave, so that the rest of the device is free all the time
        blocks = max(1, round(MULTIPROCESSORS * HELD[threads, registers] * kernel.share))
    if kernel.ns < 6_000:
        blocks = max(1, round(kernel.ns / 200))
    if kernel.blocks is not None:
        blocks = kernel.blocks
    return Work(
        "kernel",
        name,
        round(length * PLAIN_FACTOR) if slow else length,
        share=kernel.share,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        registers=registers,
        shared_bytes=49_152 if threads == 384 else 0,
    )
