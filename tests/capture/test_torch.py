"""Unmodified training loops, of which PyTorch's own profiler records in step."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from sightline.capture.api import Api, Rules
from sightline.capture.client import Address, Client
from sightline.capture.controller import Outcome, Wanted, capture, look_around
from sightline.capture.keeper import Keeper
from sightline.capture.node import Node
from sightline.capture.server import UnixServer
from sightline.capture.shelf import Shelf
from support.asking import place_sockets
from support.campaigns import CAMPAIGNS

pytestmark = pytest.mark.timing
LOOP = """\
import os, sys, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank,
                        world_size=int(os.environ["WORLD_SIZE"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("ready", flush=True)
log = open(sys.argv[1] + ".steps", "w", buffering=1) if rank == 0 else open(os.devnull, "w")
while True:
    log.write(f"{time.time()} {time.process_time()}\\n")
    optimizer.zero_grad(); model(torch.randn(16, 64)).sum().backward(); optimizer.step()
    time.sleep(LATE if rank == 1 else USUAL)
"""
# Eight share two cores: what is planted must be more than their turns take.
RANKS, USUAL_S, LATE_S, ALIGN = (8, 0.020, 0.060, 100) if CAMPAIGNS else (2, 0.002, 0.008, 400)
LOOP = LOOP.replace("LATE", str(LATE_S)).replace("USUAL", str(USUAL_S))
SLOWER = 1.25  # between two hundreds of steps of one program, of which nobody records any: 10 %
WITHIN_NS = 50_000_000  # what was asked for


@contextmanager
def train(sockets: Path, meeting: Path, theirs: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """The loop's ranks; Kineto writes its files into `theirs`, not into a /tmp that all share."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", LOOP, str(meeting)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(sockets),
                 "KINETO_ONDEMAND_TRACE_DIR": str(theirs), "OMP_NUM_THREADS": "1",
                 "RANK": str(rank), "WORLD_SIZE": str(RANKS)},
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def serve(sockets: Path, folder: Path) -> Iterator[Client]:
    keeper = Keeper([str(sockets)])
    node = Node(keeper, Shelf(folder, 1 << 30, 5, least_free=0), lambda text: None)
    server = UnixServer(sockets / "daemon.sock", Api(node, "node", Rules()), for_all=False)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    client = Client(Address("node", sockets / "daemon.sock"))
    try:
        yield client
    finally:
        client.close()
        node.close()
        server.shutdown()
        server.server_close()
        keeper.close()


def record(client: Client, wanted: Wanted, folder: Path) -> Outcome:
    folder.mkdir()
    nodes = look_around([client])
    while len(nodes[0].listeners) < RANKS:
        threading.Event().wait(0.1)
        nodes = look_around([client])
    return capture(nodes, wanted, folder, lambda text: None)


def read_start_ns(trace: Path) -> int:
    """When the profiler began: its own event of that, which lies before all others."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt") as file:
        told = json.load(file)
    (start,) = (e["ts"] for e in told["traceEvents"] if e["name"].startswith("Iteration Start"))
    return int(told.get("baseTimeNanoseconds", 0)) + round(start * 1000)


def measure_steps(log: Path, since_s: float) -> list[float]:
    """Processor time of each step since then, s: `wall processor` a line."""
    lines = [tuple(map(float, line.split())) for line in log.read_text().splitlines()[:-1]]
    kept = [used for at, used in lines if at >= since_s]
    return [after - before for before, after in pairwise(kept)]


@pytest.mark.campaign
def test_two_captures_of_one_loop(tmp_path: Path) -> None:
    """Rank 1 sleeps longer each step; by time, then by steps. Eight ranks in a campaign."""
    pytest.importorskip("torch")
    kept, theirs = tmp_path / "kept", tmp_path / "theirs"
    theirs.mkdir()
    with (
        place_sockets() as sockets,
        serve(sockets, kept) as client,
        train(sockets, tmp_path / "meet", theirs) as running,
    ):
        log = tmp_path / "meet.steps"
        wait_for_steps(log, 0.0)
        before = measure_steps(log, 0.0)
        outcomes = [record(client, Wanted(seconds=max(25 * LATE_S, 0.5)), tmp_path / "a")]
        outcomes.append(record(client, Wanted(steps=20, align=ALIGN), tmp_path / "b"))
        ended = time.time()
        wait_for_steps(log, ended)
        after = measure_steps(log, ended)
        assert [process.poll() for process in running] == [None] * RANKS
        assert list(theirs.iterdir()) == []
    for outcome in outcomes:
        assert outcome.problems == []
        assert outcome.answer is not None
        assert [rank.rank for rank in outcome.answer.job.ranks] == list(range(RANKS))
        assert outcome.answer.job.unmatched == 0
        assert outcome.starts_apart_ns is not None
        # Of two ranks none is the usual one; but one waits for the other.
        waited = outcome.answer.excess.sort("rank").get_column("waited_ns")
        assert waited[1] == waited.min()
        if RANKS > 2:
            worst = outcome.answer.verdict.stragglers.row(0, named=True)
            assert (worst["ranks"], worst["cause"]) == ([1], "host late")
    by_time = outcomes[0].nodes[0].state["id"]
    starts = [
        read_start_ns(path) for path in (kept / by_time / "run.sightline").glob("rank*.json*")
    ]
    assert len(starts) == RANKS
    assert max(starts) - min(starts) < WITHIN_NS
    # A step outside of both captures takes what it took, by the processor's time: other programs
    # may share the machine.
    assert median(after) < SLOWER * median(before)


def wait_for_steps(log: Path, since_s: float) -> None:
    """Until a hundred steps were made since then."""
    while not log.exists() or len(measure_steps(log, since_s)) < 100:
        threading.Event().wait(0.2)
