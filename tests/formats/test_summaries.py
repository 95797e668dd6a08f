"""Summaries as text and CSV: sums of each name, and no timeline."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sightline

TABLE = """\
some log before it
-----------------------  ------------  ------------  ------------  ------------  ------------
                   Name    Self CPU %      Self CPU     CPU total     Self CUDA    # of Calls
-----------------------  ------------  ------------  ------------  ------------  ------------
               aten::mm        48.73%       1.022s        1.030s      345.077ms         11392
       cudaLaunchKernel         1.00%      20.000ms      20.000ms       0.000us             4
-----------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 2.097s
"""


def list_sums(tmp_path: Path, name: str, text: str) -> list[tuple[object, ...]]:
    path = tmp_path / name
    path.write_text(text)
    table = sightline.open(str(path)).table("call_sums")
    return table.select("kind", "name", "calls", "duration_ns").rows()


def test_key_averages(tmp_path: Path) -> None:
    assert list_sums(tmp_path, "log.txt", TABLE) == [
        ("host", "aten::mm", 11392, 1_022_000_000),
        ("device", "aten::mm", 11392, 345_077_000),
        ("host", "cudaLaunchKernel", 4, 20_000_000),
        ("host", "(rows that were not printed)", None, 1_055_000_000),
    ]


def test_a_name_that_is_wider_than_its_column_shifts_the_others(tmp_path: Path) -> None:
    """PyTorch makes columns of 12 characters, and CUDA time avg has 13: the rest moves right."""
    wide = TABLE.replace("    CPU total     Self CUDA", " CUDA time total     Self CUDA")
    assert wide != TABLE
    assert list_sums(tmp_path, "log.txt", wide) == list_sums(tmp_path, "plain.txt", TABLE)


KERNELS = """\
-----------------------  ------------  ------------  ------------  ------------  ------------
                   Name      Self CPU     CPU total     Self CUDA    CUDA total    # of Calls
-----------------------  ------------  ------------  ------------  ------------  ------------
          ProfilerStep*       2.000ms      12.000ms       0.000us      30.000ms             4
          ProfilerStep*       0.000us       0.000us      38.000ms      38.000ms             4
               aten::mm       6.000ms      10.000ms      24.000ms      24.000ms            40
           ampere_sgemm       0.000us       0.000us      24.000ms      24.000ms            40
            aten::copy_       1.000ms       1.000ms       6.000ms       6.000ms             4
       Memcpy HtoD (...       0.000us       0.000us       5.000ms       5.000ms             4
       cudaLaunchKernel       4.000ms       4.000ms       0.000us       0.000us            40
-----------------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 40.000ms
Self CUDA time total: 30.000ms
"""


def test_operators_kernels_and_ranges_are_told_apart(tmp_path: Path) -> None:
    """What has no time on the CPU is the device's own; of a name that has some, a range."""
    path = tmp_path / "log.txt"
    path.write_text(KERNELS)
    table = sightline.open(str(path)).table("call_sums")
    assert table.select("kind", "layer", "category", "name", "duration_ns").rows() == [
        ("host", "op", None, "ProfilerStep*", 2_000_000),
        ("device", None, "range", "ProfilerStep*", 38_000_000),
        ("host", "op", None, "aten::mm", 6_000_000),
        ("device", None, None, "aten::mm", 24_000_000),
        ("device", None, "kernel", "ampere_sgemm", 24_000_000),
        ("host", "op", None, "aten::copy_", 1_000_000),
        ("device", None, None, "aten::copy_", 6_000_000),
        ("device", None, "memcpy", "Memcpy HtoD (...", 5_000_000),
        ("host", "runtime", None, "cudaLaunchKernel", 4_000_000),
        ("device", None, "kernel", "(rows that were not printed)", 1_000_000),
        ("host", "op", None, "(rows that were not printed)", 27_000_000),
    ]


def test_of_several_tables_the_last_is_judged(tmp_path: Path) -> None:
    """The same rows by CPU and by CUDA time, or two runs: they are not added up."""
    path = tmp_path / "log.txt"
    path.write_text(KERNELS + "\n\n" + KERNELS)
    run = sightline.open(str(path))
    assert run.table("call_sums").get_column("part").unique().sort().to_list() == [0, 1]
    sums = {(r["what"], r["name"]): r["total_ns"] for r in run.ask("sums").to_dicts()}
    assert sums["kernel", "ampere_sgemm"] == 24_000_000


@pytest.mark.parametrize("how", ["comment", "notebook", "old notebook", "end of a log"])
def test_a_table_wherever_it_was_pasted(tmp_path: Path, how: str) -> None:
    """As in a program's source, in what a cell printed, and behind a program's own lines."""
    lines = TABLE.splitlines(keepends=True)
    cells = {"cells": [{"cell_type": "code", "outputs": [{"text": lines}]}]}
    text = {
        "comment": "import torch\n" + "".join(f"# {line}" for line in lines),
        "notebook": json.dumps({**cells, "nbformat": 4}, indent=1),
        "old notebook": json.dumps({"worksheets": [cells], "nbformat": 3}, indent=1),
        "end of a log": "epoch 1: loss 0.1\n" * 9_000 + TABLE,
    }[how]
    assert list_sums(tmp_path, "pasted", text) == list_sums(tmp_path, "plain.txt", TABLE)


def test_a_table_whose_columns_an_editor_moved(tmp_path: Path) -> None:
    """The rule has fewer columns than the head, and names are at the left: blanks tell."""
    lines = TABLE.splitlines()
    rule = "  ".join(["-" * 23, *["-" * 12] * 3])
    moved = [rule if line.startswith("---") else "  ".join(line.split("  ")) for line in lines]
    rows = [re.sub(r"^ +", "", re.sub(r" {3,}", "   ", line)) for line in moved]
    assert list_sums(tmp_path, "moved.txt", "\n".join(rows)) == list_sums(tmp_path, "a.txt", TABLE)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_nsys_stats(tmp_path: Path, mark: str) -> None:
    text = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n"
        '60.0,6000,2,3000.0,2500,3500,"void gemm<float, 4>(float*)"\n'
        "40.0,4000,4,1000.0,900,1100,relu\n"
    )
    assert list_sums(tmp_path, "kern_sum.csv", mark + text) == [
        ("device", "void gemm<float, 4>(float*)", 2, 6000),
        ("device", "relu", 4, 4000),
    ]
    calls = text.replace("Instances", "Num Calls").replace("relu", "cudaFree")
    assert {row[0] for row in list_sums(tmp_path, "api_sum.csv", calls)} == {"host"}


def test_rocprof_stats_without_its_waits(tmp_path: Path) -> None:
    text = (
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
        '"index_add",3,52000000000,17333333333,20.0\n"<barrier packet>",9,100,11,0.1\n'
        '"hipMemcpy",9,100,11,0.1\n'
    )
    assert list_sums(tmp_path, "results.stats.csv", text) == [
        ("device", "index_add", 3, 52_000_000_000),
        ("host", "hipMemcpy", 9, 100),
    ]
