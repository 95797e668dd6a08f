"""GPUs as exports of older versions describe them: their names and multiprocessors are not lost."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import sightline
from synth_nsys import Export

CUDA_GPU = {  # as Nsight Systems 2020.4 and 2021.1 write it
    "deviceId": 0,
    "name": "Tesla V100-PCIE-32GB",
    "globalMemorySize": 32510,
    "globalMemoryBandwidth": 0,
    "coreClockRate": 1_380_000,
    "numMultiprocessors": 80,
    "numThreadsPerWarp": 32,
    "maxWarpsPerMultiprocessor": 64,
    "computeCapabilityMajor": 7,
    "computeCapabilityMinor": 0,
}
NAMED = {"vmId": 1, "deviceId": 0, "name": "NVIDIA GeForce RTX 3080", "isDiscrete": 1}


def describe(folder: Path, **tables: list[dict[str, Any]]) -> dict[str, Any]:
    """The device of one kernel, in a recording with these tables and rows."""
    export = Export("2.9.1")
    export.kernel("add", 1000, 2000, corr=1)
    path = export.write(folder / "report.sqlite")
    db = sqlite3.connect(path)
    for table, rows in tables.items():
        names = list(rows[0])
        db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"CREATE TABLE {table} ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        db.executemany(f"INSERT INTO {table} VALUES ({marks})", [list(r.values()) for r in rows])
    db.commit()
    db.close()
    return sightline.open(path).table("devices").row(0, named=True)


def test_a_row_for_each_process(tmp_path: Path) -> None:
    """Clocks in kHz, memory in MiB, and 0 where there is no figure."""
    rows = [{**CUDA_GPU, "pid": pid} for pid in (7, 8)]
    gpu = describe(tmp_path, TARGET_INFO_CUDA_GPU=rows)
    known = {name: value for name, value in gpu.items() if value is not None}
    assert known == {
        "rank": 0,
        "recording_id": 0,
        "device_id": 0,
        "vendor": "nvidia",
        "name": "Tesla V100-PCIE-32GB",
        "sm_count": 80,
        "max_clock_hz": 1_380_000_000,
        "memory_bytes": 32510 << 20,
        "compute_capability": "7.0",
        "warp_size": 32,
        "max_threads_per_sm": 2048,
    }


def test_memory_in_bytes_and_a_table_of_names(tmp_path: Path) -> None:
    of_3080 = {"name": NAMED["name"], "globalMemorySize": 10_495_524_864}
    more = {"globalMemoryBandwidth": 760_080_000, "numMultiprocessors": 68}
    gpu = describe(
        tmp_path,
        TARGET_INFO_CUDA_GPU=[{**CUDA_GPU, **of_3080, **more}],
        TARGET_INFO_GPU=[NAMED],
    )
    assert (gpu["sm_count"], gpu["memory_bytes"]) == (68, 10_495_524_864)
    assert gpu["memory_bandwidth_bytes_per_s"] == 760_080_000_000


def test_a_name_alone(tmp_path: Path) -> None:
    gpu = describe(tmp_path, TARGET_INFO_GPU=[NAMED])
    assert (gpu["name"], gpu["sm_count"]) == ("NVIDIA GeForce RTX 3080", None)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "gpu", "count"),
    [
        ("lockfuehrer__beast_ressoruces/report1.sqlite", "Tesla V100-PCIE-32GB", 80),
        (
            "PolPuigPuy__OpenACC_Project_PolPuig/report2.sqlite",
            "NVIDIA GeForce RTX 3080",
            68,
        ),
    ],
    ids=["2020", "2021"],
)
def test_real_exports(corpus: Path, name: str, gpu: str, count: int) -> None:
    first = sightline.open(corpus / "nsys" / name).table("devices").row(0, named=True)
    assert (first["name"], first["sm_count"]) == (gpu, count)
