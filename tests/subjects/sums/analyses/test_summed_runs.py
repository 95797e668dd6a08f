"""Runs in one text: each with its own figures, the last with a GPU's work judged."""

from __future__ import annotations

from pathlib import Path

import sightline
from formats.test_nvidia_text import NEW, NVPROF, OLD
from support.command import sightline as sightline_command

IDLE = """\
==5== NVPROF is profiling process 5, command: ./a
==5== Profiling result:
No kernels were profiled.
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
      API calls:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  cudaFree
"""


def test_each_run_and_the_last_that_worked(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(OLD + NEW + NVPROF + IDLE)
    found = sightline.open(str(path)).ask("summed_runs")
    assert found.select("part", "command", "judged", "kernel_ns", "copy_ns", "longest").rows() == [
        (0, None, False, 3_000_000, 500_000, "scale(int, int)"),
        (1, None, False, 10_000_000, 6_000_000, "void mul<(int)8>(float *, i…"),
        (2, "app", True, 3_000_000, 1_000_196_544, "step(float*, int)"),
        (3, "a", False, 0, 0, None),
    ]
    assert found["call_ns"].to_list() == [200_000_000, 101_500_000, 100_335_000, 1_000_000]


def test_one_run_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(NEW)
    found = sightline.open(str(path)).ask("summed_runs")
    assert found.select("part", "judged", "fill_ns", "kernels").rows() == [
        (None, True, 2_000_000, 300)
    ]


def test_the_report_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(OLD + NEW + NVPROF)
    done = sightline_command("report", str(path), "--no-html")
    lines = [line for line in done.out.splitlines() if line.startswith(("* ", "  1", "  2"))]
    assert [line.split()[:2] for line in lines] == [
        ["1", "scale(int,"],
        ["2", "void"],
        ["*", "3"],
        ["*", "findings"],
    ]
    assert "app" in lines[2]
