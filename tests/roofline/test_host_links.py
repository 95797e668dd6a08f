"""What copies between a GPU and its host reach at most: by generation and lanes."""

from __future__ import annotations

import pytest

from sightline.roofline.links import find_host_link


@pytest.mark.parametrize(
    ("name", "capability", "gb_per_s"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", 13.2),
        ("NVIDIA A100-SXM4-80GB", "8.0", 26.8),
        ("NVIDIA GeForce RTX 3050 Laptop GPU", "8.6", 13.4),
        ("NVIDIA GeForce RTX 4060", "8.9", 13.4),
        ("NVIDIA GeForce RTX 4070", "8.9", 26.8),
        ("NVIDIA A2", "8.6", 13.4),
        ("NVIDIA H100 PCIe", "9.0", 57.3),
    ],
)
def test_sixteen_lanes_or_eight(name: str, capability: str, gb_per_s: float) -> None:
    rate = find_host_link({"name": name, "compute_capability": capability, "memory_bytes": None})
    assert rate == pytest.approx(gb_per_s * 1e9)


def test_memory_that_both_share_has_no_such_link() -> None:
    assert find_host_link({"name": "NVIDIA GH200 120GB", "compute_capability": "9.0"}) is None
