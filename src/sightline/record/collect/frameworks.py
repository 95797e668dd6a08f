"""Profilers within a program's framework: PyTorch's and JAX's, switched on from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.record.collect.backend import Verdict
from sightline.record.collect.situation import Situation

# PyTorch's profiler keeps all events in memory until it stops. examples/train.py makes 25,000 of
# them in a second of its loop, and each takes 0.4 kB in the trace.
MAX_TORCH_S = 60.0


def judge_framework(situation: Situation, name: str, module: str) -> Verdict:
    """Of a profiler that is switched on inside the program, where that imports the framework."""
    if not situation.is_asked and not situation.is_python:
        return Verdict(False, "the command is not a Python program")
    chosen = situation.options
    if chosen.get("steps"):
        wait, warm_up, active = chosen["steps"]
        return Verdict(True, f"{name}'s profiler, for {active} steps after {wait + warm_up}")
    seconds = chosen.get("seconds") or MAX_TORCH_S
    why = f"{name}'s profiler, {seconds:g} s at most, once the program imports {module}"
    return Verdict(True, why)


def make_schedule(question: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a framework's profiler is told (inline.torch_profiler, inline.jax_profiler)."""
    is_memory = question == "memory"
    bounded = chosen.get("seconds") or chosen.get("steps")
    return {
        "steps": chosen.get("steps"),
        "after_s": chosen.get("after_s"),
        "seconds": chosen.get("seconds") if bounded else MAX_TORCH_S,
        "limited": not bounded,
        "shapes": chosen.get("shapes", True),
        # An allocation is told by the line that made it.
        "stacks": chosen.get("stacks", False) or is_memory,
        "memory": chosen.get("memory", False) or is_memory,
    }
