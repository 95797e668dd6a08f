"""Every log of nccl-tests: the bus bandwidth that it printed, from size, time and ranks."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pytest

import sightline
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures

pytestmark = pytest.mark.corpus
HALF = Decimal("0.005")  # bandwidths are printed with two decimals


# Copies between a host and its GPUs: no bus bandwidth.
COPIES = "nccl_tests/microsoft__superbenchmark/tests/data/nvbandwidth_results.log"
LOGS = [p for p in list_recordings("nccl_tests/**/*.log")
        if name_recording(p) != COPIES]  # fmt: skip


@pytest.mark.parametrize("log", LOGS, ids=name_recording)
def test_printed_bus_bandwidths_follow_to_the_digit(log: Path) -> None:
    """As far as the printed time says: it is rounded too."""
    rows = sightline.open(str(log)).ask("bandwidth_by_size")
    assert not rows.is_empty()
    # Without the number of ranks a log says none: it is printed by a header that may be cut off.
    for row in rows.drop_nulls("bus_bandwidth_gb_per_s").iter_rows(named=True):
        time, printed = row["duration_ns"], Decimal(str(row["printed_gb_per_s"]))
        # 35.20, 112.0, 2112.2, 16215 us: four digits below a millisecond, five from there.
        half = Decimal(10) ** (len(str(time)) - (4 if time < 10**6 else 5)) / 2
        low, high = (
            Decimal(row["bus_bandwidth_gb_per_s"]) * time / (time + by) for by in (half, -half)
        )
        agree = low - HALF <= printed <= high + HALF
        compare_figures(log, f"bus bandwidth of {row}", (low, high), printed, agree=agree)


def test_a_link_that_is_lost_shows_in_channels_and_bandwidth(corpus: Path) -> None:
    """Two A100 with NVLink, and without: the logs' own averages of all their bandwidths."""
    found = {}
    for name in ("nccl-fault.log", "nccl.log.gz"):
        log = corpus / "nccl_log/Timez-zx__nccl-tests" / name
        run = sightline.open(str(log))
        bandwidths = run.table("bandwidth_tests")["bus_bandwidth_gb_per_s"]
        opener = gzip.open if log.suffix == ".gz" else open
        with opener(log, "rt") as lines:
            printed = next(line for line in lines if line.startswith("# Avg bus bandwidth"))
        assert bandwidths.mean() == pytest.approx(float(printed.split(":")[1]), abs=0.005)
        channels = run.ask("nccl_channels").select("group_size", "transport", "channels").rows()
        found[log.name] = (bandwidths.len(), channels)
    assert found == {
        "nccl-fault.log": (22, [(2, "P2P", 4)]),
        "nccl.log.gz": (22, [(2, "P2P", 48)]),
    }
