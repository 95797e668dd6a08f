"""Two steps under one another: aligned at their starts, on one scale."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from sightline.compare.sample import take_sample
from sightline.views.html.step_picture import draw_steps, take_step
from support.traces import Event, kernel, opened, step

SPACE = "{http://www.w3.org/2000/svg}"


def _record(folder: Path, *lengths: int, extra: list[Event] | None = None):
    """Steps of these lengths, µs, each with a kernel over its first half."""
    events, at = list(extra or []), 0
    for number, length in enumerate(lengths):
        events += [step(number, at, length), kernel("work", at, length // 2)]
        at += length
    events.append(kernel("end", at, 10))
    return take_sample(opened(folder, events), "run")


def _list_rects(svg: str) -> list[tuple[float, float]]:
    rects = ElementTree.fromstring(svg).iter(f"{SPACE}rect")
    return [(float(r.get("x") or 0), float(r.get("width") or 0)) for r in rects][:-3]


def test_the_median_step_is_taken(tmp_path: Path) -> None:
    """Of 100, 300 and 200 µs after the first it is that of 200, the third."""
    found = take_step(_record(tmp_path, 500, 100, 300, 200))
    assert found is not None
    assert (found.number, found.length_ns) == (2, 200_000)
    assert found.ops.select("name", "start_ns", "end_ns").row(0) == ("work", 0, 100_000)


def test_both_begin_at_one_place_on_one_scale(tmp_path: Path) -> None:
    """The step after is twice as long, so the kernel's half of it is, too."""
    sides = [take_step(_record(tmp_path / str(n), n, n, n)) for n in (100, 200)]
    assert sides[0] is not None
    assert sides[1] is not None
    (x0, width0), (x1, width1) = _list_rects(draw_steps(*sides))
    assert x0 == x1
    assert abs(width1 - 2 * width0) < 0.2


def test_thousands_of_kernels_are_a_small_picture(tmp_path: Path) -> None:
    many = [kernel(f"k{i % 7}", 100 + i, 1) for i in range(20_000)]
    found = take_step(_record(tmp_path, 100, 20_000, 20_000, extra=many))
    assert found is not None
    assert len(_list_rects(draw_steps(found, found))) < 2_000


def test_hostile_names_are_text(tmp_path: Path) -> None:
    evil = "</svg><script>alert(1)</script>\x1b"
    events = [step(i, 100 * i, 100) for i in range(3)]
    events += [kernel(evil, 100 * i, 90) for i in range(3)]
    found = take_step(take_sample(opened(tmp_path, events), "run"))
    assert found is not None
    svg = draw_steps(found, found, dark=True)
    assert not re.search(r"<script|\x1b", svg)
    ElementTree.fromstring(svg)
