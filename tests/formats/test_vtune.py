"""VTune's tables: as its users quote them, with each delimiter, damaged."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from sightline.formats.intel import vtune
from support.damage import survive_damage

TREE = """Function Stack\tCPU Time: Total\tCPU Time: Self\tModule\tFunction (Full)\tSource File\tStart Address
Total\t100.0%\t0s\t[Unknown]\t[Unknown]\t[Unknown]\t[Unknown]
  _start\t95.3%\t0s\tapp\t_start\t[Unknown]\t0x3d8e0
    main\t95.3%\t0.105s\tapp\tmain\tmain.cpp\t0x402e0
      operator new\t1.0%\t61.5ms\tlibstdc++.so.6\toperator new(unsigned long)\tnew_op.cc\t0xa5a9a
    exit\t0.1%\t0.008s\tlibc.so.6\texit\t[Unknown]\t0x1
"""  # noqa: E501
FLAT = """war:Column filter is ON.
Function,CPU Time,CPU Time:Effective Time,CPU Time:Spin Time,Module,Source File
compress,12.504,12.100,0.404,app,compress.c
[Outside any known module],0.120,0.120,0.000,,
,,,,,
cut,1.5
"""
EVENT = "Hardware Event Count"
EVENTS = f"""Function;{EVENT}:INST_RETIRED.ANY (K);{EVENT}:CPU_CLK_UNHALTED.THREAD (K);Module
compress;1,000;2,500.5;app
"""
TASKS = """Computing Task\tWork Size:Global\tWork Size:Local\tComputing Task:Total Time\tComputing Task:Average Time\tComputing Task:Instance Count\tComputing Task:SIMD Width\tXVE Array:Active(%)\tGPU Memory Bandwidth, GB/sec:Read
gemm<float, 8>\t4096 x 1024\t256 x 4\t1.500000250\t0.015\t100\t32\t71.5%\t205.25
[Outside any task]\t\t\t0.25\t\t\t\t0\t1
zeCommandListAppendMemoryCopy\t\t\t0.002\t0.001\t2\t\t\t
"""  # noqa: E501


def read_stacks(path: Path, text: str) -> list[tuple[str, str, int]]:
    """Frames joined by ';', metric and value of each weight."""
    path.write_text(text)
    run = sightline.open(str(path))
    frames = dict(run.table("frames").select("frame_id", "function").iter_rows())
    nodes = {
        n: (p, f)
        for n, p, f in run.table("stacks").select("stack_id", "parent_id", "frame_id").rows()
    }
    found = []
    for stack, metric, value in (
        run.table("stack_weights").select("stack_id", "metric", "value").rows()
    ):
        names, node = [], stack
        while node is not None:
            node, frame = nodes[node]
            names.append(frames[frame])
        found.append((";".join(reversed(names)), metric, value))
    return found


def test_a_call_tree_has_each_functions_own_time(tmp_path: Path) -> None:
    assert read_stacks(tmp_path / "top-down.tsv", TREE) == [
        ("_start;main", "cpu_time_ns", 105_000_000),
        ("_start;main;operator new", "cpu_time_ns", 61_500_000),
        ("_start;exit", "cpu_time_ns", 8_000_000),
    ]
    rows = csv.DictReader(io.StringIO(TREE), delimiter="\t")
    own = sum(Decimal(row["CPU Time: Self"].replace("ms", "e-3").rstrip("s")) for row in rows)
    weights = sightline.open(str(tmp_path / "top-down.tsv")).table("stack_weights")
    assert weights.get_column("value").sum() == own * 10**9
    frames = sightline.open(str(tmp_path / "top-down.tsv")).table("frames")
    assert frames.filter(function="main").select("file", "module").rows() == [("main.cpp", "app")]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "^", "|"])
def test_functions_with_any_delimiter(tmp_path: Path, delimiter: str) -> None:
    found = read_stacks(tmp_path / "hotspots.csv", FLAT.replace(",", delimiter))
    assert found == [
        ("compress", "cpu_time_ns", 12_504_000_000),
        ("[Outside any known module]", "cpu_time_ns", 120_000_000),
    ]
    quality = sightline.open(str(tmp_path / "hotspots.csv")).table("quality")
    assert dict(quality.select("kind", "count").iter_rows())["damaged_lines"] == 1


def test_hardware_events(tmp_path: Path) -> None:
    assert read_stacks(tmp_path / "events.csv", EVENTS) == [("compress", "cycles", 2_500_500)]


def test_kernels(tmp_path: Path) -> None:
    assert read_stacks(tmp_path / "gpu.csv", TASKS) == [
        ("gemm<float, 8>", "gpu_time_ns", 1_500_000_250),
        ("zeCommandListAppendMemoryCopy", "gpu_time_ns", 2_000_000),
    ]
    run = sightline.open(str(tmp_path / "gpu.csv"))
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    kernels = run.table("profiled_kernels").select("name", "duration_ns", *shape).rows()
    assert kernels[0] == ("gemm<float, 8>", 1_500_000_250, 16, 256, 1, 256, 4, 1)
    first = run.table("profiled_kernels").get_column("kernel_id")[0]
    metrics = run.table("kernel_metrics").filter(kernel_id=first)
    assert dict(metrics.select("metric", "value").iter_rows()) == {
        "Computing Task:Average Time": 0.015,
        "Computing Task:Instance Count": 100,
        "Computing Task:SIMD Width": 32,
        "XVE Array:Active(%)": 71.5,
        "GPU Memory Bandwidth, GB/sec:Read": 205.25,
    }
    advice = " ".join(str(finding.fix) for finding in sightline.findings(run))
    assert "ncu" not in advice and "cuda" not in advice.lower()


def test_a_table_without_rows_is_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("Function,CPU Time\n")
    with pytest.raises(DamagedError, match="no stack"):
        sightline.open(str(path))


@pytest.mark.parametrize("text", [TREE, FLAT, EVENTS, TASKS])
def test_damage(tmp_path: Path, text: str) -> None:
    survive_damage(vtune.read, tmp_path / "report.csv", text)


def test_a_tree_that_only_grows_deeper_is_read_at_once(tmp_path: Path) -> None:
    head = TREE.splitlines()[0]
    rows = [f"{' ' * depth}f\t1%\t0.001s\tapp\tf\tf.c\t0x1" for depth in range(3_000)]
    path = tmp_path / "deep.tsv"
    path.write_text("\n".join([head, *rows]))
    run = sightline.open(str(path))
    assert run.table("stack_weights").get_column("value").sum() == 3_000 * 10**6
