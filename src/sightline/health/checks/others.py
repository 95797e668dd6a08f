"""What other checkers found: DCGM diagnostics, NHC, gpud, gcm and xpu-smi, as recordings."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.health.check import FAIL, PASS, UNCHECKED, WARN, Check, Verdict
from sightline.health.node import Node

_STATES = {
    "check-failed": FAIL,
    "check-warning": WARN,
    "check-passed": PASS,
    "check-skipped": UNCHECKED,
}


def _judge_others(node: Node) -> Iterator[Verdict]:
    found = False
    for event in node.events:
        if event.kind in _STATES:
            found = True
            place = f"GPU {event.device}" if event.device is not None else ""
            yield Verdict(_STATES[event.kind], event.text, place)
    if not found:
        yield Verdict(UNCHECKED, "no output of another checker: give it as a file")


CHECKS = (
    Check(
        "other-tools",
        "what DCGM's diagnostics, NHC, gpud, gcm and xpu-smi found",
        "as they say",
        "dcgmi diag --json; nhc.log; gpud's /v1/states; gcm's sinks; xpu-smi health -l -j",
        "see the tool's own advice",
        judge_node=_judge_others,
    ),
)
