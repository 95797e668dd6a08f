"""A training loop over a simulated caching allocator that keeps its activations, or does not."""

from __future__ import annotations

from typing import Any

from synth_memory.allocator import MIB, Allocator
from synth_memory.programs import stack

LAYERS, STEPS = 8, 12
WEIGHT, ACTIVATION = 24 * MIB, 12 * MIB
GROUP = "site-packages/torch/optim/adamw.py:100:_init_group"
UPDATE = "site-packages/torch/optim/adamw.py:200:step"


def train(program: str, lines: dict[str, int], *, keeps: bool) -> dict[str, Any]:
    """The snapshot after some steps. `keeps`: activations stay alive.

    `lines` has the lines of the functions of `program`, a file.
    """

    def at(function: str, *inside: str) -> list[dict[str, Any]]:
        own = [f"{program}:{lines[name]}:{name}" for name in (function, "main")]
        frames = stack(*inside, *own)[:-1]
        return [f | {"filename": f["filename"].removeprefix("/home/x/")} for f in frames]

    backward = [{"name": "torch::autograd::Engine::evaluate_function", "filename": "??", "line": 0}]
    allocator = Allocator()
    weights = [allocator.alloc(WEIGHT, at("make_model")) for _ in range(LAYERS)]
    states = []
    for _ in range(STEPS):
        activations = [allocator.alloc(ACTIVATION, at("run_step")) for _ in range(LAYERS)]
        gradients = []
        for block in reversed(activations):
            gradients.append(allocator.alloc(WEIGHT, backward))
            if not keeps:
                allocator.free(block)
        if not states:
            states = [allocator.alloc(WEIGHT, at("run_step", GROUP)) for _ in weights for _ in "mv"]
        allocator.free(allocator.alloc(1024, at("run_step", UPDATE)))
        for block in gradients:
            allocator.free(block)
    return allocator.snapshot()
