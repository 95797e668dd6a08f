"""How much of a GPU a launch fills, where a recording says what cannot be."""

from __future__ import annotations

from sightline.subjects.kernels.launch_fill import measure_fill

LAUNCH = {
    "grid_x": 40, "grid_y": 1, "grid_z": 1, "block_x": 64, "block_y": 1, "block_z": 1,
    "registers_per_thread": None, "shared_bytes": None, "static_shared_bytes": None,
    "dynamic_shared_bytes": None,
}  # fmt: skip


def test_a_warp_of_no_threads_is_a_usual_one() -> None:
    device = {"sm_count": 80, "vendor": "nvidia", "compute_capability": "8.0"}
    damaged = measure_fill(LAUNCH, {**device, "warp_size": 0})
    assert damaged == measure_fill(LAUNCH, {**device, "warp_size": 32})
    assert damaged is not None and damaged.lanes == 1.0
