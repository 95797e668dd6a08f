"""The page's picture of memory: what it draws adds up, and pointing at a block names it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sightline.report.html.panels._memory_picture import make_pictures
from support.command import sightline
from support.snapshots import opened as open_snapshot
from synth_memory.programs import simulate

pytestmark = pytest.mark.xdist_group("browser")


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
    page.locator(".memory-read", has_text="allocated").wait_for()
    text = page.inner_text(".memory-read")
    assert "forward (/home/x/head.py:3)" in text
    assert "temporary" in text
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
