"""What the benchmarks say of their figures: answers compared, slopes fitted, sections replaced."""

from __future__ import annotations

import importlib
import json
import sys
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from support.places import ROOT

FOLDER = ROOT / "benchmarks"
ANSWER: dict[str, Any] = {
    "kernels": 2,
    "kernel_ns": 30,
    "busy_ns": 25,
    "window_ns": 40,
    "top": [["a", 1, 20], ["b", 1, 10]],
}


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_section_is_replaced_between_its_marks_only(load, tmp_path):
    replace = load("readme_tables").replace_section
    page = tmp_path / "README.md"
    page.write_text(
        "before\n<!-- written by x.py -->\nold\n<!-- end of what x.py writes -->\nafter\n"
    )
    for _ in range(2):
        replace(page, "x.py", ["| a | b |", "", "word " * 40])
        lines = page.read_text().splitlines()
        assert lines[:3] == ["before", "<!-- written by x.py -->", "| a | b |"]
        assert lines[-2:] == ["<!-- end of what x.py writes -->", "after"]
        assert len(lines) == 8
        assert max(map(len, lines)) <= 120
    with pytest.raises(ValueError, match="has no lines"):
        replace(page, "y.py", [])


def test_answers_that_differ_are_named(load):
    side = load("side_by_side")

    def runs(*answers: dict[str, Any] | None) -> list[Any]:
        return [side.Ran(1.0, 1.0, 1.0, answer) for answer in answers]

    found = {
        side.SIGHTLINE: runs(ANSWER, ANSWER),
        "same": runs(json.loads(json.dumps(ANSWER))),
        "second run differs": runs(ANSWER, ANSWER | {"busy_ns": 26}),
        "other names": runs(ANSWER | {"top": ANSWER["top"][::-1], "kernels": 3}),
        "none": runs(None),
    }
    assert side.compare_answers(found) == {
        side.SIGHTLINE: "equal",
        "same": "equal",
        "second run differs": "differs: busy_ns",
        "other names": "differs: kernels, top",
    }


def test_exponents_are_those_of_known_growth(load):
    exponent = load("growth").exponent
    sizes = (1e4, 1e5, 3e6)
    for power in (0.5, 1.0, 1.3):
        assert exponent([(n, 7e-6 * n**power) for n in sizes]) == pytest.approx(power)


def test_a_small_trace_is_the_first_part_of_a_large_one(load, tmp_path, monkeypatch):
    growth = load("growth")
    events = [{"ph": "M", "name": "process_name", "pid": 1}] + [
        {"ph": "X", "name": "k", "cat": "kernel", "ts": 100 - i, "dur": 1} for i in range(9)
    ]
    base = json.dumps({"rank": 0, "traceEvents": events}).encode()
    monkeypatch.setattr(growth, "base_trace", lambda _: base)
    assert growth.write_trace(tmp_path / "small", 4) == 4
    small = json.loads((tmp_path / "small").read_bytes())["traceEvents"]
    assert [e.get("ts") for e in small] == [None, 92, 93, 94]
    assert growth.write_trace(tmp_path / "large", 32) == 30
    assert len(json.loads((tmp_path / "large").read_bytes())["traceEvents"]) == 30


def test_a_line_of_slope_one_is_drawn_straight(load):
    picture = load("growth_picture")
    line = [(10.0**n, 5 * 10.0**n) for n in range(4, 8)]
    drawn = ElementTree.fromstring(picture.draw_plots([picture.Plot("<t>", "n", {"a & b": line})]))
    texts = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<t>", "a & b", "10 k", "10 M"} <= set(texts)
    (found,) = drawn.iter("{http://www.w3.org/2000/svg}polyline")
    places = [tuple(map(float, pair.split(","))) for pair in found.attrib["points"].split()]
    steps = {(round(b[0] - a[0]), round(b[1] - a[1])) for a, b in pairwise(places)}
    assert max(x for x, _ in steps) - min(x for x, _ in steps) <= 1
    assert max(y for _, y in steps) - min(y for _, y in steps) <= 1
    assert all(x > 0 and y < 0 for x, y in steps)
