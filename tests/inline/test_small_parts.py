"""Ranks from launchers' environments, clocks of two hosts, timing with its uncertainty."""

from __future__ import annotations

import math
import os
import statistics
import threading
import time

import polars as pl
import pytest

import sightline as sl
from sightline.collect import plan, record
from sightline.collect.record import several_hosts
from sightline.inline import clock, session, timing
from sightline.inline.hook import is_launcher
from sightline.inline.rank import chosen, identity
from sightline.inline.recorder import Recorder, now
from sightline.model import run_folder, store
from sightline.model.declare import ImportOptions
from sightline.model.source import Source
from sightline.opening.imports import import_one


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, None, None, None)),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x"},
         (3, 1, 8, "torchrun")),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "CROSS_SIZE": "2"},
         (3, 1, 8, "DeepSpeed")),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
          "OMPI_COMM_WORLD_SIZE": "16"}, (5, 1, 16, "Open MPI")),
        ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0"}, (2, 0, 4, "MPICH")),
        ({"SLURM_PROCID": "7", "SLURM_LOCALID": "3", "SLURM_NTASKS": "8",
          "SLURM_STEP_NUM_TASKS": "8"}, (7, 3, 8, "Slurm")),
        # A batch script is no task.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (None, None, None, None)),
        # srun starts torchrun, which starts the ranks.
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "9", "WORLD_SIZE": "16",
          "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"}, (9, 1, 16, "torchrun")),
        ({"RANK": "-1"}, (None, None, None, None)),
        ({"RANK": "many"}, (None, None, None, None)),
    ],
)  # fmt: skip
def test_the_rank_that_a_launcher_gives(variables, expected):
    assert tuple(identity(variables)) == expected


@pytest.mark.parametrize(
    ("rank", "ranks", "every", "expected"),
    [
        (None, (3,), 8, True),
        (0, (), 1, True),
        (7, (0, 7), 1, True),
        (6, (0, 7), 1, False),
        (8, (), 8, True),
        (9, (), 8, False),
        (8, (9,), 8, False),
    ],
)
def test_which_ranks_are_recorded(rank, ranks, every, expected):
    assert chosen(rank, ranks, every) is expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py"], False),
        (["python", "/x/bin/torchrun", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-X", "dev", "-u", "-m", "accelerate.commands.launch"], True),
        (["python", "-c", "import torch", "torchrun"], False),
        (["python", "train.py", "torchrun"], False),
    ],
)
def test_a_launcher_is_told_from_a_rank(command, expected):
    assert is_launcher(command) is expected


