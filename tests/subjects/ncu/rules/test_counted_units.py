"""The busiest unit, by nvprof's levels."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.rules import answers, assert_abstains, assert_silent

HEAD = """\
==2== Profiling result:
==2== Metric result:
Invocations    Metric Name    Metric Description    Min    Max    Avg
Device "GeForce GT 650M (0)"
    Kernel: cells(char*, int)
"""
LEVELS = {
    "alu_fu_utilization": "Mid (5)",
    "dram_utilization": "Low (1)",
    "ldst_fu_utilization": "Low (2)",
}
INTEGER = {"inst_integer": "600", "inst_fp_32": "100", "inst_control": "300"}


def open_counters(tmp_path: Path, **metrics: str):
    lines = [f"     100    {name}    Words    {v}    {v}    {v}" for name, v in metrics.items()]
    path = tmp_path / "counters.txt"
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return sightline.open(str(path))


def test_integer_arithmetic(tmp_path: Path) -> None:
    (found,) = answers(open_counters(tmp_path, **LEVELS, **INTEGER), "counted-units")
    assert "`cells` the arithmetic units work most: 5 (mid) of 10" in found.summary
    lines = "\n".join(found.evidence)
    assert "integer arithmetic 60.0 %" in lines
    assert "or what a change gains" in lines
    assert "index arithmetic" in found.fix
    assert (found.cost, found.gain, found.confidence) == (None, None, "low")


@pytest.mark.parametrize(
    ("metric", "level", "words", "fix"),
    [
        ("dram_utilization", "High (8)", "bound by device memory: 8 (high)", "fewer bytes"),
        ("l2_utilization", "Max (10)", "bound by L2: 10 (high)", "fewer accesses"),
        ("sysmem_utilization", "Mid (6)", "the host's memory work most", "keep on the GPU"),
        ("dram_utilization", "Low (3)", "No unit is busy", "more work in flight"),
    ],
)
def test_other_units(tmp_path: Path, metric: str, level: str, words: str, fix: str) -> None:
    run = open_counters(tmp_path, **{"cf_fu_utilization": "Low (1)", metric: level})
    (found,) = answers(run, "counted-units")
    assert words in found.summary
    assert fix in found.fix


def test_no_level(tmp_path: Path) -> None:
    run = open_counters(tmp_path, branch_efficiency="83.33%")
    assert_abstains(run, "counted-units", "branch_efficiency alone do not say")


def test_kernels_of_nsight_compute_are_no_counters(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","1","a","h","k","gpu__time_duration.sum","ns","5"\n'
    )
    assert_silent(sightline.open(str(path)), "counted-units")
