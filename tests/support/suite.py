"""A plug-in of the suite: in which order tests run, which are left out, and how many there were.

`make test` runs a sample (support/sampling.py) by tests/costs.tsv: of each function's cases as many
as take `--sample` seconds, at most `--cases-each`, and of a file's tests that are long each as many
as take `--long` seconds, the shortest first. `make sweep` runs all, and so does pytest by itself.
`--costs=tests/costs.tsv` writes that file anew from what ran, a sample included; of what did not
run, and still is there, the row stays. Costs are seconds of processor time, with set-up and started
programs: a busy machine changes them little. Of tests marked `timing`, which wait while all cores
idle, they are seconds on the wall.

What several tests share (a fixture of a module) has a row of its own and counts for none of them:
it would count for whichever comes first, which a sample would leave out, and the next would pay.
Tests of a file that share what is long stay on one worker, or each worker would make it.

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
from typing import Any

import pytest

from sightline.core.installation import has_pages
from support.campaigns import CAMPAIGNS
from support.processor_time import read_processor_time
from support.sampling import LONG_S, choose_long, choose_sample, choose_shortest, name_function

REPEATS = 2
KEY = pytest.StashKey[float]()
SHARED = pytest.StashKey[list[tuple[str, float]]]()  # fixtures that were made, and what they took
COSTS = Path(__file__).parents[1] / "costs.tsv"
_SHORT_S = 0.02  # what one without a row takes on average
_FIXTURE = "fixture "  # begins the name of a property: what making one took
_LEAST_S = 0.5  # of functions that are not long those are noted whose cases take as much in all


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suite of sightline")
    group.addoption("--one-of-each", action="store_true", help="only a short test of each file")
    group.addoption("--seconds", type=float, help="skip what has not begun after so many")
    group.addoption("--sample", type=float, help="seconds for the cases of one test function")
    group.addoption("--cases-each", type=int, help="cases of one test function in the sample")
    group.addoption("--long", type=float, help="seconds for the long tests of one file")
    group.addoption("--costs", type=Path, help="write what a case of each long function takes")
    group.addoption("--counts", type=Path, help="write how tests ended to this file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEY] = time.monotonic()
    config.stash[SHARED] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Leave out what was not asked for, before pytest orders it; then order it by length."""
    costs = read_costs(COSTS)
    choose_items(config, items, costs)
    done = yield
    order_items(config, items, costs)
    return done


def choose_items(config: pytest.Config, items: list[pytest.Item], costs: dict[str, float]) -> None:
    """Leave out what was not asked for, and note how many cases each function has."""
    if config.getoption("--one-of-each"):
        keep_chosen(config, items, choose_shortest(items, costs))
    if config.getoption("--costs") is not None:
        cases = Counter(name_function(item.nodeid) for item in items)
        for item in items:
            item.user_properties.append(("cases", cases[name_function(item.nodeid)]))
    if (seconds := config.getoption("--sample")) is not None and not CAMPAIGNS:
        most = config.getoption("--cases-each") or len(items)
        keep_chosen(config, items, choose_sample(items, costs, seconds, most))
    if (seconds := config.getoption("--long")) is not None and not CAMPAIGNS:
        keep_chosen(config, items, choose_long(items, costs, seconds))


def order_items(config: pytest.Config, items: list[pytest.Item], costs: dict[str, float]) -> None:
    """Order the tests, let `timing` be repeated, and skip what cannot run here."""
    group_by_fixtures(items, costs)
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


def pytest_collection() -> None:
    """What is collected stays: nobody looks for cycles meanwhile."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor later among 14,000 tests, which would take half a second each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def name_fixture(definition: pytest.FixtureDef[object]) -> str:
    """What the row of a fixture is called: its file's path, and its name."""
    return f"{definition.baseid}::{definition.argname}"


