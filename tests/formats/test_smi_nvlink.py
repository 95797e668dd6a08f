"""`nvidia-smi nvlink`: speeds, errors and throughput of links, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import InputError
from sightline.session import Session

STATUS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-1111-1111-1111-111111111111)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
"""
ERRORS = """GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-0)
         Link 0: Replay Errors: 0
         Link 0: Recovery Errors: 0
         Link 0: CRC Errors: 0

         Link 3: Replay Errors: 2353
         Link 3: Recovery Errors: 1
         Link 3: CRC Errors: 0
"""
MOVED = """GPU 0: NVIDIA A100 (UUID: GPU-0)
         Link 0: Data Tx: 100 KiB
         Link 0: Data Rx: 200 KiB
GPU 0: NVIDIA A100 (UUID: GPU-0)
         Link 0: Data Tx: 300 KiB
         Link 0: Data Rx: 600 KiB
"""


def open_text(folder: Path, text: str) -> Session:
    path = folder / "links.txt"
    path.write_text(text)
    return sightline.open(str(path))


def list_values(run: Session) -> list[tuple[str, int, str, int, float]]:
    columns = ("metric", "device_id", "source", "time_ns", "value")
    return sorted(run.table("counters").select(columns).rows())


def list_notes(run: Session) -> dict[str, str]:
    return dict(run.table("quality").select("kind", "text").rows())


def test_states(tmp_path: Path) -> None:
    run = open_text(tmp_path, STATUS)
    assert list_values(run) == [
        ("NVLink active", 0, "link 0", 0, 1),
        ("NVLink active", 0, "link 1", 0, 1),
        ("NVLink active", 1, "link 0", 0, 1),
        ("NVLink active", 1, "link 1", 0, 0),
        ("NVLink speed", 0, "link 0", 0, 26.562e9),
        ("NVLink speed", 0, "link 1", 0, 26.562e9),
        ("NVLink speed", 1, "link 0", 0, 26.562e9),
    ]
    assert "GPU 1: 1 of 2" in list_notes(run)["links_inactive"]


def test_links_that_no_gpu_of_the_kind_has_are_no_fault(tmp_path: Path) -> None:
    run = open_text(tmp_path, STATUS.replace("26.562 GB/s\nGPU 1", "<inactive>\nGPU 1"))
    assert "links_inactive" not in list_notes(run)


def test_errors(tmp_path: Path) -> None:
    run = open_text(tmp_path, ERRORS)
    assert ("NVLink replay Errors", 0, "link 3", 0, 2353) in list_values(run)
    note = list_notes(run)["link_errors"]
    assert "GPU 0, link 3: 2,353 replay errors, 1 recovery errors" in note


def test_no_errors_and_what_is_corrected_are_no_remark(tmp_path: Path) -> None:
    fine = ERRORS.replace("2353", "0").replace("Errors: 1", "Errors: 0")
    run = open_text(tmp_path, f"{fine}         Link 3: Raw Errors: 12\n")
    assert "link_errors" not in list_notes(run)


def test_throughput_twice(tmp_path: Path) -> None:
    assert list_values(open_text(tmp_path, MOVED)) == [
        ("NVLink data received", 0, "link 0", 0, 200 * 1024),
        ("NVLink data received", 0, "link 0", 10**9, 600 * 1024),
        ("NVLink data sent", 0, "link 0", 0, 100 * 1024),
        ("NVLink data sent", 0, "link 0", 10**9, 300 * 1024),
    ]


def test_status_and_errors_in_one_file_are_one_reading(tmp_path: Path) -> None:
    run = open_text(tmp_path, ERRORS.replace("Tesla V100-SXM2-32GB", "NVIDIA H100") + STATUS)
    assert {row[3] for row in list_values(run)} == {0}


def test_a_list_of_gpus_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        open_text(tmp_path, "GPU 0: NVIDIA A30 (UUID: GPU-0)\nGPU 1: NVIDIA A30 (UUID: GPU-1)\n")
