"""A real browser for the HTML pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.chromium import launch_chromium
from support.places import ROOT

ASSETS = ROOT / "src" / "sightline" / "assets"


@dataclass
class Opened:
    """A page, with what it complained of and what it asked the network for."""

    page: object
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> object:
    if not all((ASSETS / f"{name}.html").is_file() for name in ("flame", "report")):
        pytest.skip("the pages are not built: python scripts/build_web.py")
    return launch_chromium()


@pytest.fixture
def opened(browser) -> Iterator[Callable[..., Opened]]:
    """Open a file in a new page of its own; nothing of it may reach the network."""
    contexts = []

    def open_file(path: Path, fragment: str = "", **options) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        contexts.append(context)
        result = Opened(context.new_page())
        result.page.on("console", lambda m: m.type == "error" and result.errors.append(m.text))
        result.page.on("pageerror", lambda e: result.errors.append(str(e)))
        result.page.on("request", lambda r: result.requests.append(r.url))
        result.page.goto(f"file://{path}{fragment}")
        result.page.wait_for_selector("body[data-ready]")
        return result

    yield open_file
    for context in contexts:
        context.close()
