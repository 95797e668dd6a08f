"""Which kernels exchange data between devices, by names that recordings and sources have."""

from __future__ import annotations

import re

import pytest

from sightline.timeline.communication_names import PATTERN, PEERS_PATTERN

# Names as profilers write them: the first from recordings, the others demangled from the sources.
EXCHANGES = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
    "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*, sglang::RankSignals)",
    "quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half,4>, true>>",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<...>(...)",
    "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(...)",
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel<float, 8>(...)",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)",
    "void deep_ep::internode_ll::combine<true, 7168, 9>(void*, void*, int*)",
    "void dpsk::ep::internode::notify_dispatch<false, 4>(int const*, int*)",
    "nvshmemi_proxy_complete_kernel",
    "mscclpp::collective::allreduce7(...)",
    "oneccl_allreduce_small",
]
COMPUTES = [
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
    "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*, long*>>()",
    "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_64x64>(...)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()",
    "moe_dispatch_permute_kernel",
]


@pytest.mark.parametrize("name", EXCHANGES)
def test_exchanges_data(name: str) -> None:
    assert re.search(PATTERN, name)


@pytest.mark.parametrize("name", COMPUTES)
def test_computes(name: str) -> None:
    assert not re.search(PATTERN, name)


def test_a_peers_rule_is_narrower() -> None:
    assert [bool(re.search(PEERS_PATTERN, n)) for n in EXCHANGES].count(True) == 1
