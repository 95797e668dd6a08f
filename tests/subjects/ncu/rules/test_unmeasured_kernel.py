"""unmeasured-kernel: most of the profiled time cannot be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.profiled import FULL_SM, MEMORY, SM, TIME, opened
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


def test_one_throughput_that_shows_that_it_is_the_other(tmp_path: Path) -> None:
    """It takes 70 % of the time at 1 % of the SMs' peak; a kernel of 30 % is no match for it."""
    run = kernels(tmp_path, {TIME: 700_000.0, SM: 1.3}, {TIME: 300_000.0, SM: 90.0, MEMORY: 20.0})
    first = next(f for f in sightline.findings(run) if not f.abstained)
    assert (first.rule, first.where["kernel"], first.cost_ns) == (RULE, "basic", 700_000)
    assert any("the SMs are at 1.3 % of their peak" in line for line in first.evidence)
    # At half of the peak it may be the SMs that bind it.
    half = kernels(tmp_path / "b", {TIME: 700_000.0, SM: 50.0}, {TIME: 300_000.0, SM: 90.0})
    assert_silent(half, RULE)


def test_what_a_launch_alone_tells(tmp_path: Path) -> None:
    """Blocks of 1,024 threads: of 48 warps of an SM one such block has 32."""
    launch = FULL_SM | {"launch__block_size": 1024.0, "launch__registers_per_thread": 32.0}
    run = kernels(tmp_path, launch | {TIME: 7_000.0}, {TIME: 3_000.0, SM: 50.0})
    (found,) = answers(run, RULE)
    assert any("32 of 48 warps fit an SM (66.7 %)" in line for line in found.evidence)
    assert (found.fix or "").startswith("blocks of 256 threads")


@pytest.mark.parametrize("part", [4_900.0, 500.0])
def test_a_part_that_does_not_lead(tmp_path: Path, part: float) -> None:
    """Up to half of the time: others weigh more, but nothing can be said of these."""
    run = kernels(tmp_path, {TIME: part}, {TIME: 10_000.0 - part, SM: 50.0})
    (found,) = answers(run, RULE)
    assert f"{part / 100:.1f} % of the profiled time is of 1 kernel" in found.summary
    assert (found.severity, found.states_limit, found.is_remark) == ("info", False, True)


def test_silence(tmp_path: Path) -> None:
    """Less than a twentieth, or all that was measured."""
    assert_silent(kernels(tmp_path / "a", {TIME: 9_600.0, SM: 50.0}, {TIME: 400.0}), RULE)
    measured = {TIME: 5_000.0, SM: 50.0}
    assert_silent(kernels(tmp_path / "b", measured, measured), RULE)


def test_counters_alone_tell_nothing_of_time(tmp_path: Path) -> None:
    """As of `ncu --metrics` with a few of them; SOL or a duration of one kernel would tell."""
    loaded = {"l1tex__t_bytes.sum": 1e9}
    (found,) = answers(kernels(tmp_path / "a", loaded, loaded), RULE)
    assert (found.title, found.states_limit) == ("Kernels counted, not timed", True)
    assert "2 launches of 2 kernels, without durations" in found.evidence[0]
    assert "--set full" in (found.fix or "")
    measured = kernels(tmp_path / "b", loaded, {SM: 50.0})
    assert "Kernels counted" not in [f.title for f in sightline.findings(measured)]


def test_metrics_without_a_value_are_a_collection_that_failed(tmp_path: Path) -> None:
    """All were asked for, and all are not numbers: not that nobody asked."""
    empty = {TIME: float("nan"), SM: float("nan")}
    (found,) = answers(kernels(tmp_path, empty, empty), RULE)
    assert (found.title, found.severity) == ("Nothing was measured", "warning")
    assert found.summary.startswith("2 metrics were asked for and have no value")
    assert "ERR_NVGPUCTRPERM" in (found.fix or "")


def test_its_name_is_no_tool_of_one_vendor() -> None:
    """It is asked on AMD's profiles, too, whose screen shows the rule's name."""
    assert "ncu" not in RULE


def test_many_kernels_that_nobody_measured_lead_too(tmp_path: Path) -> None:
    run = kernels(tmp_path, {TIME: 4_900.0}, {TIME: 5_100.0})
    (found,) = answers(run, RULE)
    assert found.states_limit
    assert "tiled: 1 launch, 5.100 µs, 51.0 % of that time" in found.evidence[0]


@pytest.mark.parametrize("name", ["init_matrices", "rt::build_meshes(rt::Mesh *)"])
def test_a_kernel_whose_collection_failed_leads(tmp_path: Path, name: str) -> None:
    """All of its values are not numbers, while the one that made its input was measured."""
    failed, measured = {TIME: float("nan"), SM: float("nan")}, {TIME: 9_000.0, SM: 50.0}
    made = Kernel(name=name, metrics=measured)
    run = opened(tmp_path, report([Kernel(name="basic", metrics=failed), made]))
    first = sightline.findings(run)[0]
    assert (first.rule, first.title) == (RULE, "basic was not measured")
    assert "1 launch of 2 without" in first.evidence[0]
    assert "-k regex:basic -c 1" in (first.fix or "")


def test_one_launch_of_many_that_failed_leads_nothing(tmp_path: Path) -> None:
    """Other launches of it were measured, and say that it hardly matters."""
    failed, short = {TIME: float("nan"), SM: float("nan")}, {TIME: 100.0, SM: 50.0}
    measured = {"a": short, "b": {TIME: 9_000.0, SM: 50.0}}
    launches = [Kernel(name=name, metrics=metrics) for name, metrics in measured.items()]
    run = opened(tmp_path, report([Kernel(name="a", metrics=failed), *launches]))
    (found,) = answers(run, RULE)
    assert (found.title, found.severity, found.states_limit) == (
        "a was not measured",
        "info",
        False,
    )


def test_a_kernel_whose_collection_failed_beside_one_of_the_program_s_own(tmp_path: Path) -> None:
    """Another kernel was measured, and does not only make the data: what it lacks comes first."""
    run = kernels(tmp_path, {TIME: float("nan"), SM: float("nan")}, {TIME: 9_000.0, SM: 50.0})
    (found,) = answers(run, RULE)
    assert (found.severity, found.states_limit) == ("info", False)
