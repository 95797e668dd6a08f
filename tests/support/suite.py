"""A plug-in of the suite: in which order tests run, which are left out, and how many there were.

`make test` runs a sample of the cases of long test functions: of each as many as take `--sample`
seconds by tests/costs.tsv, evenly spread, one at least. `make sweep` runs all, and so does pytest
by itself. `--costs=tests/costs.tsv` writes that file anew from what ran, a sample included. Costs
are seconds of processor time, with set-up and started programs: a busy machine changes them little.

Tests marked `timing` rest on time, scheduling, a port or a free core, so they come after all others
and may be repeated twice; `scripts/run_tests.py` runs them one at a time. No other test may be
repeated.
"""

from __future__ import annotations

import gc
import json
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from sightline.core.installation import has_pages
from support.campaigns import CAMPAIGNS
from support.processor_time import read_processor_time

REPEATS = 2
KEY = pytest.StashKey[float]()
COSTS = Path(__file__).parents[1] / "costs.tsv"
_LEAST_S = 0.5  # functions whose cases take less in all are not in that file


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite of sightline")
    group.addoption("--one-of-each", action="store_true", help="only the first test of each file")
    group.addoption("--seconds", type=float, help="skip what has not begun after so many")
    group.addoption("--sample", type=float, help="seconds for the cases of one test function")
    group.addoption("--costs", type=Path, help="write what a case of each long function takes")
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
    if config.getoption("--costs") is not None:
        cases = Counter(name_function(item.nodeid) for item in items)
        for item in items:
            item.user_properties.append(("cases", cases[name_function(item.nodeid)]))
    if (seconds := config.getoption("--sample")) is not None and not CAMPAIGNS:
        chosen = set(choose_sample(items, read_costs(COSTS), seconds))
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


def pytest_collection_finish() -> None:
    """What is collected stays: to look through 14,000 tests for cycles takes half a second."""
    gc.collect()
    gc.freeze()


def name_function(case: str) -> str:
    """The test function of a case."""
    return case.split("[")[0].split("@")[0]


def choose_sample(
    items: Iterable[pytest.Item], costs: dict[str, float], seconds: float
) -> list[pytest.Item]:
    """The items without those cases of long functions that take more than so many seconds."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[name_function(item.nodeid)].append(item)
    chosen = []
    for function, every in cases.items():
        most = max(1, int(seconds / costs[function])) if function in costs else len(every)
        few = min(most, len(every))
        chosen += [every[number * len(every) // few] for number in range(few)]
    return chosen


def read_costs(path: Path) -> dict[str, float]:
    """Seconds that a case takes, by the test function's name."""
    lines = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    return {name: float(cost) for name, cost in (line.split("\t") for line in lines)}


def write_costs(path: Path, reports: Iterable[pytest.TestReport]) -> None:
    """What a case of each function takes, in seconds, where all its cases take some time."""
    spent: dict[str, list[float]] = defaultdict(list)
    cases: dict[str, int] = {}
    for report in reports:
        if report.when == "call":
            name = name_function(report.nodeid)
            told = report.user_properties
            spent[name].append(sum(float(str(value)) for key, value in told if key == "seconds"))
            cases[name] = next(int(str(value)) for key, value in told if key == "cases")
    means = {name: sum(each) / len(each) for name, each in sorted(spent.items())}
    rows = [
        f"{name}\t{mean:.3f}"
        for name, mean in means.items()
        if mean * cases[name] >= _LEAST_S and cases[name] > 1
    ]
    path.write_text("\n".join(["function\tseconds a case", *rows, ""]), encoding="utf-8")


def count_seconds(item: pytest.Item) -> Generator[None, object, object]:
    """Note with a test what this phase of it takes, for `--costs`."""
    begin = read_processor_time()
    try:
        return (yield)
    finally:
        if item.config.getoption("--costs") is not None:
            item.user_properties.append(("seconds", read_processor_time() - begin))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from count_seconds(item))


@pytest.hookimpl(wrapper=True, specname="pytest_runtest_setup")
def count_seconds_of_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from count_seconds(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - item.config.stash[KEY] > seconds:
        pytest.skip(f"{seconds:.0f} s were over: make test")


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, object, object]:
    stats = terminalreporter.stats
    if (costs := config.getoption("--costs")) is not None:
        write_costs(costs, stats.get("passed", ()))
    path = config.getoption("--counts")
    if path is not None:
        found = {
            "passed": len(stats.get("passed", ())) + len(stats.get("xpassed", ())),
            "skipped": len(stats.get("skipped", ())) + len(stats.get("xfailed", ())),
            "failed": len(stats.get("failed", ())) + len(stats.get("error", ())),
            "repeated": [report.nodeid for report in stats.get("rerun", ())],
        }
        path.write_text(json.dumps(found), encoding="utf-8")
    return (yield)
