"""Functions written out in single operators, of which each passes over memory."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.roofline.operators.arguments import Arguments
from sightline.subjects.kernels.patterns._sizes import get_bytes, keep_passes
from sightline.subjects.kernels.patterns.declare import Keep, Pattern, match_row

_MUL, _SQUARE = "aten::mul_?", "aten::(?:pow|square|mul)"
# From so many classes on the logits of a batch are larger than any other activation (ours: the
# vocabularies of language models have 30,000 to 256,000).
_VOCABULARY = 16_384


def _keep_logits(several: Sequence[Arguments]) -> Keep:
    """Logits in the type that the product wrote, read once and overwritten by their gradient."""
    logits = several[0].tensor(1) or several[0].tensor(0)
    if logits is None or len(logits.shape) < 2 or logits.shape[-1] < _VOCABULARY:
        return None
    return get_bytes(logits)


_FUSE = "or torch.compile, which fuses it"
_GUIDE = "PyTorch Performance Tuning Guide: Fuse operations"

PATTERNS = (
    Pattern(
        "gelu-by-tanh-written-out",
        "GELU written out",
        match_row(
            f"{_MUL} ?",
            _SQUARE,
            f"{_MUL} *",
            "aten::add_?",
            _MUL,
            "aten::tanh_?",
            "aten::add_?",
            _MUL,
            f"{_MUL} ?",
            keep=keep_passes(2),
        ),
        cause="GELU by tanh is written out in six to nine operators",
        fix='torch.nn.functional.gelu(x, approximate="tanh"), ' + _FUSE,
        source=f"{_GUIDE} (its example is GELU)",
    ),
    Pattern(
        "gelu-by-erf-written-out",
        "GELU written out",
        match_row(
            f"{_MUL} ?",
            "aten::(?:div|mul)_?",
            "aten::erf_?",
            "aten::add_?",
            _MUL,
            f"{_MUL} ?",
            keep=keep_passes(2),
        ),
        cause="GELU by erf is written out in four to six operators",
        fix="torch.nn.functional.gelu(x), " + _FUSE,
        source=f"{_GUIDE} (its example is GELU)",
    ),
    Pattern(
        "quick-gelu",
        "x · sigmoid(1.702 x) in three operators",
        match_row(_MUL, "aten::sigmoid_?", _MUL, keep=keep_passes(2)),
        cause="QuickGELU runs as a product, a sigmoid and a product",
        fix="torch.nn.functional.gelu or silu where the model allows it, " + _FUSE,
        source=_GUIDE,
    ),
    Pattern(
        "silu-written-out",
        "Sigmoid and product in two operators",
        match_row("aten::sigmoid_?", _MUL, keep=keep_passes(3)),
        cause="a sigmoid and a product pass over memory one after the other",
        fix="torch.nn.functional.silu (x · sigmoid(x)) or glu (a · sigmoid(b)), " + _FUSE,
        source="PyTorch: torch.nn.functional.silu, glu",
    ),
    Pattern(
        "gated-activation",
        "Activation and gate in two operators",
        match_row("aten::(?:silu|gelu|relu)_?", _MUL, keep=keep_passes(3)),
        cause="a gated layer (SwiGLU, GeGLU) writes its activation and reads it again to multiply",
        fix="a fused kernel (Liger Kernel's SwiGLU and GeGLU, xFormers), " + _FUSE,
        source="Hsu et al., Liger Kernel (2024): SwiGLU and GeGLU",
    ),
    Pattern(
        "softmax-written-out",
        "Softmax written out",
        match_row(
            "aten::a?max",
            "aten::sub_?",
            "aten::exp_?",
            "aten::sum",
            "aten::div_?",
            keep=keep_passes(2),
        ),
        cause="softmax is written out in five operators",
        fix="torch.softmax",
        source="PyTorch: torch.nn.functional.softmax",
    ),
    Pattern(
        "log-of-softmax",
        "Softmax and logarithm in two operators",
        match_row("aten::_softmax", "aten::log_?", keep=keep_passes(2)),
        cause="the logarithm of a softmax is taken in a second pass",
        fix="torch.nn.functional.log_softmax, or cross_entropy from the logits",
        source="PyTorch: torch.nn.functional.log_softmax (slower and less exact as two operations)",
    ),
    Pattern(
        "large-vocabulary-loss",
        "Repeated passes over a large vocabulary's logits",
        match_row(
            "aten::copy_ ?", "aten::_log_softmax", "aten::nll_loss\\w*_forward ?", keep=_keep_logits
        ),
        cause="the logits of a large vocabulary are cast, normalized and written again",
        fix="a loss that is fused with the last layer (Liger Kernel's FusedLinearCrossEntropy, "
        "cut cross-entropy), or in chunks of tokens",
        source="Hsu et al., Liger Kernel (2024); Wijmans et al., Cut Your Losses (2024)",
    ),
    Pattern(
        "layer-norm-written-out",
        "Layer normalization written out",
        match_row(
            "aten::mean",
            "aten::(?:sub|var|std)",
            f"{_SQUARE} ?",
            "aten::(?:mean|var) ?",
            "aten::sub_? ?",
            "aten::add_? ?",
            "aten::r?sqrt_? ?",
            "aten::sub_? ?",
            "aten::(?:div|mul)_?",
            f"{_MUL} ?",
            "aten::add_? ?",
            keep=keep_passes(2, least=5),
        ),
        cause="a layer normalization is written out in five or more operators",
        fix="torch.nn.functional.layer_norm",
        source="PyTorch: torch.nn.LayerNorm; " + _GUIDE,
    ),
    Pattern(
        "rms-norm-written-out",
        "RMS normalization written out",
        match_row(
            "aten::copy_ ?",
            _SQUARE,
            "aten::mean",
            "aten::add_?",
            "aten::rsqrt_?",
            _MUL,
            "aten::copy_ ?",
            f"{_MUL} ?",
            keep=keep_passes(2),
        ),
        cause="an RMS normalization is written out in five to eight operators",
        fix="torch.nn.functional.rms_norm, " + _FUSE,
        source="PyTorch: torch.nn.RMSNorm; Hsu et al., Liger Kernel (2024)",
    ),
    Pattern(
        "rope-written-out",
        "Rotary embedding written out",
        match_row(_MUL, "aten::neg", "aten::cat", _MUL, "aten::add_?", keep=keep_passes(2)),
        cause="rotary embeddings are written out: products, a negation and a copy of halves",
        fix="a fused kernel (Liger Kernel, flash-attn's apply_rotary_emb), " + _FUSE,
        source="Hsu et al., Liger Kernel (2024): RoPE",
    ),
    Pattern(
        "dropout-written-out",
        "Dropout by a mask of its own",
        match_row(
            "aten::(?:bernoulli_|uniform_)",
            "aten::(?:div|ge|gt|lt)_? ?",
            _MUL,
            f"{_MUL} ?",
            keep=keep_passes(2),
        ),
        cause="dropout draws a mask, writes it and multiplies by it in operators of their own",
        fix="torch.nn.functional.dropout, whose fused kernel draws and multiplies in one pass",
        source="PyTorch: native_dropout (aten/src/ATen/native/cuda/Dropout.cu)",
    ),
)
