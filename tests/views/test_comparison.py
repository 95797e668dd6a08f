"""A comparison for a person: on a terminal, as Markdown, as a page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from compare.programs import Program, write_runs
from sightline.compare.comparison import compare_samples
from sightline.compare.findings import compare_findings
from sightline.compare.sample import Sample
from sightline.compare.sides import open_side
from sightline.views.comparison.comparison import (
    explain_pair,
    format_change,
    format_change_pct,
    render_comparison,
    write_halves,
)
from sightline.views.comparison.comparison_markdown import write_markdown
from sightline.views.comparison.comparison_sarif import write_sarif
from sightline.views.html import page
from sightline.views.html.comparison import write_page
from support.html_pages import TEMPLATE, read_data

EVIL = "</script><b>\x1b[31m|`*evil"


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> list[list[Sample]]:
    """Three runs with two kernels that the other three have fused, and one of a hostile name."""
    base = Program()
    evil = Program(kernels={**base.kernels, EVIL: 70}, operators={**base.operators, EVIL: EVIL})
    folder = tmp_path_factory.mktemp("runs")
    after = evil.fused("layer_norm", "elementwise_add", 0.5)
    return [
        open_side(write_runs(folder / name, program, 3, name))
        for name, program in (("before", base), ("after", after))
    ]


@pytest.fixture(scope="module")
def data(sides: list[list[Sample]]) -> dict[str, Any]:
    return compare_samples(*sides)


def _pair(**changed: Any) -> dict[str, Any]:
    return {
        "kind": "changed", "operator": "aten::mm", "place": "Linear", "before_instances": 2.0,
        "after_instances": 2.0, "before_total_ns": 2000.0, "after_total_ns": 3000.0,
        "before_ns": 2000, "after_ns": 3000, "delta_ns": 1000, "before_names": ["k"],
        "after_names": ["k"], "before_labels": ["k"], "after_labels": ["k"], **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "2 a step, 1.000 µs → 1.500 µs each, aten::mm in Linear"),
        ({"after_instances": 4.5}, "2 → 4.5 launches a step, 1.000 µs → 667 ns each, aten::mm in "
                                   "Linear"),
        ({"kind": "vanished", "after_instances": 0.0}, "2 launches a step, 1.000 µs each, aten::mm "
                                                       "in Linear"),
        ({"kind": "fused", "before_instances": 5.0, "after_instances": 1.0, "delta_ns": -620},
         "5 launches of aten::mm in Linear became 1, −31.0 %"),
        ({"kind": "replaced", "before_labels": ["old"], "place": None},
         "was old: 2 a step, 1.000 µs → 1.500 µs each, aten::mm"),
    ],
)  # fmt: skip
def test_what_happened(changed: dict[str, Any], said: str) -> None:
    assert explain_pair(_pair(**changed)) == said


def test_nothing_is_said_of_launches_where_there_are_none() -> None:
    none = {"before_instances": 0, "after_instances": 0, "before_total_ns": 0, "after_total_ns": 0}
    assert explain_pair({"operator": None, "place": None, "kind": "same", **none}) == ""


def test_signs() -> None:
    assert [format_change(x) for x in (4400, -12, 0)] == ["+4.400 µs", "−12 ns", "±0 ns"]
    shares = [format_change_pct(x) for x in (5.25, -0.01, 0, None, 12_345.0)]
    assert shares == ["+5.2 %", "−<0.1 %", "±0.0 %", "-", "+>999 %"]


def test_screen(data: dict[str, Any]) -> None:
    text = render_comparison(data).plain
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"2 launches of aten::native_layer_norm became 1, −[45]\d\.\d %", text)
    assert "\x1b" not in text
    assert any(line.startswith("mean step") for line in lines)


def test_markdown_keeps_names_text(data: dict[str, Any]) -> None:
    text = write_markdown(data)
    assert "<b>" not in text
    assert r"\|\`\*evil" in text
    assert "| **step** |" in text


def test_findings_fixed_and_new(sides: list[list[Sample]], data: dict[str, Any]) -> None:
    def finding(rule: str, cost: int | None, gain: int = 0) -> dict[str, Any]:
        return {"rule": rule, "title": rule.title(), "abstained": cost is None,
                "cost_ns": cost, "gain_ns": gain}  # fmt: skip

    steps = sides[0][0].count
    before = [finding("a", 9 * steps, 8 * steps), finding("b", 4 * steps), finding("d", 5 * steps)]
    after = [finding("b", 3 * steps), finding("c", 2 * steps), finding("d", None)]
    rows = compare_findings(sides[0][0], sides[1][0], (before, after))
    assert [(r["rule"], r["status"], r["realized_ns"]) for r in rows] == [
        ("a", "fixed", 9),
        ("d", "not judged after", None),
        ("b", "still there", 1),
        ("c", "new", -2),
    ]
    apart = compare_findings(sides[0][0], sides[1][0], (before, after), is_comparable=False)
    assert [(r["rule"], r["status"], r["realized_ns"]) for r in apart] == [
        ("a", "only before", None),
        ("d", "not judged after", None),
        ("b", "on both sides", None),
        ("c", "only after", None),
    ]
    assert "cost fell by" not in render_comparison({**data, "findings": apart}).plain
    screen = render_comparison({**data, "findings": rows}).plain
    assert "predicted gain up to 8 ns; its cost fell by 9 ns" in screen
    lines = [line.split() for line in screen.splitlines()]
    assert ["A", "fixed", "9", "ns", "not", "found"] in lines
    assert ["C", "new", "not", "found", "2", "ns"] in lines


def test_page_holds_all_pairs(
    sides: list[list[Sample]], data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "load_page", lambda *_: TEMPLATE)
    content = read_data(write_page(data, *sides))
    names = [panel["name"] for panel in content["panels"]]
    assert names == ["summary", "pairs", "timeline", "steps", "host", "findings", "flame"]
    (table,) = [b for b in content["panels"][1]["blocks"] if b["kind"] == "table"]
    change = next(c for c in table["columns"] if c["name"] == "change_ns")
    assert sum(change["values"]) == data["step"]["delta_ns"]
    assert "before" in content["panels"][6]["blocks"][0]["page"]


def test_sarif(data: dict[str, Any]) -> None:
    """The verdict, each operation that really grew, each new finding; nothing that shrank."""
    pair = {**_pair(part="compute", label="gemm", level="runs"), "false_discovery_rate": 0.01}
    shrunk = {**pair, "delta_ns": -5, "label": "softmax"}
    noise = {**pair, "false_discovery_rate": 0.5}
    found = [{"rule": "host-late", "title": "Late", "status": "new", "after_ns": 7}]
    found.append({**found[0], "status": "fixed"})
    slower = {**data, "pairs": [pair, shrunk, noise], "findings": found}
    slower["verdict"] = {**data["verdict"], "word": "slower"}
    (run,) = write_sarif(slower)["runs"]
    told = [(r["ruleId"], r["level"]) for r in run["results"]]
    assert told == [
        ("step-time", "error"), ("operation-slower", "warning"), ("finding-new", "warning"),
    ]  # fmt: skip
    assert "gemm: +1.000 µs" in run["results"][1]["message"]["text"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])


@pytest.mark.parametrize(
    ("differs", "said"),
    [
        (None, "trace.json: 30 steps are too few, 40 are needed"),
        (False, "trace.json: 30 steps, +1.0 %, no difference, as it should be"),
        (True, "trace.json: 30 steps, +1.0 %, FALSE ALARM, or it drifts"),
    ],
)
def test_halves(differs: bool | None, said: str) -> None:
    row = {"name": "trace.json", "steps": 30, "needed": 40, "ratio": 1.01, "differs": differs}
    assert write_halves(row) == said