def group_by_fixtures(items: Iterable[pytest.Item], costs: dict[str, float]) -> None:
    """Keep on one worker the tests of a file that share a fixture of it which is long to make."""
    shared = {name for name, cost in costs.items() if cost >= LONG_S}
    for item in items:
        file = item.nodeid.split("::")[0]
        used = {f"{file}::{name}" for name in getattr(item, "fixturenames", ())}
        if used & shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(file))


def keep_chosen(
    config: pytest.Config, items: list[pytest.Item], chosen: Iterable[pytest.Item]
) -> None:
    """Leave out all other items, and tell pytest so."""
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def read_costs(path: Path) -> dict[str, float]:
    """Seconds that a case takes, by the test function's name."""
    lines = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    return {name: float(cost) for name, cost in (line.split("\t") for line in lines)}


def is_there(name: str) -> bool:
    """Whether the tests still have a function, or a fixture, of the name of a row."""
    file, _, function = name.partition("::")
    path = COSTS.parents[1] / file
    return path.is_file() and f"def {function.split('::')[-1]}(" in path.read_text("utf-8")


def write_costs(path: Path, reports: Iterable[pytest.TestReport]) -> None:
    """What a case of each function takes, in seconds, where it is long or all its cases are.

    And what a shared fixture takes that is long. Of a function that did not run the row stays.
    """
    spent: dict[str, list[float]] = defaultdict(list)
    cases: dict[str, int] = {}
    shared: dict[str, list[float]] = defaultdict(list)
    for report in reports:
        if report.when == "call":
            name = name_function(report.nodeid)
            told = report.user_properties
            spent[name].append(sum(float(str(value)) for key, value in told if key == "seconds"))
            cases[name] = next(int(str(value)) for key, value in told if key == "cases")
            for key, value in told:
                if key.startswith(_FIXTURE):
                    shared[key.removeprefix(_FIXTURE)].append(float(str(value)))
    means = {name: sum(each) / len(each) for name, each in spent.items()}
    kept = {
        name: cost
        for name, cost in read_costs(path).items()
        if name not in means and name not in shared and is_there(name)
    }
    long = {
        name: mean
        for name, mean in means.items()
        if mean >= LONG_S or (mean * cases[name] >= _LEAST_S and cases[name] > 1)
    }
    made = {name: sum(each) / len(each) for name, each in shared.items()}
    fixtures = {name: mean for name, mean in made.items() if mean >= LONG_S}
    rows = [f"{name}\t{cost:.3f}" for name, cost in sorted({**kept, **long, **fixtures}.items())]
    path.write_text("\n".join(["function\tseconds a case", *rows, ""]), encoding="utf-8")


def count_seconds(item: pytest.Item) -> Generator[None, object, object]:
    """Note with a test what this phase of it takes, for `--costs`; and what fixtures took."""
    if item.config.getoption("--costs") is None:
        return (yield)
    is_timed = item.get_closest_marker("timing") is not None
    read_time = time.monotonic if is_timed else read_processor_time
    made = item.config.stash[SHARED]
    begin = read_time()
    try:
        return (yield)
    finally:
        spent = read_time() - begin - sum(seconds for _, seconds in made)
        item.user_properties.append(("seconds", max(spent, 0.0)))
        item.user_properties += [(_FIXTURE + name, seconds) for name, seconds in made]
        made.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of the workers of pytest-xdist; none of its own ways where groups are not heeded."""
    if config.getoption("dist") != "loadgroup":
        return None
    from support.scheduling import SchedulingByLength

    costs = read_costs(COSTS)
    return SchedulingByLength(
        config, log, lambda nodeid: costs.get(name_function(nodeid), _SHORT_S), LONG_S
    )


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    if fixturedef.scope == "function" or request.config.getoption("--costs") is None:
        return (yield)
    begin = read_processor_time()
    try:
        return (yield)
    finally:
        spent = read_processor_time() - begin
        request.config.stash[SHARED].append((name_fixture(fixturedef), spent))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from count_seconds(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - item.config.stash[KEY] > seconds:
        pytest.skip(f"{seconds:.0f} s were over: make test")
    return (yield from count_seconds(item))


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
