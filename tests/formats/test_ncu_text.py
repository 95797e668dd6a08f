"""Nsight Compute's details as printed: the same as its CSV page of the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run

PAGE = """\
==PROF== Connected to process 4711 (/home/x/app)
==PROF== Profiling "gemm" - 0: 0%....50%....100% - 8 passes
[4711] app@127.0.0.1
  void gemm<float, 4>(float *, int) (108, 2, 1)x(1024, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         1.59
    Elapsed Cycles                cycle       63,779
    Duration                         ms        30.86
    Compute (SM) Throughput           %        11.56
    DRAM Throughput                   %        23.97
    ----------------------- ----------- ------------

    OPT   Est. Local Speedup: 87.6%
          The grid is too small
          to fill the device.

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Registers Per Thread             register/thread             255
    -------------------------------- --------------- ---------------

    INF   Nothing to say.
  vecAdd(float *), 2021-Mar-01 12:00:00, Context 1, Stream 7
    Section: GPU Speed Of Light
    ------------------- --------------- ---------------
    Duration                    usecond            2.50
    ------------------- --------------- ---------------
"""


def open_page(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "ncu.txt"
    path.write_text(text)
    return sightline.open(str(path))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_kernels_metrics_and_rules(tmp_path: Path, ending: str) -> None:
    run = open_page(tmp_path, PAGE.replace("\n", ending))
    kernels = run.table("profiled_kernels")
    assert kernels.select("name", "grid_x", "grid_y", "block_x", "duration_ns").rows() == [
        ("void gemm<float, 4>(float *, int)", 108, 2, 1024, 30_860_000),
        ("vecAdd(float *)", None, None, None, 2_500),
    ]
    assert kernels.get_column("registers_per_thread").to_list() == [255, None]
    metrics = dict(run.table("kernel_metrics").select("metric", "value").rows())
    assert metrics["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"] == 23.97
    assert metrics["gpc__cycles_elapsed.max"] == 63_779
    rules = run.table("vendor_rules").select("severity", "text", "speedup_type", "speedup_pct")
    assert rules.rows() == [
        ("optimization", "The grid is too small to fill the device.", "local", 87.6),
        ("ok", "Nothing to say.", None, None),
    ]
    assert run.table("devices").get_column("compute_capability").to_list() == ["8.0"]


def test_text_around_it_is_no_damage(tmp_path: Path) -> None:
    text = "step 1 loss 0.3\n" + PAGE + "Some words (1, 2, 3) behind it\n"
    assert open_page(tmp_path, text).table("profiled_kernels").height == 2
