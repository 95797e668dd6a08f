"""Each pattern of the table: a program that it is in, and one that it is nearly in."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.subjects.kernels.patterns.match import list_patterns
from sightline.subjects.kernels.patterns.table import PATTERNS
from support.operators import Op, T, around, backward, op, run_of

X = [1024, 4096]  # 16 MB of floats: 5 µs at the memory's rate, of 100 µs that a kernel takes
HALF, DOUBLE, LONG = "c10::BFloat16", "double", "long int"
Q, SCORES, FLAT = [4, 8, 1024, 64], [4, 8, 1024, 1024], [32, 1024, 1024]
HEADS = [2, 4, 8, 64, 64]
IMAGE, LAST = [16, 64, 64, 64], (262144, 1, 4096, 64)  # NHWC strides of an NCHW shape


def each(names: str, *args: object) -> list[Op]:
    """These ATen operators one after another, each with the same arguments."""
    return [op(f"aten::{name}", *args) for name in names.split()]


def norm(name: str, image: object, training: str) -> Op:
    channels = [[64]] * 4
    return op(f"aten::{name}", image, *channels, training, "0.1", "1e-05")


CONV = op("aten::cudnn_convolution", IMAGE, [64, 64, 3, 3])
NCHW = op("aten::cudnn_convolution", IMAGE, [64, 64, 3, 3], kernel="cudnn::nchwToNhwcKernel<float>")
BIAS = op("aten::add_", IMAGE, [1, 64, 1, 1])
FORWARD = op("aten::gelu", X, sequence=7)
MARK = "user_annotation"
STEP = "Optimizer.step#AdamW.step"
ADAM = (
    "_foreach_mul_ _foreach_lerp_ _foreach_mul_ _foreach_addcmul_ _foreach_sqrt _foreach_addcdiv_"
)


def attention(*, consumed: object = FLAT) -> list[Op]:
    """Products of 32 heads of 1,024 tokens, with a scale and a softmax between them."""
    return [
        op("aten::bmm", [32, 1024, 64], [32, 64, 1024]),
        op("aten::div", SCORES, "8"),
        op("aten::_softmax", SCORES, "-1", "False"),
        op("aten::bmm", consumed, [32, 1024, 64]),
    ]


def loop(*indices: int) -> list[Op]:
    """x[i] and a sum over it, for each index: the selection launches nothing."""
    pairs = [
        (Op("aten::select", ([32, 64], "0", str(i)), kernel=None), op("aten::sum", [64]))
        for i in indices
    ]
    return [o for pair in pairs for o in pair]


def cats(*lengths: int) -> list[Op]:
    """A cache of keys that one token is added to, at these lengths."""
    return [op("aten::cat", [[4, 8, n, 64], [4, 8, 1, 64]], "2") for n in lengths]


def anomaly() -> list[Op]:
    """What autograd's engine asks of a gradient where anomalies are looked for."""
    return [
        around("aten::isnan", op("aten::ne", X, X)),
        around("aten::_is_any_true", op("aten::any", X)),
        around("aten::item", op("aten::_local_scalar_dense", kernel="Memcpy DtoH")),
    ]


def sort_and_slice(few: int) -> list[Op]:
    """A sort of rows of 32,000 numbers, and the first few of each."""
    rows = [8, 32_000]
    taken = Op("aten::slice", (rows, "1", "0", str(few), "1"), kernel=None)
    return [op("aten::sort", rows, "-1", "True"), taken]


ADDED = ("0", T([500_000], LONG))
TABLE = T([4096], LONG)  # indices of an embedding

