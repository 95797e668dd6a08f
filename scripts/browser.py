"""The browser that scripts take pictures with: Chromium, driven by the tests' Playwright."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def open_browser() -> Iterator[Any]:
    """The browser, closed at the end. Ends the script with 1 where Chromium was not found."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium was not found: it takes the pictures.", file=sys.stderr)
        raise SystemExit(1)
    sys.path.insert(0, str(ROOT / "tests"))
    from playwright.sync_api import sync_playwright

    from support.chromium import FLAGS

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()
