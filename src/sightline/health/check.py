"""What a check is: its name, what it looks at, from where on it speaks, who says so, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sightline.health.node import ELSEWHERE, Gpu, Node

PASS, WARN, FAIL, UNCHECKED = "pass", "warn", "fail", "not checked"
QUICK, MEDIUM, LONG = "quick", "medium", "long"
LEVELS = (QUICK, MEDIUM, LONG)


class Verdict(NamedTuple):
    """What a check says of one place: a GPU, a port, the node."""

    state: str
    text: str = ""
    where: str = ""


@dataclass(frozen=True)
class Check:
    """One check. Of a GPU `judge_gpu` is asked for each, where all it needs is known."""

    name: str
    what: str
    threshold: str
    source: str
    fix: str
    needs: tuple[str, ...] = ()
    judge_gpu: Callable[[Gpu], Verdict | None] | None = None  # None: it passes
    judge_node: Callable[[Node], Iterable[Verdict]] | None = None
    level: str = QUICK


def run_check(check: Check, node: Node) -> list[Verdict]:
    """A verdict for each place; where something is not known, why."""
    if check.judge_node is not None:
        for name in check.needs:
            if name not in node.values and name not in node.texts:
                return [Verdict(UNCHECKED, node.why_missing(name))]
        return list(check.judge_node(node)) or [Verdict(PASS)]
    if not node.gpus:
        return [Verdict(UNCHECKED, node.why_missing("gpus"))]
    return [_judge_gpu(check, gpu) for gpu in node.gpus]


def _judge_gpu(check: Check, gpu: Gpu) -> Verdict:
    where = f"GPU {gpu.number}"
    for name in check.needs:
        if name not in gpu.values:
            why = gpu.lost or gpu.missing.get(name) or gpu.missing.get("*") or ELSEWHERE
            return Verdict(UNCHECKED, why, where)
    assert check.judge_gpu is not None
    told = check.judge_gpu(gpu)
    return Verdict(PASS, "", where) if told is None else told._replace(where=where)


def fail(text: str) -> Verdict:
    """It fails."""
    return Verdict(FAIL, text)


def warn(text: str) -> Verdict:
    """It warns."""
    return Verdict(WARN, text)


def find_reason(node: Node, name: str) -> str:
    """Why no GPU says something."""
    if not node.gpus:
        return node.why_missing("gpus")
    gpu = node.gpus[0]
    return gpu.lost or gpu.missing.get(name) or gpu.missing.get("*") or ELSEWHERE
