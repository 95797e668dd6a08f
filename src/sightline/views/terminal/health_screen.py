"""A node's health for a terminal: what fails, with its fix, then what could not be checked."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sightline.core.text import clean_text
from sightline.core.units import format_several
from sightline.health.check import FAIL, PASS, UNCHECKED, WARN, Check
from sightline.health.judge import WORDS, Judged, count_states, grade, grade_node
from sightline.health.node import ELSEWHERE, Node

_MOST_PLACES = 8  # of one check that are listed


def draw_health(node: Node, judged: Sequence[Judged]) -> Iterator[str]:
    """One screen, 80 columns wide."""
    counts = count_states(judged)
    name = f" {clean_text(node.name)}" if node.name else ""
    parts = [f"{format_several(counts[FAIL], 'check')} failed", f"{counts[WARN]} warned"]
    parts += [f"{counts[PASS]} passed", f"{counts[UNCHECKED]} not checked"]
    yield f"{WORDS[grade_node(node, judged)]}{name} ({_count_gpus(node)}): {', '.join(parts)}"
    for state in (FAIL, WARN):
        for one in judged:
            verdicts = one.list_verdicts(state)
            if not verdicts:
                continue
            yield ""
            for verdict in verdicts[:_MOST_PLACES]:
                where = f"{clean_text(verdict.where)}: " if verdict.where else ""
                yield from _wrap(
                    f"{where}{clean_text(verdict.text)}",
                    f"{state.upper():<5} {one.check.name:<22} ",
                )
            if len(verdicts) > _MOST_PLACES:
                yield f"{'':<29}and {len(verdicts) - _MOST_PLACES} more"
            yield from _wrap(f"Fix: {one.check.fix}", " " * 29)
    passed = [one.check.name for one in judged if grade([one]) == PASS]
    if passed:
        yield ""
        yield from _wrap(", ".join(passed), "Passed       ")
    reasons: dict[str, list[str]] = {}
    for one in judged:
        if grade([one]) == UNCHECKED:
            reasons.setdefault(one.verdicts[0].text, []).append(one.check.name)
    if reasons:
        yield ""
        yield "Not checked"
        for reason, names in reasons.items():
            if reason == ELSEWHERE:
                yield f"  {format_several(len(names), 'check')}: {reason} (--checks lists all)"
                continue
            yield from _wrap(f"{', '.join(names)}: {clean_text(reason)}", "  ", "    ")
    partly = [one for one in judged if grade([one]) == PASS and one.list_verdicts(UNCHECKED)]
    for one in partly:
        left = [verdict for verdict in one.verdicts if verdict.state == UNCHECKED]
        places = ", ".join(verdict.where for verdict in left[:_MOST_PLACES])
        yield from _wrap(f"{one.check.name} of {places}: {clean_text(left[0].text)}", "  ", "    ")


def _count_gpus(node: Node) -> str:
    """How many GPUs are known; where none is, those that others' checks and logs name."""
    if node.gpus:
        return format_several(len(node.gpus), "GPU")
    named = {event.device for event in node.events if event.device is not None}
    return f"{format_several(len(named), 'GPU')} named" if named else "no GPU seen"


def _wrap(text: str, head: str, indent: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        80,
        initial_indent=head,
        subsequent_indent=" " * len(head) if indent is None else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def write_nhc_line(judged: Sequence[Judged]) -> str:
    """What LBNL's NHC prints for Slurm's HealthCheckProgram: nothing, or the first failure."""
    for one in judged:
        for verdict in one.list_verdicts(FAIL):
            where = f"{verdict.where}: " if verdict.where else ""
            text = f"{where}{verdict.text}".replace("\n", " ")
            return f"ERROR:  nhc:  Health check failed:  {one.check.name}:  {clean_text(text)}"
    return ""


def list_devices(node: Node) -> Iterator[str]:
    """Each GPU with UUID, PCI address and MIG instances, as `nvidia-smi -L` does."""
    for gpu in node.gpus:
        parts = [part for part in (gpu.uuid and f"UUID: {gpu.uuid}", gpu.pci) if part]
        known = f" ({', '.join(clean_text(part) for part in parts)})" if parts else ""
        lost = f": {clean_text(gpu.lost)}" if gpu.lost else ""
        yield f"GPU {gpu.number}: {clean_text(gpu.name)}{known}{lost}"
        for number, uuid in enumerate(gpu.instances):
            yield f"  MIG device {number}: (UUID: {clean_text(uuid)})"
    for port in node.ports:
        rate = f", {port.gbit_per_s:.0f} Gbit/s" if port.gbit_per_s is not None else ""
        yield f"Port {clean_text(port.name)}: {clean_text(port.state)}{rate}"
    if not node.gpus:
        yield f"No GPU: {node.why_missing('gpus')}"


def list_declared(checks: Iterable[Check]) -> Iterator[str]:
    """Each check: what it looks at, from where on, who says so."""
    for check in checks:
        yield check.name
        for text in (check.what, f"speaks at: {check.threshold}", f"source: {check.source}"):
            yield from _wrap(text, "    ", "      ")


def draw_fleet(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line a node, the worst first: its state, and what fails."""
    order = {"error": 0, FAIL: 1, WARN: 2, UNCHECKED: 3, PASS: 4}
    ranked = sorted(nodes, key=lambda one: (order.get(one["state"], 0), -one.get("failed", 0)))
    counts = {state: sum(one["state"] == state for one in nodes) for state in order}
    said = {"error": "did not answer", FAIL: "fail", WARN: "warn", UNCHECKED: "not checked"}
    parts = [f"{counts[state]} {word}" for state, word in said.items() if counts[state]]
    yield f"{format_several(len(nodes), 'node')}: {', '.join([*parts, f'{counts[PASS]} pass'])}"
    for one in ranked:
        if one["state"] == PASS:
            continue
        text = "; ".join(clean_text(str(problem)) for problem in one.get("problems", ()))
        head = f"{clean_text(one['node'])[:24]:<25}{one['state'].upper():<12}"
        lines = textwrap.wrap(text, 80, initial_indent=head, subsequent_indent=" " * 37)
        yield from lines[:3] or [head.rstrip()]
