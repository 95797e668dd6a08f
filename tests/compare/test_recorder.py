"""Sides of which one ran on a slower host: what is said of it, and when nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sightline
from sightline.compare.comparison import compare_samples
from sightline.compare.sample import take_sample
from worlds import kineto
from worlds.recorder import draw_recorder, write_small_operators
from worlds.world import World

SEED = 3


def _compare(folder: Path, paces: tuple[float, float]) -> dict[str, Any]:
    samples = []
    for name, pace in zip(("before", "after"), paces, strict=True):
        world = World(SEED)
        write_small_operators(world, kernel_ns=1_500)
        draw_recorder(SEED, pace).slow(world)
        (folder / name).mkdir()
        (path,) = kineto.write_run(world.play(), folder / name, "new", SEED, python=True)
        samples.append(take_sample(sightline.open(str(path)), name))
    return compare_samples(samples[:1], samples[1:])


def test_a_slower_host_is_said_with_what_was_recorded(tmp_path: Path) -> None:
    data = _compare(tmp_path, (1.0, 1.8))
    (check,) = (c for c in data["checks"] if c["check"] == "recorder")
    assert "and a slower host, took about" in check["text"]
    assert "as recorded, a step took 3.830 ms before and 7.085 ms after" in check["text"]
    step = data["step"]
    assert abs(step["after_ns"] / step["before_ns"] - 1) < 0.05
    assert data["verdict"]["word"] not in ("slower", "faster")


def test_of_hosts_alike_nothing_is_said(tmp_path: Path) -> None:
    data = _compare(tmp_path, (1.3, 1.3))
    assert not [c for c in data["checks"] if c["check"] == "recorder"]
    assert data["step"]["delta_ns"] == 0
