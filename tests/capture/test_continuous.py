"""A window now and then: at random moments, of each job in turn, and nothing of it stays."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from sightline.capture.continuous import Continuous, list_moments
from sightline.capture.triggers import Window
from sightline.history.profiles import read_windows
from support.many_ranks import Program
from support.nodes import run_node, write_plain


def test_one_window_in_each_period() -> None:
    """At a random phase: no two moments are a period apart, and none is left out."""
    waits = list(islice(list_moments(600.0, random.Random(1)), 200))
    moments = [sum(waits[: n + 1]) for n in range(len(waits))]
    assert [int(at // 600) for at in moments] == list(range(200))
    phases = sorted(at % 600 for at in moments)
    assert all(abs(phase - 3 * n) < 60 for n, phase in enumerate(phases))  # 3 s apart, if even


@pytest.mark.timing
@pytest.mark.usefixtures("quick")
def test_jobs_have_their_turns(tmp_path: Path) -> None:
    traces = write_plain(Program(1, steps=4), tmp_path / "job")
    history = tmp_path / "h"
    said: list[str] = []
    with run_node(tmp_path / "n") as node:
        windows = Continuous(node.node, history, 600.0, Window(0.1), said.append)
        assert not windows.take()  # nobody listens
        for job in ("a", "b"):
            node.start(rank=0, trace=traces[0], env={"SLURM_JOB_ID": job})
        node.wait_for(2)
        for _ in range(2):
            assert windows.take()
            running = node.node.running
            assert running is not None
            assert running.done.wait(60)
        assert node.shelf.list_folders() == []
        assert node.left == []
        assert (node.said, said) == ([], [])
    assert read_windows(history).get_column("job").to_list() == ["a", "b"]
