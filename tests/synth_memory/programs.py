"""A training loop over a simulated allocator, healthy or with one problem of memory planted."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from synth_memory.allocator import MIB, Allocator, Block, OutOfMemoryError, Stack

CAUSES = (
    "memory-leak",
    "memory-fragmentation",
    "allocator-thrash",
    "out-of-memory",
    "peak-set-by-one-tensor",
    "activations-kept",
)


def stack(*places: str) -> Stack:
    """Frames, innermost first, of 'file.py:line:function', below the script's own."""
    found = []
    for place in (*places, "train.py:1:<module>"):
        file, line, name = place.split(":", 2)
        found.append({"name": name, "filename": f"/home/x/{file}", "line": int(line)})
    return found


INIT = stack("model.py:5:__init__")
FORWARD = [stack(f"layer{i}.py:9:forward", "model.py:20:forward") for i in range(64)]
# Autograd's threads have no Python frames.
BACKWARD = [{"name": "torch::autograd::Engine::evaluate_function", "filename": "??", "line": 0}]
OPTIMIZER = stack("site-packages/torch/optim/adam.py:50:_init_group", "train.py:9:step")
LOG = stack("train.py:12:log_loss")
LOGITS = stack("head.py:3:forward", "model.py:22:forward")


@dataclass
class Program:
    """What is simulated, and the truth: bytes that the cause takes."""

    cause: str
    document: dict[str, Any]
    truth: dict[str, int] = field(default_factory=dict)


def simulate(cause: str, seed: int, batch: float = 1.0) -> Program:
    """One program of some steps; sizes, layers and steps are drawn.

    Activations and logits are `batch` times as large.
    """
    random = Random(f"{cause} {seed}")
    layers, steps = random.randint(6, 24), random.randint(9, 16)
    # Smaller ones share segments of 20 MiB, whose rests would be a problem that nobody planted.
    weight = random.randint(10, 30) * MIB
    truth: dict[str, int] = {}
    allocator = Allocator()
    activation = int(weight * random.uniform(0.05, 0.3))
    if cause == "activations-kept":
        activation = int(weight * random.uniform(5.0, 9.0))
    activation = int(activation * batch)
    weights = [allocator.alloc(weight, INIT) for _ in range(layers)]
    most = 0
    leaked: list[Block] = []
    states: list[Block] = []
    peak_state = 0
    size = random.randint(1, 3) * MIB
    logits = int((4 if cause == "peak-set-by-one-tensor" else 0) * weight * layers * batch)
    if cause == "out-of-memory":
        allocator.capacity = allocator.reserved * 4 + 200 * MIB
    try:
        for step in range(steps):
            if cause == "out-of-memory" and step == steps // 2:
                for _ in range(400):  # a batch that is too large
                    asked = random.randint(30, 90) * MIB
                    truth["asked"] = asked
                    leaked.append(allocator.alloc(asked, FORWARD[0]))
            kept = [allocator.alloc(activation, FORWARD[i]) for i in range(layers)]
            if logits:
                large = allocator.alloc(logits, LOGITS)
                most = max(most, allocator.allocated)
                allocator.free(large)
            if cause == "memory-leak":
                leaked.append(allocator.alloc(size, LOG))
            most = max(most, allocator.allocated)
            gradients = []
            for block in reversed(kept):
                gradients.append(allocator.alloc(weight, BACKWARD))
                most = max(most, allocator.allocated)
                allocator.free(block)
            if not states:
                states = [allocator.alloc(weight, OPTIMIZER) for _ in weights for _ in "mv"]
                peak_state = sum(b.asked for b in states)
            marker = allocator.alloc(1024, OPTIMIZER)
            most = max(most, allocator.allocated)
            allocator.free(marker)
            for block in gradients:
                allocator.free(block)
            if cause == "allocator-thrash":
                allocator.empty_cache()
        if cause == "memory-fragmentation":
            _fragment(allocator, layers * weight, random, truth)
    except OutOfMemoryError:
        pass
    truth |= {"peak": max(most, 0), "leaked": sum(b.asked for b in leaked), "state": peak_state}
    truth["per_step"] = size
    return Program(cause, allocator.snapshot(), truth)


def _fragment(allocator: Allocator, whole: int, random: Random, truth: dict[str, int]) -> None:
    """Long-lived blocks between short-lived ones; then requests that fit none of the gaps."""
    gone: list[Block] = []
    count = max(60, whole // (4 * MIB))
    for _ in range(count):
        gone.append(allocator.alloc(6 * MIB, FORWARD[1]))
        allocator.alloc(random.randint(2, 3) * MIB, LOG)
    for block in gone:
        allocator.free(block)
    for _ in range(count // 2):
        allocator.alloc(14 * MIB, FORWARD[2])
    active = reserved = most_active = most_reserved = 0
    for event in allocator.events:
        sign = {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
        active += sign * event["size"]
        reserved += {"segment_alloc": 1, "segment_free": -1}.get(event["action"], 0) * event["size"]
        most_active, most_reserved = max(most_active, active), max(most_reserved, reserved)
    pinned = sum(
        b.size
        for s in allocator.segments
        if any(b.used for b in s.blocks)
        for b in s.blocks
        if not b.used
    )
    truth["pinned"] = min(pinned, most_reserved - most_active)
