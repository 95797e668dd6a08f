"""A decoder whose products have shapes, as torch.profiler records them with record_shapes=True.

Operators carry their shapes in their names until `tell_shapes` moves them to where the profiler
has them. Times are in ns.
"""

from __future__ import annotations

import re
from typing import Any

from synth_lab.timelines import train
from worlds.kernels import Kernel
from worlds.plans import Layer, Model, Ops
from worlds.world import World

ROWS, WIDTH, LAYERS = 8_192, 2_048, 2  # eight texts of 1,024 tokens
ALIGNED, MISALIGNED = 50_304, 50_257  # tokens of GPT-2, padded to a multiple of 64 and not
PEAK_FLOPS = 989.4e12  # H100 SXM, bf16, dense (datasheet)
BYTES_PER_S = 3.35e12
# Ours: what large products and elementwise kernels reach of these.
SHARE_OF_PEAK, SHARE_OF_BANDWIDTH = 0.65, 0.8
# Padding GPT-2's vocabulary made nanoGPT 25 % faster (its author, February 2023; from memory). The
# head is 31 % of the model's products (124 M parameters, 38.6 M of them in the head), so it took
# 1.8 times as long before: (1 - 0.8 * 0.69) / (0.8 * 0.31).
SLOWDOWN = 1.8
_NAME = re.compile(r"(aten::\w+) (\d+)x(\d+)x(\d+)")


def train_decoder(world: World) -> None:
    """Two layers and a head that is as wide as the vocabulary."""
    tokens = MISALIGNED if world.severity("misaligned") else ALIGNED
    layer = Layer(
        [
            move("aten::layer_norm", "norm", WIDTH),
            multiply(ROWS, WIDTH, 3 * WIDTH),
            ("aten::scaled_dot_product_attention", [Kernel("flash", 140_000)]),
            multiply(ROWS, WIDTH, WIDTH),
            move("aten::layer_norm", "norm", WIDTH),
            multiply(ROWS, WIDTH, 4 * WIDTH),
            move("aten::gelu", "gelu", 4 * WIDTH),
            multiply(ROWS, 4 * WIDTH, WIDTH),
        ],
        [
            *differentiate(ROWS, 4 * WIDTH, WIDTH),
            move("GeluBackward0", "gelu_grad", 4 * WIDTH),
            *differentiate(ROWS, WIDTH, 4 * WIDTH),
            move("NativeLayerNormBackward0", "norm_grad", WIDTH),
            *differentiate(ROWS, WIDTH, WIDTH),
            ("ScaledDotProductFlashAttentionBackward0", [Kernel("flash_grad", 330_000)]),
            *differentiate(ROWS, WIDTH, 3 * WIDTH),
            move("NativeLayerNormBackward0", "norm_grad", WIDTH),
        ],
    )
    head = Layer(
        [multiply(ROWS, WIDTH, tokens), move("aten::cross_entropy_loss", "softmax", tokens)],
        [move("NllLossBackward0", "softmax", tokens), *differentiate(ROWS, WIDTH, tokens)],
    )
    train(world, Model([layer] * LAYERS, head, [Kernel("adam", 400_000)], 65_536, 8))


def multiply(m: int, k: int, n: int) -> tuple[str, list[Kernel]]:
    """A product (m, k) × (k, n), and how long it takes."""
    slow = SLOWDOWN if {k, n, m} & {MISALIGNED} else 1.0
    seconds = 2 * m * k * n / PEAK_FLOPS / SHARE_OF_PEAK * slow
    return f"aten::mm {m}x{k}x{n}", [Kernel("gemm", seconds * 1e9)]


def differentiate(m: int, k: int, n: int) -> Ops:
    """The gradients of its inputs: with regard to the rows, and to the weights."""
    return [multiply(m, n, k), multiply(k, m, n)]


def move(name: str, kind: str, width: int) -> tuple[str, list[Kernel]]:
    """A kernel that reads and writes rows so wide, of two bytes an element."""
    seconds = 4 * ROWS * width / BYTES_PER_S / SHARE_OF_BANDWIDTH
    return name, [Kernel(kind, seconds * 1e9)]


def tell_shapes(event: dict[str, Any], side: str) -> None:
    """Put an operator's shapes where the profiler has them."""
    del side
    found = _NAME.fullmatch(event["name"].removeprefix("autograd::engine::evaluate_function: "))
    if found is None:
        return
    m, k, n = map(int, found.groups()[1:])
    event["name"] = event["name"].replace(found[0], found[1])
    event["args"] |= {
        "Input Dims": [[m, k], [k, n]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Concrete Inputs": ["", ""],
    }
