"""The pytest fixture `sightline`: record a block, and fail where it became slower.

    def test_forward(sightline):
        for _ in sightline.steps(30):
            model(batch)

Each pass is a step, each test of each session of pytest a run. `pytest --sightline-update` adds the
run to the baseline; without it the run is compared with all runs there, by the statistics of
`sightline compare`, and the test fails only where it is slower by more than runs differ. Nothing of
sightline is loaded in sessions in which no test asks for the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = "sightline-baselines"
_PROPERTY = "sightline"
_MAX_NAME = 80


def pytest_addoption(parser: pytest.Parser) -> None:
    """--sightline-baselines, --sightline-update and --sightline-fail-on."""
    group = parser.getgroup("sightline", "performance tests")
    group.addoption(
        "--sightline-baselines",
        metavar="FOLDER",
        help=f"where the baselines are kept (default: {FOLDER} in the root folder)",
    )
    group.addoption(
        "--sightline-update",
        action="store_true",
        help="add each run to its baseline instead of comparing it",
    )
    group.addoption(
        "--sightline-fail-on",
        metavar="CONDITION",
        default="slower",
        help="a condition of sightline compare, such as 'step_ns > 3%%' (default: slower)",
    )


@pytest.fixture
def sightline(request: pytest.FixtureRequest, tmp_path: Path) -> PerformanceTest:
    """Records the passes of a loop as steps, and compares them with the test's baseline."""
    config = request.config
    base = config.getoption("--sightline-baselines")
    folder = Path(base) if base else config.rootpath / FOLDER
    return PerformanceTest(
        folder / _name_folder(request.node.nodeid),
        tmp_path / "sightline",
        request.node.user_properties,
        update=config.getoption("--sightline-update"),
        fail_on=config.getoption("--sightline-fail-on"),
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line for each test that was recorded: what came of it."""
    told = [
        f"{report.nodeid}: {value}"
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == _PROPERTY
    ]
    if told:
        terminalreporter.section("sightline")
        for line in told:
            terminalreporter.write_line(line)


class PerformanceTest:
    """What the fixture gives to a test."""

    def __init__(
        self,
        baseline: Path,
        scratch: Path,
        properties: list[tuple[str, object]],
        *,
        update: bool,
        fail_on: str,
    ) -> None:
        self._baseline = baseline
        self._scratch = scratch
        self._properties = properties
        self._update = update
        self._fail_on = fail_on

    def steps(self, count: int = 30, *, warmup: int = 3) -> Iterator[int]:
        """So many recorded passes after `warmup` others; then the test is judged.

        A loop that is left early is not judged.
        """
        from sightline.record.inline.step import step
        from sightline.record.inline.timing import profile

        yield from range(-warmup, 0)
        recording = profile(str(self._scratch))
        with recording:
            folder = recording.folder
            step()  # what is before the first pass is a step that comparisons leave out
            for number in range(count):
                yield number
                step()
        if folder is None:
            self._tell("not recorded: another recording is running")
            return
        self._judge(folder)

    def _judge(self, folder: Path) -> None:
        from sightline.compare.comparison import compare_samples
        from sightline.compare.fingerprint import write_fingerprint
        from sightline.compare.gate import judge_gate, parse_gate
        from sightline.compare.sides import open_side
        from sightline.compare.verdict import NOT_COMPARABLE
        from sightline.core.whole_file import write_whole
        from sightline.views.comparison.comparison import render_comparison, write_verdict

        gate = parse_gate(self._fail_on)
        (sample,) = open_side([str(folder)])
        known = sorted(self._baseline.glob("*.json"))
        if self._update:
            self._baseline.mkdir(parents=True, exist_ok=True)
            path = self._baseline / f"run{len(known):03}.json"
            write_whole(path, write_fingerprint(sample))
            self._tell(f"run {len(known) + 1} of the baseline")
            return
        if not known:
            self._tell("no baseline: pytest --sightline-update, three times, makes one")
            return
        data = compare_samples(open_side([str(path) for path in known]), [sample])
        reasons = "; ".join(data["verdict"]["reasons"])
        self._tell(f"{write_verdict(data)} {reasons}".strip())
        # A machine that the baseline is not of is no regression.
        failed = None if data["verdict"]["word"] == NOT_COMPARABLE else judge_gate(gate, data)
        if failed is not None:
            pytest.fail(f"{failed}\n\n{render_comparison(data).plain}", pytrace=False)

    def _tell(self, sentence: str) -> None:
        self._properties.append((_PROPERTY, sentence))


def _name_folder(node: str) -> str:
    """A test's id as the name of a folder, told apart by a hash where it is cut."""
    import hashlib

    name = re.sub(r"[^\w.\[\]-]+", "-", node)
    if len(name) <= _MAX_NAME and name == node:
        return name
    digest = hashlib.blake2b(node.encode(), digest_size=4).hexdigest()
    return f"{name[:_MAX_NAME]}-{digest}"
