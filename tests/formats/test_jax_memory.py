"""JAX's device memory profile: bytes as jax.live_arrays() had them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import DamagedError
from support import places

RECORDED = places.RECORDED / "jax.prof"
ARRAYS = [32 * 256 * 4, *[256 * 256 * 4] * 4]  # what the program had


def test_every_byte_by_who_allocated_it() -> None:
    run = sl.open(str(RECORDED))
    assert run.ask("memory_peak").item(0, "allocated_bytes") == sum(ARRAYS)
    places = run.ask("peak_blocks").group_by("place").agg(sum="bytes").explode("sum")
    by_place: dict[str, int] = {}
    for place, size in places.rows():
        by_place[place] = by_place.get(place, 0) + size
    assert by_place == {
        "<listcomp> (train.py:2)": sum(ARRAYS[1:]),
        "<module> (train.py:8)": ARRAYS[0],
    }
    # A CPU's memory is the host's.
    assert run.table("memory_events").get_column("device_id").null_count() == 3


def test_a_gpu(tmp_path: Path) -> None:
    data = gzip.decompress(RECORDED.read_bytes()).replace(b"2\x05cpu:0", b"2\x05gpu:3")
    path = tmp_path / "gpu.prof"
    path.write_bytes(data)
    peak = sl.open(str(path)).ask("memory_peak").row(0, named=True)
    assert (peak["device_id"], peak["memory_kind"]) == (3, "device")


def test_a_cut_profile(tmp_path: Path) -> None:
    path = tmp_path / "cut.prof"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes())[:700])
    with pytest.raises(DamagedError, match=r"not (whole|of a device's memory)"):
        sl.open(str(path))
