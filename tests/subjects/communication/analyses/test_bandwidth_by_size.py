"""Bandwidth over size, of a benchmark and of a recorded job."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.jobs import opened_job

LOG = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 4000000 maxBytes 4000000 step: 2(factor)
#  Rank  0 Group  0 Pid 1 on node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 2 on node-a device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong
     4000000       1000000     float     sum      -1    100.0   40.00   40.00       0
"""


def test_a_benchmark_with_its_machines_peak(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    row = sightline.open(str(tmp_path / "run.log")).ask("bandwidth_by_size").row(0, named=True)
    assert (row["source"], row["op"], row["link"]) == ("benchmark", "all_reduce", "machine")
    assert row["bus_bandwidth_gb_per_s"] == row["printed_gb_per_s"] == pytest.approx(40)
    # 450 GB/s each way: NVIDIA H100 Tensor Core GPU datasheet, NVLink 900 GB/s.
    assert row["achieved_pct"] == pytest.approx(100 * 40 / 450)


def test_a_recording_by_its_median_transfer(tmp_path: Path) -> None:
    run = opened_job(tmp_path, [[0, 50], [1_000, 1_000]])
    row = run.ask("bandwidth_by_size").row(0, named=True)
    assert (row["source"], row["operations"], row["duration_ns"]) == ("recording", 2, 100_000)
    assert row["bus_bandwidth_gb_per_s"] == pytest.approx(40)
