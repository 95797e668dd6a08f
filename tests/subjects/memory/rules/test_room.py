"""Beside a timeline, what takes memory is a remark while most of the device's memory is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.subjects.memory.rules._shared import find_device_peaks, grade_by_room
from support.snapshots import opened as opened_snapshot
from support.traces import kernel, launched, opened
from support.training import train

GB = 10**9


@pytest.mark.parametrize(("capacity", "severity"), [(80 * GB, "info"), (7 * GB, None)])
def test_a_peak_of_4_gb(tmp_path: Path, capacity: int, severity: str | None) -> None:
    told = {"Device Type": 1, "Device Id": 0, "Total Reserved": 4 * GB}
    memory = [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1,
         "ts": at, "args": {**told, "Addr": 4096, "Bytes": size, "Total Allocated": total}}
        for at, size, total in ((5, 4 * GB, 4 * GB), (90, -4 * GB, 0))
    ]  # fmt: skip
    device = {"id": 0, "name": "NVIDIA H100", "totalGlobalMem": capacity}
    run = opened(tmp_path, [launched(10, kernel("k", 20, 50)), *memory], deviceProperties=[device])
    (peak,) = find_device_peaks(run).rows(named=True)
    assert grade_by_room(peak) == severity


def test_a_recording_of_memory_alone_asks_about_it(tmp_path: Path) -> None:
    (peak,) = find_device_peaks(opened_snapshot(tmp_path, train())).rows(named=True)
    assert grade_by_room(peak) is None
