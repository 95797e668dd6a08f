"""A few steps of training as a memory snapshot, with round sizes: the truth is worked out by hand.

A parameter of 100 bytes; in each step an activation of 40 and a temporary of 60, a gradient of 100,
and, from the first step on, optimizer state of 200. The peak is 440, in step 1: the gradient while
its activation is still there.
"""

from __future__ import annotations

from typing import Any

from support.snapshots import Entry, alloc, entry, frames, free, segment, snapshot

MAKE = frames("m.py:1:__init__", "t.py:1:<module>")
FORWARD = frames("m.py:2:forward", "t.py:2:<module>")
SECOND = frames("n.py:3:forward", "t.py:2:<module>")
BACKWARD = [{"name": "torch::autograd::Engine::thread_main", "filename": "??", "line": 0}]
STEP = frames("/x/torch/optim/adam.py:5:_init_group", "t.py:3:step")
LOG = frames("t.py:9:log")
# Where blocks lie.
WEIGHT, FIRST, OTHER, GRADIENT, STATE, SCRATCH, LEAK = (i << 12 for i in range(1, 8))


def train(steps: int = 3, *, leak: int = 0, more: Any = None) -> dict[str, Any]:
    """`leak` bytes are kept in each step; `more(step)` gives events that end a step."""
    events: list[Entry] = [entry("segment_alloc", WEIGHT, 1 << 16, 0), alloc(WEIGHT, 100, 1, MAKE)]
    for step in range(steps):
        t = 10 + 10 * step
        events += [alloc(FIRST, 40, t, FORWARD), alloc(OTHER, 60, t + 1, SECOND)]
        events += free(OTHER, 60, t + 2)
        events += [alloc(GRADIENT, 100, t + 3, BACKWARD), *free(FIRST, 40, t + 4)]
        if step == 0:
            events.append(alloc(STATE, 200, t + 5, STEP))
        events += [alloc(SCRATCH, 1, t + 6, STEP), *free(SCRATCH, 1, t + 6)]
        events += free(GRADIENT, 100, t + 7)
        if leak:
            events.append(alloc(LEAK + 4096 * step, leak, t + 8, LOG))
        events += more(step) if more else []
    used: list[Any] = [(100, "active_allocated", MAKE), (200, "active_allocated", STEP)]
    kept = [segment(WEIGHT, used[0], ((1 << 16) - 100, "inactive")), segment(STATE, used[1])]
    kept += [
        segment(LEAK + 4096 * i, (leak, "active_allocated", LOG)) for i in range(steps) if leak
    ]
    return snapshot(events, kept)
