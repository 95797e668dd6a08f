"""Fifty clients of two nodes, as small as programs can be: recorded, reduced, and told apart."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.capture.controller import NONE, Wanted, capture, look_around
from support.campaigns import CAMPAIGNS
from support.many_ranks import HOST, Cause, Program
from support.nodes import OwnNode, run_node, write_plain
from support.places import ROOT

pytestmark = [
    pytest.mark.timing,
    pytest.mark.usefixtures("quick"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the clients are compiled"),
]
RANKS, LATE = (50, 17) if CAMPAIGNS else (12, 5)
CLIENT = ROOT / "benchmarks" / "fleet_client" / "client.c"


@contextmanager
def run_clients(folder: Path, nodes: list[OwnNode], traces: list[str]) -> Iterator[None]:
    """A client for each trace, half of them at each node."""
    program = folder / "client"
    subprocess.run(["cc", "-O1", "-o", str(program), str(CLIENT)], check=True)
    running = []
    for rank, trace in enumerate(traces):
        node = nodes[rank * len(nodes) // len(traces)]
        out = node.folder / "traces"
        out.mkdir(exist_ok=True)
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "PERIOD_MS": "50",
               "KINETO_ONDEMAND_TRACE_DIR": str(out)}  # fmt: skip
        words = [str(program), str(node.sockets), trace]
        running.append(subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL))
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_each_of_many_clients_is_told_once(tmp_path: Path) -> None:
    causes = (Cause(HOST, LATE, 400_000),)
    traces = write_plain(Program(RANKS, steps=4, causes=causes), tmp_path / "job")
    out = tmp_path / "out"
    out.mkdir()
    with (
        run_node(tmp_path / "a", name="a") as one,
        run_node(tmp_path / "b", name="b") as two,
        run_clients(tmp_path, [one, two], traces),
    ):
        one.wait_for(RANKS // 2)
        two.wait_for(RANKS // 2)
        wanted = Wanted(seconds=0.1, warm_up_s=0.0, traces=NONE)
        outcome = capture(look_around([one.ask(), two.ask()]), wanted, out, one.said.append)
        assert (one.left, two.left) == ([], [])
    assert outcome.problems == []
    assert [node.state["told"] for node in outcome.nodes] == [RANKS // 2] * 2
    assert outcome.answer is not None
    assert len(outcome.answer.job.ranks) == RANKS
    worst = outcome.answer.verdict.stragglers.row(0, named=True)
    assert (worst["ranks"], worst["cause"]) == ([LATE], "host late")
    sent = sum(path.stat().st_size for path in out.glob("*.ranks"))
    assert sent < 4096 * RANKS  # kilobytes a rank, whatever its trace has
