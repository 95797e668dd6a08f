"""Who can be recorded, and what came of a capture, as lines of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sightline.capture.controller import Asked, Outcome
from sightline.core.text import make_printable
from sightline.core.units import format_ns, format_several

_SHOWN = 12  # problems: those of a job of many nodes are mostly one


def draw_nodes(nodes: Sequence[Asked]) -> Iterator[str]:
    """Each node with its clock, and each process that listens there."""
    for node in nodes:
        if node.problem:
            yield f"{make_printable(node.name)}  !  {make_printable(node.problem)}"
            continue
        clock = f"clock {_write_clock(node)}"
        yield f"{make_printable(node.name)}  {clock}  {_count(node)}"
        for one in sorted(node.listeners, key=lambda o: (str(o.get("job")), o.get("rank") or 0)):
            rank = "-" if one.get("rank") is None else f"rank {one['rank']}"
            gpu = f"GPU {one['gpu']}" if one.get("gpu") else ""
            facts = f"  {rank:<9} {one.get('pid', ''):<8} job {one.get('job') or '-'} {gpu}"
            yield make_printable(f"{facts}  {one.get('user', '')}")
            yield make_printable(f"            {str(one.get('command', ''))[:66]}")
    if not any(node.listeners for node in nodes):
        yield "No process listens. Start the job with KINETO_USE_DAEMON=1; PyTorch asks every 5 s."


def describe_nodes(nodes: Sequence[Asked]) -> list[dict[str, Any]]:
    """The same as data."""
    return [
        {
            "node": node.name,
            "problem": node.problem,
            "clock_offset_ns": node.offset_ns,
            "clock_uncertainty_ns": node.uncertainty_ns,
            "listeners": node.listeners,
        }
        for node in nodes
    ]


def draw_outcome(outcome: Outcome) -> Iterator[str]:
    """How many were recorded, how well in step, and what went wrong."""
    asked = sum(len(node.state.get("expected", ())) for node in outcome.nodes)
    told = sum(node.state.get("told", 0) for node in outcome.nodes)
    where = format_several(len(outcome.nodes), "node")
    yield f"{told} of {format_several(asked, 'process', 'processes')} on {where} recorded"
    if outcome.starts_apart_ns is not None:
        clocks = "one clock"
        if len(outcome.nodes) > 1:
            clocks = f"nodes' clocks known to ± {format_ns(outcome.uncertainty_ns)}"
        yield f"first events of all ranks within {format_ns(outcome.starts_apart_ns)} · {clocks}"
    for text in outcome.problems[:_SHOWN]:
        yield f"  !  {make_printable(text)}"
    if len(outcome.problems) > _SHOWN:
        yield f"  !  and {len(outcome.problems) - _SHOWN} more"


def _write_clock(node: Asked) -> str:
    sign = "ahead" if node.offset_ns >= 0 else "behind"
    return f"{format_ns(abs(node.offset_ns))} {sign} ± {format_ns(node.uncertainty_ns)}"


def _count(node: Asked) -> str:
    return format_several(len(node.listeners), "process", "processes")
