"""`nvidia-smi topo -m`: as people quote it, of GPUs with NVLink, without, and with it in part."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.units import format_note
from sightline.errors import DamagedError
from sightline.formats.device_logs import nvidia_smi_topo
from support.damage import survive_damage

NVLINK = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-13,28-41\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tSYS\t14-27,42\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
)
# Eight V100 as four and four: of HugeCTR's report.
PARTLY = """$ nvidia-smi topo -m
        GPU0    GPU1    GPU2    mlx5_0  CPU Affinity    NUMA Affinity
GPU0     X      NV1     SYS     NODE    0-23,48-71      0
GPU1    NV1      X      NV2     NODE    0-23,48-71      0
GPU2    SYS     NV2      X      PIX     24-47           1
mlx5_0  NODE    NODE    PIX      X
"""
ALONE = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t0\t\tN/A\n"


def read(path: Path, text: str) -> tuple[list[tuple[object, ...]], dict[str, str]]:
    path.write_text(text)
    run = sightline.open(str(path))
    columns = ("metric", "device_id", "source", "value")
    notes = run.table("quality").select("kind", "count", "text").rows()
    told = {kind: format_note(count, text) for kind, count, text in notes}
    return run.table("counters").select(columns).rows(), told


def test_links_and_paths(tmp_path: Path) -> None:
    rows, notes = read(tmp_path / "topo.txt", NVLINK)
    assert rows == [
        ("NVLinks", 0, "to GPU1", 12),
        ("PCIe path", 0, "to NIC0 (PXB)", 2),
        ("CPUs near", 0, None, 28),
        ("NUMA node", 0, None, 0),
        ("PCIe path", 1, "to NIC0 (SYS)", 5),
        ("CPUs near", 1, None, 15),
        ("NUMA node", 1, None, 1),
    ]
    assert not {"uneven_links", "no_nvlink"} & set(notes)


def test_pairs_without_nvlink_are_told(tmp_path: Path) -> None:
    rows, notes = read(tmp_path / "topo.txt", PARTLY)
    assert ("PCIe path", 0, "to GPU2 (SYS)", 5) in rows and ("NVLinks", 1, "to GPU2", 2) in rows
    assert notes["uneven_links"].startswith(
        "1 of 3 pairs of GPUs has no NVLink (GPU 0 and GPU 2 by SYS)"
    )
    _, notes = read(tmp_path / "pcie.txt", NVLINK.replace("NV12", "PHB"))
    assert notes["no_nvlink"].startswith("1 of 1 pair of GPUs has no NVLink")


def test_a_gpu_alone(tmp_path: Path) -> None:
    rows, notes = read(tmp_path / "one.txt", ALONE)
    assert rows == [("CPUs near", 0, None, 8), ("NUMA node", 0, None, 0)]
    assert "no_nvlink" not in notes


@pytest.mark.parametrize("text", [NVLINK, PARTLY, ALONE])
def test_damage(tmp_path: Path, text: str) -> None:
    survive_damage(nvidia_smi_topo.read, tmp_path / "damaged.txt", text)


def test_a_heading_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no row of a GPU"):
        read(tmp_path / "empty.txt", NVLINK.splitlines()[0] + "\n")
