"""Kernel names of real recordings: what a person reads of each, and that no two read alike."""

from __future__ import annotations

import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.cxx_names import parse_function
from sightline.core.kernel_labels import label_kernels, shorten_kernel_name
from support.corpus import list_recordings, name_recording

COPY = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
    "{lambda()#7}::operator()() const::{lambda(TYPE)#1}>(at::TensorIteratorBase&, at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
    "{lambda()#7}::operator()() const::{lambda(TYPE)#1} const&)::{lambda(int)#1}>(int, X)"
)
LEAF = (
    "void clover::par_ranged2d_kernel<PdV_kernel(bool, int, double, clover::Buffer2D<double> &)::"
    "[lambda(int, int) (instance N)]>(clover::Range2d, T1)"
)
GEMV = (
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, "
    "__nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false, cublasGemvParamsEx<"
    "int, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, float> >(cublasGemvParamsEx<int>)"
)
CK = (
    "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3INS_28"
    "GridwiseGemm_xdl_cshuffle_v3INS_13tensor_layout4gemm8RowMajorENS6_11ColumnMajorES7_ttfttNS0_12"
    "element_wise11PassThroughESA_SA_LNS1_18GemmSpecializationE7ELi256ELi64ELi128ELi32ELi8ELi8ELi16E"
    + "NS_8SequenceIJLi8ELi16ELi1EEEE"
    * 40  # beyond what GCC's demangler takes
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_32x128_tn", "ampere_sgemm_32x128_tn"),
        ("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)",
         "ncclDevKernel_AllReduce_Sum_f16_RING_LL"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
         "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>)",
         "vectorized_elementwise_kernel<AddFunctor>"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
         "vectorized_layer_norm_kernel"),
        (COPY.replace("TYPE", "float"), "elementwise_kernel<direct_copy_kernel_cuda>"),
        (LEAF.replace("N", "1"), "par_ranged2d_kernel<PdV_kernel>"),
        (GEMV, "gemvx::kernel"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, "
         "float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >"
         "(int)", "vectorized_elementwise_kernel<MulFunctor>"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<"
         "float, float, float, float>, unsigned int, float, 4, 4> >(X)", "reduce_kernel<MeanOps>"),
        ("void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::"
         "_cuda_scatter_gather_internal_kernel<true, float>::operator()<at::native::ReduceAdd>("
         "at::TensorIterator&, long)::{lambda(int)#1}>(int)",
         "_scatter_gather_elementwise_kernel<ReduceAdd>"),
        # CUTLASS, as cuBLAS and PyTorch call it.
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_"
         "align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8::Params)",
         "cutlass gemm bf16 32x32x128 tn"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1>(X)",
         "cutlass gemm 128x128x32 nn"),
        # cuBLAS' and cuDNN's xmma kernels: the first type is that of the inputs.
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_"
         "segment_k_off_kernel__5x_cublas", "xmma gemm bf16 64x64x64 tn"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize"
         "128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_alignc4_execute_kernel_cudnn",
         "xmma fprop tf32 128x128x16 nhwckrsc"),
        # hipBLASLt: A as m by k is Ailk (N), as k by m Alik (T).
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1",
         "Tensile gemm bf16 256x192x64 TN"),
        ("Cijk_Ailk_Bjlk_HHS_BH_MT64x64x32_MI16x16x1_SN", "Tensile gemm f16 64x64x32 NT"),
        ("igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32_wt32x32x8_ws2x1_wr2x2",
         "igemm wrw bf16 256x128x32 nhwc"),
        (CK, "CK grouped_conv_fwd_xdl_cshuffle_v3 64x128x32 rc"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIDF16bEEEEvT_",
         "Rmsnorm2dFwd"),
        # Triton writes what it knows of the arguments behind the name.
        ("matmul_kernel_0d1d2d3de4de", "matmul_kernel"),
        ("triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_0"),
        ("kernel_unified_attention_2d", "kernel_unified_attention_2d"),
        # Operators stand in the same lists: on the critical path, in tables of the page.
        ("aten::mm", "aten::mm"),
        ("autograd::engine::evaluate_function: AddmmBackward0",
         "autograd::engine::evaluate_function: AddmmBackward0"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_name_alone(name, short):
    assert shorten_kernel_name(name) == short


def test_only_what_differs_is_added():
    names = [COPY.replace("TYPE", kind) for kind in ("float", "c10::BFloat16")]
    assert list(label_kernels(names).values()) == [
        "elementwise_kernel<direct_copy_kernel_cuda, float>",
        "elementwise_kernel<direct_copy_kernel_cuda, bf16>",
    ]
    batched = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, int, {}, 64>(X)"
    labels = label_kernels([batched.format(3), batched.format(4)])
    assert list(labels.values()) == ["CatArrayBatchedCopy<3>", "CatArrayBatchedCopy<4>"]


def test_lambdas_of_one_function_are_told_apart_by_number():
    labels = label_kernels(LEAF.replace("N", str(n)) for n in range(1, 21))
    assert list(labels.values()) == [f"par_ranged2d_kernel<PdV_kernel, #{n}>" for n in range(1, 21)]


def test_tiles_tell_alike_library_kernels_apart():
    one = "cutlass_80_tensorop_s1688gemm_128x128_32x{}_nn_align{}"
    wrapped = [f"void cutlass::Kernel<{one.format(*x)}>(X)" for x in ((3, 1), (3, 4), (5, 4))]
    assert list(label_kernels(wrapped).values()) == [
        "cutlass gemm 128x128x32 nn 32x3, align1",
        "cutlass gemm 128x128x32 nn 32x3, align4",
        "cutlass gemm 128x128x32 nn 32x5, align4",
    ]


def test_both_spellings_of_a_name_are_read_alike():
    nvcc = "void f<(int)4, <unnamed>::g()::[lambda(long) (instance 2)], (unsigned long)3>(T1)"
    clang = "void f<4, (anonymous namespace)::g()::{lambda(long)#2}, 3ul>(int)"
    assert parse_function(nvcc)[:3] == parse_function(clang)[:3]


SMALL_TRACES = [p for p in list_recordings("kineto/**/*.json.gz") if p.stat().st_size < 3_000_000]


@pytest.mark.corpus
@pytest.mark.parametrize("path", SMALL_TRACES, ids=name_recording)
def test_kernels_of_a_real_recording_have_short_labels_of_their_own(path):
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    kernels = re.findall(r'"cat"\s*:\s*"[kK]ernel"\s*,\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")', text)
    names = sorted({json.loads(name, strict=False) for name in kernels})
    labels = label_kernels(names)
    assert len(set(labels.values())) == len(names)
    for name, label in labels.items():
        assert len(label) <= max(110, 1 + len(name) // 4), label
        assert not label.startswith(("!", "_Z", "void ")), label


@given(st.lists(st.text("ab<>(){}[],:#0 ~_ZNIES_void lambda", max_size=40), max_size=6))
def test_whatever_a_recording_calls_kernels_their_labels_differ(names):
    labels = label_kernels(names)
    assert set(labels) == set(names)
    assert len(set(labels.values())) == len(set(names))
