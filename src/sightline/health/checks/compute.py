"""How fast a GPU computes, against its siblings in the node."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sightline.health.check import FAIL, MEDIUM, PASS, UNCHECKED, Check, Verdict, find_reason
from sightline.health.node import Node

# SuperBench's default rule: a result more than 5 % below what is expected is a defect.
_SHARE = 0.05


def _judge_siblings(node: Node) -> Iterator[Verdict]:
    known = [gpu for gpu in node.gpus if "matmul_tflops" in gpu.values]
    if not known:
        yield Verdict(UNCHECKED, find_reason(node, "matmul_tflops"))
        return
    for gpu in known:
        where, own = f"GPU {gpu.number}", gpu.values["matmul_tflops"]
        siblings = [
            other.values["matmul_tflops"]
            for other in known
            if other.name == gpu.name and other is not gpu
        ]
        if not siblings:
            text = f"{own:.0f} TFLOP/s, and no sibling to compare with"
            yield Verdict(UNCHECKED, text, where)
        elif own < (1 - _SHARE) * median(siblings):
            text = f"{own:.0f} TFLOP/s, its siblings {median(siblings):.0f}"
            yield Verdict(FAIL, text, where)
        else:
            yield Verdict(PASS, "", where)


CHECKS = (
    Check(
        "compute",
        "large matrix products in bfloat16 (PyTorch, where it is installed)",
        "5 % slower than its siblings",
        "SuperBench, data diagnosis: default_variance_rule, condition -0.05",
        "look at clocks, power limit and temperature under load; then DCGM's diagnostics, level 3",
        judge_node=_judge_siblings,
        level=MEDIUM,
    ),
)
