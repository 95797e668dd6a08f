"""Jobs of several hosts."""

from __future__ import annotations

import threading

import pytest

import sightline as sl
from sightline.core.model import store
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.opening.imports import import_one
from sightline.record.collect import plan, record
from sightline.record.collect.hosts import is_on_several_hosts
from sightline.record.inline import session
from sightline.record.inline.recorder import Recorder, now


@pytest.mark.parametrize(
    ("command", "variables", "expected"),
    [
        (["torchrun", "--nproc-per-node", "2", "t.py"], {}, False),
        (["torchrun", "--nnodes=2", "t.py"], {}, True),
        (["torchrun", "--nnodes", "1", "t.py"], {}, False),
        (["mpirun", "--hostfile", "hosts", "t"], {}, True),
        (["mpirun", "-np", "2", "-H", "a,b", "t"], {}, True),
        (["mpirun", "-H", "localhost:4", "t"], {}, False),
        (["nice", "python", "-m", "torch.distributed.run", "--nnodes", "2", "t.py"], {}, True),
        (["srun", "-N2", "--nodes=2", "t"], {}, True),
        (["mpirun", "--map-by", "sh", "--host", "a,b", "t"], {}, True),
        # What a program calls its own is none of a launcher's.
        (["server.py", "--host", "127.0.0.1"], {}, False),
        (["python", "server.py", "--host", "0.0.0.0"], {}, False),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--host", "::"], {}, False),
        (["vllm", "serve", "model", "--host", "0.0.0.0"], {}, False),
        (["curl", "-H", "Accept: */*", "http://x"], {}, False),
        (["train.py", "--nnodes", "2"], {}, False),
        (["mpirun", "-np", "2", "python", "server.py", "--host", "a"], {}, False),
        (["mpirun", "-np", "2", "--oversubscribe", "/bin/sh", "x", "--host", "a"], {}, False),
        (["torchrun", "--standalone", "server.py", "--nnodes", "2"], {}, False),
        (["python", "t.py"], {"SLURM_NNODES": "4"}, True),
        (["python", "t.py"], {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, True),
        (["python", "t.py"], {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, False),
    ],
)
def test_whether_a_job_has_several_hosts(command, variables, expected):
    assert is_on_several_hosts(command, variables) is expected


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
