"""One tensor without which the peak is much lower."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.testing import open_rows
from support.memory_rules import assert_finds
from support.rules import answers, assert_silent
from support.snapshots import alloc, frames, free, opened, snapshot

MIB = 1 << 20
MAKE, HEAD = frames("m.py:1:__init__"), frames("h.py:2:forward")


def spike(size: int) -> dict:
    events = [alloc(1, 800, 1, MAKE)]
    for t in (2, 4):  # in every step
        events += [alloc(5000, size, t, HEAD), *free(5000, size, t + 1)]
    return snapshot(events, [])


def test_a_spike_in_every_step(tmp_path: Path) -> None:
    assert_finds(
        opened(tmp_path, spike(200)),
        "peak-set-by-one-tensor",
        cost_bytes=200,
        gain_bytes=200,
        evidence=["forward (h.py:2)", "20.0 %", "1.000 kB, without this tensor 800 B"],
        fix="in chunks",
    )


@pytest.mark.parametrize(("size", "speaks"), [(46 * MIB, False), (7 * 1024 * MIB, True)])
def test_the_buffer_of_a_program_without_tensors(tmp_path: Path, size: int, speaks: bool) -> None:
    """A picture of a C++ program: of 8 GiB it matters to nobody, unless it takes most of them."""
    run = open_rows(
        tmp_path,
        device_ops=[{"start_ns": 0, "end_ns": 100, "name": "render(float *)"}],
        host_ops=[{"start_ns": 0, "end_ns": 1, "layer": "runtime", "name": "cudaMalloc"}],
        devices=[{"device_id": 0, "vendor": "nvidia", "memory_bytes": 8 * 1024 * MIB}],
        memory_events=[
            {"time_ns": 1, "device_id": 0, "action": "alloc", "address": 64, "bytes": size},
            {"time_ns": 90, "device_id": 0, "action": "free", "address": 64, "bytes": size},
        ],
    )
    if not speaks:
        assert_silent(run, "peak-set-by-one-tensor")
        return
    (found,) = [f for f in answers(run, "peak-set-by-one-tensor") if not f.abstained]
    assert found.title == "One block sets the peak"
    assert "tensor" not in " ".join((found.summary, found.fix, *found.evidence))


def test_a_small_spike(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, spike(140)), "peak-set-by-one-tensor")


def test_a_large_parameter_is_always_there(tmp_path: Path) -> None:
    run = opened(tmp_path, snapshot([alloc(1, 800, 1, MAKE), alloc(2, 90, 2, MAKE)], []))
    assert_silent(run, "peak-set-by-one-tensor")
