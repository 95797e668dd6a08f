"""NCCL's own examples of its Inspector's output: their bandwidths follow from size and time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("name", ["inspector-1.json", "inspector-2.json"])
def test_the_printed_bandwidths(corpus: Path, name: str) -> None:
    path = corpus / "nccl_profiler" / "NVIDIA__nccl" / name
    told = json.loads(path.read_text())["coll_perf"]
    row = sightline.open(str(path)).ask("communication").row(0, named=True)
    assert row["algorithm_bandwidth_gb_per_s"] == pytest.approx(told["coll_algobw_gbs"], abs=1e-6)
    assert row["bus_bandwidth_gb_per_s"] == pytest.approx(told["coll_busbw_gbs"], abs=1e-6)
