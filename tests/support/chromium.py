"""Debian's Chromium, driven by Playwright: one driver for all tests of a process.

A second one refuses to start beside it, in whatever file its tests are.
"""

from __future__ import annotations

import atexit
import functools
import shutil
from collections.abc import Sequence
from typing import Any

import pytest


def launch_chromium(flags: Sequence[str]) -> Any:
    """A browser, to be closed by the caller; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine")
    return _start_driver(playwright).chromium.launch(executable_path=chromium, args=list(flags))


@functools.cache
def _start_driver(playwright: Any) -> Any:
    driver = playwright.sync_playwright().start()
    atexit.register(driver.stop)
    return driver
