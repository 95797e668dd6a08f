"""The table of GPUs: peaks against units × clock × FLOP per clock, and sources for all cells."""

from __future__ import annotations

import re

import pytest

from sightline.roofline.hardware import FLOP_PER_CLOCK, SM_LIMITS, find_gpu, load_table
from sightline.roofline.links import GENERATIONS
from support.places import ROOT

DOCS = ROOT / "docs" / "roofline.md"
WANTED = [
    "A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A30", "A10G", "A40", "L4", "L40", "L40S",
    "H100-SXM5", "H100-PCIe", "H100-NVL", "H200-SXM", "GH200", "B200", "B300", "GB200", "V100-SXM2",
    "T4", "RTX-3070", "RTX-3080", "RTX-3090", "RTX-4070", "RTX-4080", "RTX-4090", "RTX-5080",
    "RTX-5090", "MI210", "MI250X", "MI300X", "MI325X", "MI355X", "Max-1550",
]  # fmt: skip
# Printed with two digits, or for clocks that no source states.
LOOSE = 0.02


def test_all_wanted_gpus_are_there():
    assert set(WANTED) <= {g.name for g in load_table()}


@pytest.mark.parametrize("gpu", load_table(), ids=lambda g: g.name)
def test_peaks_are_units_times_clock_times_flop_per_clock(gpu):
    for precision, printed in gpu.peaks().items():
        cell = gpu.cells[f"peak.{precision}"]
        expected = gpu.expected_peak(precision)
        assert expected is not None, precision
        if abs(printed / expected - 1) > LOOSE:
            # A cell that does not agree is marked, and says why.
            assert cell.verified == "no", precision
            assert cell.note or gpu.cells["tensor_hz"].note, precision


@pytest.mark.parametrize("gpu", load_table(), ids=lambda g: g.name)
def test_every_cell_has_source_and_mark(gpu):
    for field, cell in gpu.cells.items():
        if field not in ("pattern", "vendor"):
            assert cell.verified in ("report", "page", "formula", "no"), field
            assert re.fullmatch(r"[a-z0-9-]+", cell.source), field
            assert f"`{cell.source}`" in DOCS.read_text(encoding="utf-8"), cell.source
        if not re.match(r"pattern|vendor|architecture|compute", field):
            assert float(cell.value) > 0
    assert gpu.text("architecture") in FLOP_PER_CLOCK
    assert gpu.text("vendor") != "nvidia" or gpu.text("compute_capability") in SM_LIMITS


@pytest.mark.parametrize(
    ("device", "gpu"),
    [
        ("NVIDIA A10G", "A10G"), ("NVIDIA A10", "A10"), ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"), ("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"), ("NVIDIA H100 80GB HBM3", "H100-SXM5"),
        ("NVIDIA H100 PCIe", "H100-PCIe"), ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200-SXM"), ("NVIDIA GH200 480GB", "GH200"), ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"), ("Tesla T4", "T4"), ("NVIDIA L4", "L4"), ("NVIDIA L40S", "L40S"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2"), ("NVIDIA GeForce RTX 3070", "RTX-3070"),
        ("AMD Instinct MI300X", "MI300X"), ("Intel(R) Data Center GPU Max 1550", "Max-1550"),
        ("Some GPU", None), (None, None),
    ],
)  # fmt: skip
def test_names_of_devices(device, gpu):
    found = find_gpu(device)
    assert (found.name if found else None) == gpu


def test_the_host_link_of_every_nvidia_gpu_of_the_table_is_known():
    known = {g.text("architecture") for g in load_table() if g.text("vendor") == "nvidia"}
    assert known - set(GENERATIONS) == set()
