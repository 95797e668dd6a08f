"""network_congestion: intervals in which data waited to be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from support.ask import rows
from support.exports import MS, opened
from synth_nsys import Export


def with_card(folder: Path, unit: str, *values: int) -> Run:
    """Samples of a card's send waits, over 2 ms each."""
    export = Export()
    export.add("TARGET_INFO_NIC_INFO", GUID=99, nicId=1, name="mlx5_0")
    export.add("NIC_ID_MAP", nicId=1, globalId=12)
    place = {"metricsListId": 1, "metricsIdx": 2}
    export.add("TARGET_INFO_NETWORK_METRICS", name="IB: Send waits", unit=unit, **place)
    for i, value in enumerate(values):
        times = {"start": 2 * MS * i, "end": 2 * MS * (i + 1)}
        export.add("NET_NIC_METRIC", globalId=12, portId=1, value=value, **place, **times)
    return opened(folder, export)


@pytest.mark.parametrize(("unit", "factor"), [("ticks/ms", 1), ("ticks", 2)])
def test_above_the_threshold(tmp_path: Path, unit: str, factor: int) -> None:
    """10,000 ticks a ms are not above 10,000; 20,000 are. Plain ticks are of 2 ms."""
    run = with_card(tmp_path, unit, 10_000 * factor, 20_000 * factor)
    high = (2 * MS, 4 * MS, 2 * MS, 20_000.0, None, "mlx5_0 port 1")
    assert rows(run, "network_congestion") == [high]
    low = (0, 2 * MS, 2 * MS, 10_000.0, None, "mlx5_0 port 1")
    assert rows(run, "network_congestion", ticks_threshold=9_999) == [low, high]


def test_not_recorded(tmp_path: Path) -> None:
    export = Export()
    export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=5, metricName="SMs Active")
    export.add("GPU_METRICS", timestamp=50, typeId=0, metricId=5, value=73)
    with pytest.raises(MissingDataError, match="nic-metrics"):
        opened(tmp_path, export).ask("network_congestion")
