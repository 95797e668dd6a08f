"""The page of a comparison, used as a person uses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compare.programs import Program, write_runs
from support.command import sightline

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    sides = {"before": Program(), "after": Program().slowed("softmax", 2.0)}
    paths = [write_runs(folder / name, program, 3, name) for name, program in sides.items()]
    target = folder / "diff.html"
    done = sightline("compare", "--before", *paths[0], "--after", *paths[1], "-o", target)
    assert done.code == 0, done.err
    return target


def test_verdict_operations_and_flame(opened: Callable[..., Any], page_of: Path) -> None:
    shown = opened(page_of)
    page = shown.page
    assert "Slower by" in page.inner_text("body")
    page.get_by_role("link", name="Operations").or_(
        page.get_by_role("button", name="Operations")
    ).first.click()
    first = page.locator("section:visible tbody tr").first
    first.wait_for()
    assert "softmax" in first.inner_text()
    assert "real" in first.inner_text()
    page.get_by_text("Flame graph", exact=True).first.click()
    page.locator("g.frame").first.wait_for()
    assert shown.errors == []
    assert [url for url in shown.requests if not url.startswith("file:")] == []
