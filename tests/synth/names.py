"""Names that real libraries use, so that recordings look like recordings."""

from __future__ import annotations

from dataclasses import dataclass

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
GEMM_LARGE = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel"
FLASH_ATTENTION = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, "
    "false, false, cutlass::bfloat16_t> >(pytorch_flash::Flash_fwd_params)"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, "
    "at::detail::Array<char*, 3>)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
    "at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}, at::detail::Array<char*, 2> >"
    "(int, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)"
    "::{lambda()#2}, at::detail::Array<char*, 2>)"
)
LAYER_NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, "
    "float*, c10::BFloat16*)"
)
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, "
    "false, false>(c10::BFloat16*, c10::BFloat16 const*, int, int, int, bool const*, int, bool)"
)
ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor"
    "<float, 4> >(at::native::(anonymous namespace)::TensorListMetadata<4>, at::native::"
    "(anonymous namespace)::FusedAdamMathFunctor<float, 4>)"
)
TRITON = "triton_poi_fused_add_native_layer_norm_3"

COMPUTE_KERNELS = (GEMM, GEMM_LARGE, FLASH_ATTENTION, ADD, GELU, LAYER_NORM, SOFTMAX, TRITON)

DATALOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@dataclass(frozen=True)
class CollectiveKind:
    """How torch and NCCL name one kind of collective."""

    op: str
    annotation: str
    kernel: str  # with {} where the element type stands
    in_share: int  # input elements: all elements divided by the group size where this is 1
    out_share: int


_ARGS = "(ncclDevKernelArgsStorage<4096ul>)"
COLLECTIVES = {
    "allreduce": CollectiveKind(
        "c10d::allreduce_",
        "nccl:all_reduce",
        "ncclDevKernel_AllReduce_Sum_{}_RING_LL" + _ARGS,
        0,
        0,
    ),
    "_allgather_base": CollectiveKind(
        "c10d::_allgather_base_",
        "nccl:_all_gather_base",
        "ncclDevKernel_AllGather_RING_LL" + _ARGS,
        1,
        0,
    ),
    "_reduce_scatter_base": CollectiveKind(
        "c10d::_reduce_scatter_base_",
        "nccl:_reduce_scatter_base",
        "ncclDevKernel_ReduceScatter_Sum_{}_RING_LL" + _ARGS,
        0,
        1,
    ),
    "send_recv": CollectiveKind(
        "c10d::send", "nccl:send_recv", "ncclDevKernel_SendRecv" + _ARGS, 0, 0
    ),
}
NCCL_TYPES = {"BFloat16": "bf16", "Float": "f32", "Half": "f16"}
