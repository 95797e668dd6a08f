"""Debian's Chromium, driven by Playwright: one driver and one browser for all tests of a process.

A second driver refuses to start beside the first, and a browser takes seconds to start: what one
test opens in a context of its own, no other sees.
"""

from __future__ import annotations

import atexit
import functools
import shutil
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@functools.cache
def launch_chromium() -> Any:
    """The browser, for contexts of each test's own; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    driver = playwright.sync_playwright().start()
    atexit.register(driver.stop)
    browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
    atexit.register(browser.close)  # before its driver stops
    return browser
