"""All checks on a node: each one's verdicts, and what they come to."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from sightline.health import checks
from sightline.health.check import FAIL, LEVELS, PASS, UNCHECKED, WARN, Check, Verdict, run_check
from sightline.health.node import Node

# Those of which the driver's own verdict is said first.
_FIRST = ("recovery-action", "gpu-lost", "xid", "gpu-count")
# What a grade says of a node.
WORDS = {FAIL: "UNHEALTHY", WARN: "DEGRADED", PASS: "HEALTHY", UNCHECKED: "NOT CHECKED"}


class Judged(NamedTuple):
    """A check with its verdicts."""

    check: Check
    verdicts: tuple[Verdict, ...]

    def list_verdicts(self, state: str) -> list[Verdict]:
        """Those of a state."""
        return [verdict for verdict in self.verdicts if verdict.state == state]


@cache
def list_checks() -> tuple[Check, ...]:
    """All checks of the folder, the driver's own verdict first."""
    found = [
        check
        for module in sorted(pkgutil.iter_modules(checks.__path__), key=lambda m: m.name)
        for check in importlib.import_module(f"{checks.__name__}.{module.name}").CHECKS
    ]
    first = [check for name in _FIRST for check in found if check.name == name]
    return (*first, *(check for check in found if check.name not in _FIRST))


def judge_node(node: Node, level: str = "quick") -> list[Judged]:
    """Every check up to a level."""
    levels = LEVELS[: LEVELS.index(level) + 1]
    return [
        Judged(check, tuple(run_check(check, node)))
        for check in list_checks()
        if check.level in levels
    ]


def grade(judged: Sequence[Judged]) -> str:
    """The worst of all: fail, warn or pass; not checked where nothing was."""
    states = {verdict.state for one in judged for verdict in one.verdicts}
    return next((state for state in (FAIL, WARN, PASS) if state in states), UNCHECKED)


def grade_node(node: Node, judged: Sequence[Judged]) -> str:
    """As `grade`; where no GPU is known, nothing that passes says that the node is healthy."""
    known = node.gpus or any(event.device is not None for event in node.events)
    found = grade(judged)
    return UNCHECKED if found == PASS and not known else found


def count_states(judged: Sequence[Judged]) -> dict[str, int]:
    """How many checks fail, warn, pass, or could not be made: each by the worst of its verdicts."""
    counts = dict.fromkeys((FAIL, WARN, PASS, UNCHECKED), 0)
    for one in judged:
        counts[grade([one])] += 1
    return counts


def forget_before(node: Node, start_ns: int) -> None:
    """Leave out events that are older, in ns since 1970; what has no time stays."""
    node.events = [e for e in node.events if e.time_ns is None or e.time_ns >= start_ns]