# Name: the program that it is in, and the one that it is nearly in.
CASES: dict[str, tuple[list[Op], list[Op]]] = {
    "recomputed-forward": (
        [FORWARD, backward("GeluBackward0", 7, op("aten::gelu", X, sequence=9))],
        [FORWARD, backward("GeluBackward0", 7, op("aten::gelu", X))],
    ),
    "loop-over-rows": (loop(*range(16)), loop(*range(15))),
    "norms-one-by-one": (each("norm " * 16, X), each("norm " * 15, X)),
    "updates-one-by-one": (each("mul_ add_ " * 32, X), each("mul_ add_ " * 31, X)),
    "small-products-one-by-one": (
        each("mm " * 8, [64, 32], [32, 64]),
        each("mm " * 8, [4096, 32], [32, 4096]),
    ),
    "attention-written-out": (attention(), attention(consumed=[32, 1024, 512])),
    "add-onto-few-rows": (
        [op("aten::index_add", [4, 64], *ADDED, [500_000, 64])],
        [op("aten::index_add", [20_000, 64], *ADDED, [500_000, 64])],
    ),
    "put-onto-few-rows": (
        [op("aten::_index_put_impl_", [4, 64], "", [9999, 64], "True")],
        [op("aten::_index_put_impl_", [4, 64], "", [9999, 64], "False")],
    ),
    "gradient-onto-few-rows": (
        [op("aten::embedding_dense_backward", [4096, 64], TABLE, "16", "-1", "False")],
        [op("aten::embedding_dense_backward", [4096, 64], TABLE, "4096", "-1", "False")],
    ),
    "indexing-backward-by-sort": (
        [op("aten::_index_put_impl_", [9999, 64], "", [9999, 64], "True")],
        [op("aten::_index_put_impl_", [9999, 64], "", [9999, 64], "False")],
    ),
    "dense-embedding-gradient": (
        [op("aten::embedding_dense_backward", [4096, 64], TABLE, "50000", "-1", "False")],
        [op("aten::embedding_dense_backward", [4096, 64], TABLE, "30000", "-1", "False")],
    ),
    "batch-norm-channels-first": (
        [NCHW, norm("native_batch_norm", IMAGE, "True")],
        [CONV, norm("native_batch_norm", IMAGE, "True")],
    ),
    "layout-copy": (
        [op("aten::copy_", IMAGE, T(IMAGE, strides=LAST))],
        [op("aten::copy_", IMAGE, IMAGE)],
    ),
    "conv-bias-before-norm": (
        [CONV, BIAS, norm("cudnn_batch_norm", IMAGE, "True")],
        [CONV, BIAS, op("aten::relu", IMAGE)],
    ),
    "batch-norm-not-folded": (
        [CONV, norm("cudnn_batch_norm", IMAGE, "False")],
        [CONV, norm("cudnn_batch_norm", IMAGE, "True")],
    ),
    "padding-before-convolution": (
        [*each("fill_ copy_", IMAGE), CONV],
        [*each("fill_ copy_", IMAGE), op("aten::relu", IMAGE)],
    ),
    "depthwise-in-fp32-kernels": (
        [op("aten::_conv_depthwise2d", IMAGE, [64, 1, 3, 3])],
        [CONV],
    ),
    "anomaly-detection": (
        [FORWARD, backward("GeluBackward0", 7, *anomaly())],
        [FORWARD, *anomaly()],
    ),
    "gradients-cleared": (
        [around("Optimizer.zero_grad#SGD.zero_grad", op("aten::zero_", X), category=MARK)],
        [op("aten::zero_", X)],
    ),
    "optimizer-not-fused": (
        [around(STEP, *each(ADAM, X), category=MARK)],
        [around(STEP, *each("_fused_adamw_", X), category=MARK)],
    ),
    "made-on-host": (
        [around("aten::zeros"), around("aten::to", op("aten::copy_", kernel="Memcpy HtoD"))],
        [around("aten::view"), around("aten::to", op("aten::copy_", kernel="Memcpy HtoD"))],
    ),
    "gelu-by-tanh-written-out": (
        each("mul pow mul add mul tanh add mul", X),
        each("mul pow mul add mul erf add mul", X),
    ),
    "gelu-by-erf-written-out": (each("div erf add mul", X), each("div exp add mul", X)),
    "quick-gelu": (each("mul sigmoid mul", X), each("mul tanh mul", X)),
    "silu-written-out": (each("sigmoid mul", X), each("sigmoid add", X)),
    "gated-activation": (each("silu mul", X), each("silu add", X)),
    "softmax-written-out": (each("amax sub exp sum div", X), each("amax sub exp sum mul", X)),
    "log-of-softmax": (each("_softmax log", X), each("_log_softmax neg", X)),
    "large-vocabulary-loss": (
        each("_log_softmax nll_loss_forward", [128, 16_384]),
        each("_log_softmax nll_loss_forward", [128, 16_383]),
    ),
    "layer-norm-written-out": (
        each("mean sub pow mean add sqrt div mul add", X),
        each("mean sub mul", X),
    ),
    "rms-norm-written-out": (
        each("pow mean add rsqrt mul mul", X),
        each("pow mean add sqrt mul mul", X),
    ),
    "rope-written-out": (each("mul neg cat mul add", X), each("mul neg mul add", X)),
    "dropout-written-out": (each("bernoulli_ div_ mul", X), each("normal_ div_ mul", X)),
    "product-with-one-hot": (
        [op("aten::scatter_", T([512, 1000], LONG)), op("aten::mm", [512, 1000], [1000, 64])],
        [op("aten::scatter_", T([512, 1000], LONG)), op("aten::mm", [512, 999], [999, 64])],
    ),
    "indexing-by-mask": (each("nonzero", T(X, "bool")), each("index_select", X)),
    "mask-made-again": (each("tril", [512, 512]), each("tril", [511, 511])),
    "sampling-by-sort": (
        each("sort _softmax cumsum", [8, 32_000]),
        each("sort _softmax cumsum", [8, 1000]),
    ),
    "sort-for-few": (sort_and_slice(50), sort_and_slice(2001)),
    "largest-by-topk": ([op("aten::topk", X, "1", "-1")], [op("aten::topk", X, "2", "-1")]),
    "cast-there-and-back": (
        [op("aten::copy_", X, T(X, HALF)), op("aten::silu", X), op("aten::copy_", T(X, HALF), X)],
        [op("aten::copy_", X, T(X, HALF)), op("aten::mm", X, X), op("aten::copy_", T(X, HALF), X)],
    ),
    "clone-before-in-place": (
        [op("aten::copy_", X, X), op("aten::add_", X, X)],
        [op("aten::copy_", X, X), op("aten::add", X, X)],
    ),
    "fill-before-copy": (
        [op("aten::zero_", X), op("aten::copy_", X, X)],
        [op("aten::zero_", X), op("aten::copy_", [1024, 4097], [1024, 4097])],
    ),
    "transposed-copy-before-product": (
        [op("aten::copy_", X, T(X, strides=(1, 1024))), op("aten::mm", X, X[::-1])],
        [op("aten::copy_", X, T(X, strides=(8192, 1))), op("aten::mm", X, X[::-1])],
    ),
    "repeated-heads": (
        [op("aten::copy_", HEADS, T(HEADS, strides=(16384, 4096, 0, 64, 1)))],
        [op("aten::copy_", HEADS, HEADS)],
    ),
    "broadcast-written-to-memory": (
        [op("aten::copy_", X, T(X, strides=(0, 1)))],
        [op("aten::copy_", X, T(X, strides=(1, 1024)))],
    ),
    "growing-cache": (cats(100, 101, 102, 103), cats(100, 101, 102)),
    "bias-behind-product": (
        [op("aten::mm", X, [4096, 64]), op("aten::add", [1024, 64], [64])],
        [op("aten::mm", X, [4096, 64]), op("aten::add", [1024, 64], [1024, 64])],
    ),
    "squared-error-written-out": (each("sub pow mean", X, X), each("sub pow sum", X, X)),
    "norm-written-out": (each("pow sum sqrt", X), each("pow sum log", X)),
    "clamp-in-two": (each("clamp_min clamp_max", X), each("clamp_min relu", X)),
    "distances-by-broadcasting": (
        [op("aten::sub", [512, 1, 64], [1, 512, 64]), *each("pow sum", [512, 512, 64])],
        each("sub pow sum", [512, 512, 64], [512, 512, 64]),
    ),
    "product-by-broadcasting": (
        [op("aten::mul", [512, 64, 1], [1, 64, 512]), op("aten::sum", [512, 64, 512])],
        [op("aten::mul", [512, 64, 512], [1, 64, 512]), op("aten::sum", [512, 64, 512])],
    ),
    "convolution-by-unfolding": (
        [op("aten::im2col", IMAGE), op("aten::bmm", FLAT, FLAT)],
        [op("aten::im2col", IMAGE), op("aten::relu", IMAGE)],
    ),
    "weights-unpacked-before-product": (
        [op("bitsandbytes::dequantize_4bit", X), op("aten::mm", X, X[::-1])],
        [op("bitsandbytes::dequantize_4bit", X), op("aten::relu", X)],
    ),
    "whole-spectrum-of-real-input": (
        [op("aten::_fft_r2c", X, "[1]", "0", "False")],
        [op("aten::_fft_r2c", X, "[1]", "0", "True")],
    ),
    "awkward-transform-size": (
        [op("aten::_fft_c2c", [1024, 4099], "[1]", "0", "True")],
        [op("aten::_fft_c2c", [1024, 4096], "[1]", "0", "True")],
    ),
    "products-in-fp64": (
        [op("aten::mm", T([64, 64], DOUBLE), T([64, 64], DOUBLE))],
        [op("aten::mm", [64, 64], [64, 64])],
    ),
    "passes-in-fp64": (each("add", T(X, DOUBLE), T(X, DOUBLE)), each("add", X, X)),
    "attention-in-fp32": (
        [op("aten::_efficient_attention_forward", *[[4, 128, 8, 64]] * 3)],
        [op("aten::_efficient_attention_forward", *[T([4, 128, 8, 64], HALF)] * 3)],
    ),
}  # fmt: skip


def name_patterns(folder: Path, program: list[Op]) -> set[str]:
    return {pattern.name for pattern, _ in list_patterns(run_of(folder, *program))}


@pytest.mark.parametrize("name", CASES)
def test_it_is_there(tmp_path: Path, name: str) -> None:
    assert name_patterns(tmp_path, CASES[name][0]) == {name}


@pytest.mark.parametrize("name", CASES)
def test_it_is_nearly_there(tmp_path: Path, name: str) -> None:
    assert name not in name_patterns(tmp_path, CASES[name][1])


def test_each_pattern_has_its_programs() -> None:
    assert list(CASES) == [pattern.name for pattern in PATTERNS]
    assert len(CASES) >= 40


def test_each_pattern_says_all() -> None:
    said = [(p.title, p.cause, p.fix, p.source) for p in PATTERNS]
    assert all(all(texts) for texts in said)
    assert len({p.cause for p in PATTERNS}) == len(PATTERNS)
