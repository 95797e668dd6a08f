"""unmeasured-kernel: most of the profiled time cannot be judged."""

from __future__ import annotations

from pathlib import Path

from support.profiled import SM, TIME, opened
from support.rules import answers, assert_silent
from synth_ncu import Kernel, report

RULE = "unmeasured-kernel"


def kernels(folder: Path, large: dict[str, float], small: dict[str, float]):
    return opened(
        folder,
        report([Kernel(name="basic", metrics=large), Kernel(name="tiled", metrics=small)]),
    )


def test_70_percent_without_a_throughput(tmp_path: Path) -> None:
    run = kernels(tmp_path, {TIME: 7_000.0}, {TIME: 3_000.0, SM: 50.0})
    (found,) = answers(run, RULE)
    assert "70.0 % of the profiled time" in found.summary
    assert (found.severity, found.states_limit, found.where["kernel"]) == ("info", True, "basic")
    assert "-k regex:basic" in (found.fix or "")


def test_half_of_the_time(tmp_path: Path) -> None:
    assert_silent(kernels(tmp_path, {TIME: 4_900.0}, {TIME: 5_100.0, SM: 50.0}), RULE)


def test_measured(tmp_path: Path) -> None:
    assert_silent(kernels(tmp_path, {TIME: 7_000.0, SM: 50.0}, {TIME: 3_000.0}), RULE)


def test_its_name_is_no_tool_of_one_vendor() -> None:
    """It is asked on AMD's profiles, too, whose screen shows the rule's name."""
    assert "ncu" not in RULE
