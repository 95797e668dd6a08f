"""Reports of Nsight Compute against each other: which kernels are the same, and what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sightline.compare.kernel_profiles import compare_profiles
from support.command import sightline
from support.profiled import MEMORY, SM, profiled
from support.traces import kernel, write

REPORTS = "ncu/AveryClapp__ESMM-Research"


def _report(folder: Path, sm: float, *, time: float = 10_000.0, blocks: int = 1600) -> Path:
    metrics: Mapping[str, float] = {SM: sm, MEMORY: 40.0}
    profiled(folder, metrics, time=time, blocks=blocks)
    return folder / "r.ncu-rep"


def test_metric_by_metric(tmp_path: Path) -> None:
    paths = [_report(tmp_path / "a", 30.0), _report(tmp_path / "b", 60.0, time=5_000.0)]
    done = sightline("compare", *paths, "--json")
    assert done.code == 0, done.err
    (pair,) = json.loads(done.out)["pairs"]
    assert (pair["match"], pair["before_ns"], pair["after_ns"]) == ("launch shape", 10_000, 5_000)
    metrics = {row["metric"]: row for row in pair["metrics"]}
    assert (metrics[SM]["before"], metrics[SM]["after"], metrics[SM]["ratio"]) == (30.0, 60.0, 2.0)
    assert metrics[MEMORY]["ratio"] == 1.0
    screen = sightline("compare", *paths).out
    assert "each was measured once" in screen
    assert "SM throughput" in screen
    assert "memory throughput" not in screen
    assert all(len(line) <= 80 for line in screen.splitlines())


def test_another_launch_shape_is_said(tmp_path: Path) -> None:
    paths = [_report(tmp_path / "a", 30.0), _report(tmp_path / "b", 30.0, blocks=800)]
    assert json.loads(sightline("compare", *paths, "--json").out)["pairs"][0]["match"] == "exact"
    said = sightline("compare", *paths).out
    assert "launched as 1600×1×1 blocks of 256×1×1, now 800×1×1 blocks of 256×1×1" in said


def test_a_report_and_a_timeline(tmp_path: Path) -> None:
    """Neither can stand for the other: an error, and no traceback."""
    trace = write(tmp_path, [kernel("k", 0, 10)])
    done = sightline("compare", _report(tmp_path / "a", 30.0), trace)
    assert done.code == 2
    assert "it has no timeline, but" in " ".join(done.err.split())


@pytest.mark.parametrize("words", [["--format", "html"], ["--fail-on", "slower"]])
def test_what_profiles_have_not(tmp_path: Path, words: list[str]) -> None:
    path = _report(tmp_path, 30.0)
    done = sightline("compare", path, path, *words)
    assert done.code == 2
    assert "kernel profiles are compared as text and json" in " ".join(done.err.split())


@pytest.mark.corpus
def test_two_reports_of_one_project(corpus: Path) -> None:
    """Its author gave one kernel another tile and half the registers: read off both reports."""
    import sightline as sl

    runs = [
        sl.open(corpus / REPORTS / name) for name in ("profile_output.ncu-rep", "profile.ncu-rep")
    ]
    data = compare_profiles(*runs)
    changed = [pair for pair in data["pairs"] if pair["name"] != pair["after_name"]]
    assert [pair["match"] for pair in data["pairs"]].count("launch shape") == 3
    (pair,) = changed
    assert pair["match"] == "variant"
    assert "warptiling" in pair["after_name"]
    assert (pair["before_shape"][3], pair["after_shape"][3]) == (128, 256)
    registers = {m["metric"]: m for m in pair["metrics"]}["launch__registers_per_thread"]
    assert (registers["before"], registers["after"]) == (228, 128)
    assert any(name.startswith("ampere_sgemm_128x64_nn") for name in data["appeared"])
