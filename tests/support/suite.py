"""A plug-in of the suite: in which order tests run, which are left out, and how many there were.

Tests marked `timing` rest on time, scheduling, a port or a free core, so they come after all others
and may be repeated twice; `scripts/run_tests.py` runs them one at a time. No other test may be
repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from sightline.core.installation import has_pages
from support.campaigns import CAMPAIGNS

REPEATS = 2
KEY = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite of sightline")
    group.addoption("--one-of-each", action="store_true", help="only the first test of each file")
    group.addoption("--seconds", type=float, help="skip what has not begun after so many")
    group.addoption("--counts", type=Path, help="write how tests ended to this file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEY] = time.monotonic()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, leave out what was not asked for, and let `timing` be repeated."""
    if config.getoption("--one-of-each"):
        # The first that is no long sweep: of those only what a campaign runs.
        first: dict[Path, pytest.Item] = {}
        for item in items:
            if item.get_closest_marker("campaign") is None:
                first.setdefault(item.path, item)
        chosen = set(first.values())
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    # Tests of one group keep one worker busy: at the end, the other cores would wait for it.
    items.sort(
        key=lambda item: (
            item.get_closest_marker("timing") is not None,
            item.get_closest_marker("xdist_group") is None,
        )
    )
    can_repeat = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if can_repeat and item.get_closest_marker("timing") is not None:
            item.add_marker(pytest.mark.flaky(reruns=REPEATS))
        if not CAMPAIGNS and item.get_closest_marker("campaign") is not None:
            item.add_marker(pytest.mark.skip(reason="a campaign: make sweep"))
        if not has_pages() and item.get_closest_marker("pages") is not None:
            item.add_marker(pytest.mark.skip(reason="the HTML pages are not built: no npm"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - item.config.stash[KEY] > seconds:
        pytest.skip(f"{seconds:.0f} s were over: make test")


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, object, object]:
    path = config.getoption("--counts")
    if path is not None:
        stats = terminalreporter.stats
        found = {
            "passed": len(stats.get("passed", ())) + len(stats.get("xpassed", ())),
            "skipped": len(stats.get("skipped", ())) + len(stats.get("xfailed", ())),
            "failed": len(stats.get("failed", ())) + len(stats.get("error", ())),
            "repeated": [report.nodeid for report in stats.get("rerun", ())],
        }
        path.write_text(json.dumps(found), encoding="utf-8")
    return (yield)
