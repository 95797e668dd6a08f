"""Every log of nccl-tests: the bus bandwidth that it printed, from size, time and ranks."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pytest

import sightline

pytestmark = pytest.mark.corpus
HALF = Decimal("0.005")  # bandwidths are printed with two decimals


def test_printed_bus_bandwidths_follow_to_the_digit(corpus: Path) -> None:
    """As far as the printed time says: it is rounded too."""
    seen = 0
    for log in sorted((corpus / "nccl_tests").rglob("*.log")):
        if "nvbandwidth" in log.name:
            continue
        run = sightline.open(str(log))
        known = run.ask("bandwidth_by_size").drop_nulls("bus_bandwidth_gb_per_s")
        for row in known.iter_rows(named=True):
            time, printed = row["duration_ns"], Decimal(str(row["printed_gb_per_s"]))
            # 35.20, 112.0, 2112.2, 16215 us: four digits below a millisecond, five from there.
            half = Decimal(10) ** (len(str(time)) - (4 if time < 10**6 else 5)) / 2
            low, high = (
                Decimal(row["bus_bandwidth_gb_per_s"]) * time / (time + by) for by in (half, -half)
            )
            assert low - HALF <= printed <= high + HALF, (log.name, row)
            seen += 1
    assert seen > 2_400


def test_a_link_that_is_lost_shows_in_channels_and_bandwidth(corpus: Path) -> None:
    """Two A100 with NVLink, and without: the logs' own averages of all their bandwidths."""
    found = {}
    for log in sorted((corpus / "nccl_log").rglob("*.log*")):
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
