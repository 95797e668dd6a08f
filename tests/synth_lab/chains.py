"""Blocks of a product and an activation: written out in PyTorch, or as one kernel in Triton.

A kernel of the chain takes as long as its reads and writes do. Times are in ns.
"""

from __future__ import annotations

from synth_lab.shapes import BYTES_PER_S, PEAK_FLOPS, SHARE_OF_BANDWIDTH, SHARE_OF_PEAK
from synth_lab.timelines import STEP_FUNCTION, repeat
from worlds.kernels import Kernel
from worlds.plans import Layer, Model
from worlds.programs import inference
from worlds.world import World

ROWS, WIDTH, LAYERS, STEPS = 8_192, 4_096, 6, 12
BLOCKS = ROWS * WIDTH // (128 * 4)  # of 128 threads with four elements each, as PyTorch has them
# The kernels of lab/triton-fusion/baseline.py in order, and how many tensors each reads and writes.
CHAIN = (
    ("aten::add", "add", 2),  # hidden + bias
    ("aten::mul", "mul", 2),  # hidden * hidden: one tensor, read once
    ("aten::mul", "mul", 3),  # * hidden
    ("aten::mul", "mul", 2),  # 0.044715 * cube
    ("aten::add", "add", 3),  # hidden + ...
    ("aten::mul", "mul", 2),  # 0.79788456 * ...
    ("aten::tanh", "tanh", 2),
    ("aten::mul", "mul", 2),  # 0.5 * hidden
    ("aten::add", "add", 2),  # 1 + ...
    ("aten::mul", "mul", 3),
    ("aten::add", "add", 3),  # residual + ...
)
FUSED = ("bias_gelu_residual", "triton", 3)


def run_blocks(world: World) -> None:
    """Inference through all blocks."""
    chain = CHAIN if world.severity("unfused") else (FUSED,)
    seconds = 2 * ROWS * WIDTH * WIDTH / PEAK_FLOPS / SHARE_OF_PEAK
    layer = Layer([("aten::mm", [Kernel("gemm", seconds * 1e9)]), *map(_pass_over, chain)])
    model = Model([layer] * LAYERS, Layer([]), [], 0, STEPS)
    main = inference.begin(world, model)

    def run(step: int) -> None:
        main.section("blocks", step)
        with main.range("python", STEP_FUNCTION):
            for _ in range(LAYERS):
                for name, kernels in layer.forward:
                    main.op(name, kernels)

    repeat(main, model.steps, run)


def _pass_over(operation: tuple[str, str, int]) -> tuple[str, list[Kernel]]:
    """A kernel that reads and writes so many tensors, of two bytes an element."""
    name, kind, tensors = operation
    seconds = 2 * tensors * ROWS * WIDTH / BYTES_PER_S / SHARE_OF_BANDWIDTH
    return name, [Kernel(kind, seconds * 1e9, blocks=BLOCKS)]
