"""torch.cuda.memory_stats() as JSON, flat and nested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import DamagedError

NESTED = {
    "allocated_bytes": {"all": {"current": 10, "peak": 40, "allocated": 90, "freed": 80}},
    "active_bytes": {"all": {"current": 12, "peak": 44, "allocated": 90, "freed": 78}},
    "reserved_bytes": {"all": {"current": 64, "peak": 128, "allocated": 128, "freed": 64}},
    "num_ooms": 2,
}
FLAT = {
    f"{name}.all.{moment}": value
    for name in ("allocated_bytes", "active_bytes", "reserved_bytes")
    for moment, value in NESTED[name]["all"].items()  # type: ignore[index]
} | {"num_ooms": 2}


@pytest.mark.parametrize("stats", [FLAT, NESTED])
def test_peaks_and_counts(tmp_path: Path, stats: dict[str, object]) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps(stats))
    run = sl.open(str(path))
    peak = run.ask("memory_peak").row(0, named=True)
    assert (peak["allocated_bytes"], peak["most_active_bytes"]) == (40, 44)
    assert peak["most_reserved_bytes"] == 128
    settings = dict(run.table("memory_settings").select("name", "value").rows())
    assert (settings["num_ooms"], settings["allocated_bytes.all.freed"]) == ("2", "80")


def test_without_what_is_allocated(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"allocated_bytes.all.peak": "much"}))
    with pytest.raises(DamagedError, match="missing or no number"):
        sl.open(str(path))
