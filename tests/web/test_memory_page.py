"""The page's picture of memory: what it draws adds up, and pointing at a block names it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sightline.subjects.memory.panels._memory_picture import make_pictures
from support.command import sightline
from support.snapshots import opened as open_snapshot
from synth_memory.programs import simulate

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]


def test_columns_add_up_to_what_was_allocated(tmp_path: Path) -> None:
    run = open_snapshot(tmp_path, simulate("activations-kept", 2).document)
    peak = run.ask("memory_peak").row(0, named=True)
    pictures = make_pictures(run, peak, 0)
    assert [label for label, _ in pictures] == ["the whole recording"]
    for _, made in pictures:
        assert max(made["allocated"]) == peak["allocated_bytes"]
        for column, whole in enumerate(made["allocated"]):
            blocks = zip(made["first"], made["last"], made["bytes"], strict=True)
            drawn = sum(size for first, last, size in blocks if first <= column <= last)
            assert drawn + made["rest"][column] == whole
            assert made["rest"][column] >= 0


def test_pointing_at_a_block_says_what_it_is(opened, tmp_path: Path) -> None:
    document = simulate("peak-set-by-one-tensor", 1).document
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(document))
    target = tmp_path / "report.html"
    outcome = sightline("report", tmp_path / "snapshot.pickle", "-o", target)
    assert outcome.code == 0, outcome.err
    shown = opened(target)
    page = shown.page
    page.click('#panels a:has-text("Memory")')
    page.wait_for_selector(".memory-plot")
    page.locator(".memory-plot").focus()
    for key in ("ArrowLeft", "ArrowRight"):  # away from the peak, and back
        page.keyboard.press(key)
    page.locator("section.memory:has(.memory-plot) .memory-read", has_text="allocated").wait_for()
    text = page.inner_text(".memory-read")
    assert "forward (/home/x/head.py:3)" in text
    assert "temporary" in text
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []


def test_zooming_and_an_axis_of_time(opened, tmp_path: Path) -> None:
    document = simulate("peak-set-by-one-tensor", 1).document
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(document))
    target = tmp_path / "report.html"
    assert sightline("report", tmp_path / "snapshot.pickle", "-o", target).code == 0
    shown = opened(target)
    page = shown.page
    page.click('#panels a:has-text("Memory")')
    plot = page.locator(".memory-plot").first
    plot.focus()

    def count_columns() -> int:
        first, last = plot.get_attribute("data-view").split("-")
        return int(last) - int(first) + 1

    whole = count_columns()
    for _ in range(3):
        page.keyboard.press("+")
    near = count_columns()
    assert near <= whole / 8 + 2
    box = plot.bounding_box()
    assert box is not None
    before = plot.get_attribute("data-view")
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] - 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + box["height"] - 40)
    page.mouse.up()
    assert plot.get_attribute("data-view") != before
    assert abs(count_columns() - near) <= 1
    page.mouse.dblclick(box["x"] + box["width"] * 0.5, box["y"] + box["height"] - 40)
    assert count_columns() == whole
    axis = page.locator(".memory-axis").first
    axis.click()
    assert axis.get_attribute("aria-pressed") == "true"
    assert count_columns() == whole
    assert shown.errors == []


def test_segments_of_the_allocator(opened, tmp_path: Path) -> None:
    """The first block of the first segment, by the keys; a free one by the pointer."""
    document = simulate("memory-fragmentation", 1).document
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(document))
    target = tmp_path / "report.html"
    assert sightline("report", tmp_path / "snapshot.pickle", "-o", target).code == 0
    page = opened(target).page
    page.click('#panels a:has-text("Memory")')
    plot = page.locator("canvas.segments")
    plot.focus()
    page.keyboard.press("ArrowRight")
    told = page.locator("section:has(canvas.segments) .memory-read")
    told.locator("b", has_text="of its segment").wait_for()
    box = plot.bounding_box()
    for row in range(4, int(box["height"]), 4):
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + row)
        if told.locator("b", has_text="free").count():
            return
    raise AssertionError("no free block was found in a fragmented memory")
