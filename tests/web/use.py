"""What a person does with the report's page, for its tests."""

from __future__ import annotations

import time
from pathlib import Path

from support.command import sightline

# Where the page holds nothing of what a user would click before its events are decoded.
READY = "body[data-timeline]"
# Chromium drops the mouse until a page was painted, and nobody drags what they do not see.
PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def write(target: Path, *paths: Path | str) -> Path:
    outcome = sightline("report", *paths, "-o", target)
    assert outcome.code == 0, outcome.err
    return target


def shown(opened, target: Path, fragment: str = "", **options):
    result = opened(target, fragment, **options)
    result.page.wait_for_selector(READY)
    result.page.evaluate(PAINTED)
    return result


def clean(result) -> None:
    assert result.errors == []
    assert [url for url in result.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def panels(page) -> list[str]:
    return page.eval_on_selector_all(
        "#panels a", "all => all.map(a => a.getAttribute('href').slice(3))"
    )


def visit(page, name: str) -> None:
    page.click(f'#panels a[href="#p={name}"]')
    page.wait_for_selector(f"#panel-{name}:not([hidden])")
    if name == "flame":
        page.wait_for_selector(".flame[data-ready]")


def until(page, condition: str) -> None:
    """Wait for what the page comes to; its own rule forbids to run a text inside it."""
    end = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)
