"""gap_to_peak: what kernels take beyond their roofs, by kind, on an A100 of 2.039 TB/s."""

from __future__ import annotations

from pathlib import Path

from support.traces import collective, computed, kernel, launched, opened, told

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}


def test_parts_add_up_to_the_compute_kernels(tmp_path: Path) -> None:
    """relu: 100 µs at its roof; one takes 160, and one of 80 (from a cache) makes up for none."""
    relu = told([50_975_000])
    run = opened(
        tmp_path,
        [
            computed("aten::relu", 0, kernel("k", 100, 160), **relu),
            computed("aten::relu", 20, kernel("k", 260, 80), **relu),
            computed("aten::unheard_of", 40, kernel("k", 340, 50), **relu),
            launched(60, kernel("k", 390, 110)),
            collective(500, 100),
        ],
        **A100,
    )
    device = {"rank": 0, "device_id": 0}
    assert run.ask("gap_to_peak").to_dicts() == [
        device
        | {
            "kind": "elementwise",
            "kernels": 2,
            "kernel_ns": 240_000,
            "kernel_pct": 60.0,
            "roof_ns": 180_000,
            "gap_ns": 60_000,
            "gap_pct": 15.0,
        },
        device
        | {
            "kind": "(not modeled)",
            "kernels": 2,
            "kernel_ns": 160_000,
            "kernel_pct": 40.0,
            "roof_ns": None,
            "gap_ns": None,
            "gap_pct": None,
        },
    ]
