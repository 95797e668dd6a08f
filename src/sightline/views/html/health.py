"""A node's health, or a fleet's, as one offline page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.health.check import FAIL, PASS, UNCHECKED, WARN
from sightline.health.judge import WORDS, Judged, count_states, grade, grade_node
from sightline.health.node import Node
from sightline.version import __version__
from sightline.views.html.page import SCHEMA, load_template

_ORDER = {"error": 0, FAIL: 1, WARN: 2, UNCHECKED: 3, PASS: 4}


def write_node_page(node: Node, judged: Sequence[Judged]) -> bytes:
    """The card of a node: what fails and its fix, its GPUs, all checks."""
    counts = count_states(judged)
    name = make_printable(node.name) or "node"
    about = ", ".join(f"{format_several(n, 'check')} {state}" for state, n in counts.items() if n)
    title = f"{name}: {WORDS[grade_node(node, judged)].lower()}"
    return _write(title, about, list(_make_blocks(node, judged)))


def write_fleet_page(nodes: Sequence[Mapping[str, Any]]) -> bytes:
    """All nodes, the worst first."""
    ranked = sorted(nodes, key=lambda one: (_ORDER.get(one["state"], 0), one["node"]))
    rows = [
        {
            "node": make_printable(str(one["node"])),
            "state": make_printable(str(one["state"])),
            "problems": make_printable("; ".join(map(str, one.get("problems", ())))),
        }
        for one in ranked
    ]
    columns = (
        text("node", "its name"),
        text("state", "the worst of its checks"),
        text("problems", "what fails or warns"),
    )
    well = sum(one["state"] == PASS for one in nodes)
    about = f"{well} of {format_several(len(nodes), 'node')} pass all checks"
    table = blocks.make_table("Nodes", pl.DataFrame(rows), columns)
    return _write("Health of the fleet", about, [table])


def _write(title: str, about: str, parts: list[Block]) -> bytes:
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": title,
        "about": [about],
        "origin_ns": "0",
        "length_ns": 0,
        "panels": [{"name": "health", "title": "Health", "blocks": parts}],
    }
    return load_template(content, title)


def _make_blocks(node: Node, judged: Sequence[Judged]) -> Iterator[Block]:
    for state in (FAIL, WARN):
        for one in judged:
            for verdict in one.list_verdicts(state):
                where = f"{verdict.where}: " if verdict.where else ""
                yield blocks.make_text(f"{state.upper()} {where}{verdict.text}", "lead")
                yield blocks.make_text(f"Fix: {one.check.fix}")
    if node.gpus:
        yield _tabulate_gpus(node)
    made = [one for one in judged if grade([one]) != UNCHECKED]
    if made:
        yield _tabulate_checks(made)
    left = [one for one in judged if grade([one]) == UNCHECKED]
    if left:
        title = f"Not checked: {format_several(len(left), 'check')}"
        yield blocks.make_group(title, [_tabulate_unmade(left)])


def _tabulate_checks(judged: Sequence[Judged]) -> Block:
    """Checks that were made, the worst first."""
    rows = [
        {
            "check": one.check.name,
            "state": grade([one]),
            "what": one.check.what,
            "speaks_at": one.check.threshold,
            "source": one.check.source,
        }
        for one in sorted(judged, key=lambda one: _ORDER[grade([one])])
    ]
    columns = (
        text("check", "its name"),
        text("state", "the worst of its verdicts"),
        text("what", "what it looks at"),
        text("speaks_at", "its threshold"),
        text("source", "source of the threshold"),
    )
    return blocks.make_table("Checks", pl.DataFrame(rows), columns)


def _tabulate_unmade(judged: Sequence[Judged]) -> Block:
    """Checks that could not be made, and why."""
    rows = [
        {"check": one.check.name, "what": one.check.what, "why": one.verdicts[0].text}
        for one in judged
    ]
    columns = (
        text("check", "its name"),
        text("what", "what it looks at"),
        text("why", "why it could not be made"),
    )
    return blocks.make_table("Checks that were not made", pl.DataFrame(rows), columns)


_SHOWN = (
    ("temperature", "C"),
    ("power_limit", "W"),
    ("pcie_generation", None),
    ("pcie_width", None),
    ("nvlinks_up", None),
    ("ecc_uncorrected", None),
    ("rows_uncorrected", None),
)


def _tabulate_gpus(node: Node) -> Block:
    rows = [
        {
            "gpu": gpu.number,
            "name": make_printable(gpu.name),
            "lost": None if gpu.lost is None else make_printable(gpu.lost),
            "instances": len(gpu.instances),
            **{fact: gpu.values.get(fact) for fact, _ in _SHOWN},
        }
        for gpu in node.gpus
    ]
    columns = (
        number("gpu", "its number"),
        text("name", "product"),
        text("lost", "what it answers instead"),
        number("instances", "of MIG"),
        *(number(fact, fact.replace("_", " "), unit) for fact, unit in _SHOWN),
    )
    schema = {"lost": pl.String, **{fact: pl.Float64 for fact, _ in _SHOWN}}
    return blocks.make_table("GPUs", pl.DataFrame(rows, schema_overrides=schema), columns)