@pytest.mark.parametrize(
    ("command", "variables", "expected"),
    [
        (["torchrun", "--nproc-per-node", "2", "t.py"], {}, False),
        (["torchrun", "--nnodes=2", "t.py"], {}, True),
        (["torchrun", "--nnodes", "1", "t.py"], {}, False),
        (["mpirun", "--hostfile", "hosts", "t"], {}, True),
        (["python", "t.py"], {"SLURM_NNODES": "4"}, True),
        (["python", "t.py"], {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, True),
        (["python", "t.py"], {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, False),
    ],
)
def test_whether_a_job_has_several_hosts(command, variables, expected):
    assert several_hosts(command, variables) is expected


@pytest.mark.parametrize("wrong_by", [0, 5_000_000, -3_600_000_000_000])
def test_the_offset_of_a_wrong_clock_is_found_within_its_bound(wrong_by):
    server = clock.Server(b"t" * clock.TOKEN_BYTES, "127.0.0.1")
    try:
        offset, bound = clock.measure(
            "127.0.0.1", server.port, server.token, lambda: time.time_ns() + wrong_by
        )
    finally:
        server.close()
    assert abs(offset + wrong_by) <= bound
    assert bound < 50_000_000


def test_who_does_not_know_the_token_gets_no_answer():
    server = clock.Server(b"t" * clock.TOKEN_BYTES, "127.0.0.1")
    try:
        with pytest.raises(OSError, match=r"closed|reset"):
            clock.measure("127.0.0.1", server.port, b"x" * clock.TOKEN_BYTES)
    finally:
        server.close()


def test_two_hosts_come_to_one_clock(tmp_path):
    """A host that is 5 s ahead is moved back, and how sure that is stands in the run."""
    folder = tmp_path / "job.sightline"
    folder.mkdir()
    starts = {}
    for rank, mark in ((0, "aaaaaaaa"), (1, "bbbbbbbb")):
        file = Recorder(folder / f"rank{rank}-{mark}-{rank + 100}.events")
        file.fact(rank=rank, host_mark=mark)
        if rank == 1:
            file.fact(
                clock_reference="aaaaaaaa", clock_offset_ns=-5 * 10**9, clock_uncertainty_ns=800
            )
        at = now()
        starts[rank] = at
        file.put(2, file.name("collective"), at, at + 1000)  # RANGE
        file.close()
    run_folder.write_facts(folder, "aaaaaaaa-1", {"host_mark": "aaaaaaaa", "command": ["x"]})
    run = sl.open(str(folder))
    host = run.table("host_ops").sort("rank")
    wall = dict(host.select("rank", "start_ns").rows())
    apart = (wall[1] - starts[1]) - (wall[0] - starts[0])
    assert abs(apart + 5 * 10**9) < 1_000_000  # both files pair the clocks anew
    recordings = run.table("recordings").sort("rank")
    uncertain = recordings.get_column("clock_uncertainty_ns").to_list()
    assert uncertain[1] >= 800
    texts = run.table("quality").filter(pl.col("kind") == "clock_aligned").get_column("text")
    assert "moved by -5.000 s (± 800 ns)" in texts.item()
    # Kept when it becomes a store, where ranks stay what they are.
    sl.save(run, str(tmp_path / "store.sightline"))
    again = sl.open(str(tmp_path / "store.sightline"))
    assert (
        again.table("host_ops")
        .sort("rank")
        .select("rank", "start_ns")
        .equals(host.select("rank", "start_ns"))
    )


def test_each_gpus_samples_go_to_its_rank(tmp_path):
    folder = tmp_path / "job.sightline"
    folder.mkdir()
    for rank in (4, 5):
        file = Recorder(folder / f"rank{rank}-aaaaaaaa-{rank}.events")
        file.fact(rank=rank, local_rank=rank - 4)
        file.close()
    for device in (0, 1, 2):
        file = Recorder(folder / f"host-aaaaaaaa.1.nvml-{device}.events")
        file.sample("power [W]", now(), 100.0 + device, device)
        file.close()
    counters = sl.open(str(folder)).table("counters").sort("device_id")
    # GPU 2 has no rank of its own: it goes to the host's first.
    assert counters.select("device_id", "rank").rows() == [(0, 4), (1, 5), (2, 4)]


def test_a_second_host_of_the_job_asks_the_first(tmp_path, monkeypatch):
    """The two halves of the comparison: the first `sightline run` serves, all others ask it."""
    monkeypatch.setenv("SLURM_NNODES", "2")
    monkeypatch.setattr("socket.gethostname", lambda: "127.0.0.1")
    made = [
        record.Recording(plan.Plan(["x"]), tmp_path, mark=mark) for mark in ("aaaaaaaa", "bbbbbbbb")
    ]
    server, address = record._clock(made[0])
    assert server is not None
    try:
        assert record._clock(made[1]) == (None, address)
        told = made[1].facts["clock"]
        assert abs(told["clock_offset_ns"]) <= told["clock_uncertainty_ns"]
        # And a rank on a host where no `sightline run` is.
        folder = tmp_path / "r.sightline"
        folder.mkdir()
        session.start({"folder": str(folder), "clock": address})
        sl.mark("here")
        for thread in threading.enumerate():
            if thread.name == "sightline-clock":
                thread.join(10)
        session.end()
        facts = store.read_facts(import_one(Source(next(folder.iterdir()), "x"), ImportOptions()))
        own = facts[0]["own"]
        assert own["clock_reference"] == "aaaaaaaa"
        assert abs(own["clock_offset_ns"]) <= own["clock_uncertainty_ns"]
    finally:
        server.close()


def test_a_timed_function_says_how_sure_its_mean_is():
    calls = []

    @sl.profile(warmup=2, iterations=5)
    def work(a: int) -> int:
        calls.append(a)
        return a * 2

    result = work(21)
    assert len(calls) == 7
    assert (result.result, result.name, result.clock) == (42, "work", "host")
    assert len(result.durations_ns) == 5
    low, high = result.ci95_ns
    assert low <= result.mean_ns <= high


def test_the_confidence_interval_against_the_textbook():
    """NIST e-Handbook 7.1.4's formula, with t(0.975, 9) = 2.262."""
    data = tuple(range(100, 200, 10))
    made = timing.Timing("x", data, "host")
    half = 2.262 * statistics.stdev(data) / math.sqrt(10)
    assert made.ci95_ns == pytest.approx((145 - half, 145 + half))
    assert timing.Timing("x", (5,), "host").ci95_ns == (-math.inf, math.inf)


@pytest.mark.parametrize("text", ["1:2", "a:b:c", "1:1:0", "-1:0:1", ""])
def test_a_schedule_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="is no schedule"):
        timing.steps_of(text)
    assert timing.steps_of("2:1:5") == [2, 1, 5]
    assert os.environ.get("SIGHTLINE_RUN") is None
