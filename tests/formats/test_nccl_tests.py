"""Logs of nccl-tests, old and new."""

# ruff: noqa: E501 (lines as they are printed)

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

NEW = """\
# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 33554432 maxBytes 68719476736 step: 2(factor) warmup iters: 5
#  Rank  0 Group  0 Pid 2627782 on node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 2627783 on node-b device  0 [0000:43:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong
   134217728      16777216    double    none      -1  1250.59  107.32   53.66       0  1408.05   95.32   47.66     N/A
# Collective test concluded: all_gather_perf
"""
OLD = """\
 0: # nThread 1 nGpus 4 minBytes 1 maxBytes 8589934592 step: 2(factor)
 0: #   Rank  0 Pid 112424 on localhost device  0 [0x00] A100-SXM4-40GB
 0: #   Rank  1 Pid 112424 on localhost device  1 [0x00] A100-SXM4-40GB
 0: #   Rank  2 Pid 112424 on localhost device  2 [0x00] A100-SXM4-40GB
 0: #   Rank  3 Pid 112424 on localhost device  3 [0x00] A100-SXM4-40GB
hostname:3442:3442 [0] NCCL INFO Launch mode Parallel
 0:           4             1   float     sum    34.73    0.00    0.00    N/A    35.30    0.00    0.00    N/A
 0:  8589934592    2147483648   float     sum    64425  133.33  200.00    N/A    64425  133.33  200.00  1e+00
"""


def opened(folder: Path, text: str):
    (folder / "run.log").write_text(text)
    return sightline.open(str(folder / "run.log"))


def test_a_named_collective_over_two_machines(tmp_path: Path) -> None:
    table = opened(tmp_path, NEW).table("bandwidth_tests").drop("rank", "recording_id")
    shared = (0, "all_gather", 2, 2, "NVIDIA H100 80GB HBM3")
    size = (134217728, 16777216, "double", "none", -1)
    assert table.rows() == [
        (*shared, "out-of-place", *size, 1_250_590, 107.32, 53.66, 0),
        (*shared, "in-place", *size, 1_408_050, 95.32, 47.66, None),
    ]


def test_an_old_log_behind_a_launchers_prefix(tmp_path: Path) -> None:
    """No name: it sums, without a root, and the factor is 1.5 for four ranks."""
    table = opened(tmp_path, OLD).table("bandwidth_tests")
    assert set(table["op"]) == {"all_reduce"}
    assert table["duration_ns"].to_list() == [34_730, 35_300, 64_425_000, 64_425_000]
    assert table["wrong"].to_list() == [None, None, None, 1]


@pytest.mark.parametrize("factor", ["133.33", "100.00"])
def test_a_collective_that_cannot_be_told_has_no_name(tmp_path: Path, factor: str) -> None:
    """All-gather and all-to-all have one factor, and so have broadcast, send and receive."""
    text = OLD.replace("sum", "none").replace("200.00", factor)
    assert set(opened(tmp_path, text).table("bandwidth_tests")["op"]) == {None}


def test_a_log_without_results(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no line of results"):
        opened(tmp_path, NEW.replace("134217728", "x"))


@pytest.mark.parametrize("number", ["1e999", "9" * 30, "1e999999999"])
@pytest.mark.parametrize("cell", ["1250.59", "107.32", "0  1408"])
def test_numbers_that_no_column_holds(tmp_path: Path, number: str, cell: str) -> None:
    """What is measured beside them is kept."""
    given = cell.replace(cell.split()[0], number, 1)
    table = opened(tmp_path, NEW.replace(cell, given)).table("bandwidth_tests")
    assert 47.66 in table["bus_bandwidth_gb_per_s"].to_list()
    assert table["duration_ns"].max() < 2_000_000


def test_a_root_that_no_column_holds(tmp_path: Path) -> None:
    table = opened(tmp_path, NEW.replace("-1 ", "9" * 30)).table("bandwidth_tests")
    assert table["root"].to_list() == [None, None]


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 25, "\u0663", "1e400"])
def test_digits_that_no_number_has(tmp_path: Path, number: str) -> None:
    """Python converts no text of more than 4,300 digits."""
    for place in ("Rank  1", "112424", "[0]", "8589934592", "sum    64425"):
        changed = place.rstrip("0123456789") + number
        assert opened(tmp_path, OLD.replace(place, changed)).rows("bandwidth_tests") > 0
