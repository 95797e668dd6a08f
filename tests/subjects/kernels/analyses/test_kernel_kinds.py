"""kernel_kinds: kernels by what they do; and the table of names itself."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sightline.timeline.kernel_kinds import KindOfName, list_kinds, name_kinds
from support.traces import opened, queued


def test_kinds_of_a_step(tmp_path: Path) -> None:
    """cuBLAS' two kernels are one kind; what nobody knows comes last."""
    run = opened(
        tmp_path,
        queued(
            ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", 400),
            ("ampere_sgemm_128x64_tn", 100),
            ("cunn_SoftMaxForwardReg", 300),
            ("solve", 200),
        ),
    )
    rows = run.ask("kernel_kinds").select("kind", "kernels", "total_ns", "kernel_pct").rows()
    assert rows == [
        ("matrix products", 2, 500_000, 50.0),
        ("softmax", 1, 300_000, 30.0),
        (None, 1, 200_000, 20.0),
    ]


@pytest.mark.parametrize("row", list_kinds(), ids=lambda row: row.example[:30])
def test_each_row_has_an_example_that_no_earlier_one_takes(row: KindOfName) -> None:
    assert name_kinds(pl.Series([row.example])).to_list() == [row.kind]
    assert row.source


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNN", "matrix products"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "matrix products"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "matrix products"),
        ("_ZN2ck27kernel_gemm_xdl_cshuffle_v3", "matrix products"),
        ("void cudnn::ops::nchwToNhwcKernel<float>", "copies and layout"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_bf16", "convolution"),
        ("triton_poi_fused_convolution_backward_3", "elementwise"),
        ("triton_tem_fused_bmm_4", "matrix products"),
        ("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "attention"),
        ("fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_128", "attention"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        ("advanceWalkers(unsigned int*, int)", None),
        ("prefixSum(unsigned int const*)", None),
    ],
)
def test_names_of_libraries(name: str, kind: str | None) -> None:
    assert name_kinds(pl.Series([name])).to_list() == [kind]
