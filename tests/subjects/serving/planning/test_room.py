"""What a cause costs, by a replay without it, against the simulator's own run without it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import sightline
from sightline.subjects.serving.planning.room import measure_elsewhere, measure_room
from synth_serving.kineto import write_client, write_trace
from synth_serving.server import Served, Settings, serve


def open_served(served: Served, folder: Path) -> sightline.Session:
    return sightline.open(str(write_trace(served, folder)), str(write_client(served, folder)))


@pytest.mark.parametrize("seed", range(3))
def test_prompts_on_other_servers(seed: int, tmp_path: Path) -> None:
    """Long prompts beside requests that decode all the time; elsewhere, no token of them costs."""
    dice = random.Random(seed)
    slow = Settings(token_ns=dice.randint(15, 40))
    asked = [(0, 16, dice.randint(300, 320)) for _ in range(16)]
    asked += [(4_000_000 * n, dice.randint(1_000, 3_000), 20) for n in range(1, 12)]
    served = serve(slow, asked)
    saved = sum(step.without_prompts_ns for step in served.steps)
    assert measure_elsewhere(open_served(served, tmp_path)) == pytest.approx(saved, rel=0.1)


def test_room_for_more_requests(tmp_path: Path) -> None:
    slow = Settings(most_requests=4)
    asked = [(0, 32, 60) for _ in range(24)]
    gain = serve(slow, asked).length_ns - serve(replace(slow, most_requests=64), asked).length_ns
    run = open_served(serve(slow, asked), tmp_path)
    assert measure_room(run) == pytest.approx(gain, rel=0.02)


def test_without_a_client_nothing_is_known(tmp_path: Path) -> None:
    run = sightline.open(str(write_trace(serve(Settings(), [(0, 32, 60)] * 4), tmp_path)))
    assert measure_room(run) is None
    assert measure_elsewhere(run) is None
