"""PyTorch's flight recorder: both forms, old versions, damage, and dumps of a real program."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from support.flight import EPOCH, dump, entry, opened_dumps


@pytest.mark.parametrize("as_json", [False, True], ids=["pickle", "json"])
def test_records_and_groups(tmp_path: Path, as_json: bool) -> None:
    run = opened_dumps(tmp_path, [entry(7)], [entry(7, done=True)], as_json=as_json)
    rows = run.table("flight_records").drop("flight_record_id", "recording_id").to_dicts()
    common = {
        "record": 7,
        "group": "0",
        "group_description": "default_pg",
        "group_ranks": [0, 1],
        "op": "nccl:all_reduce",
        "sequence": 7,
        "is_p2p": False,
        "created_ns": EPOCH + 7,
        "input_sizes": "[[4]]",
        "output_sizes": "[[4]]",
        "dtype": '["Float"]',
        "timeout_ms": 600_000,
        "place": "train.py(13): step",
    }
    assert rows == [
        {"rank": 0, **common, "state": "scheduled", "retired": False},
        {"rank": 1, **common, "state": "completed", "retired": True},
    ]
    assert run.table("flight_groups")["group_ranks"].to_list() == [[0, 1], [0, 1]]
    assert run.table("recordings")["world_size"].to_list() == [2, 2]


def test_first_versions(tmp_path: Path) -> None:
    """Before 1.5 µs instead of ns, before 2.0 one sequence number and the group's number."""
    old = {
        "pg_id": 3,
        "seq_id": 5,
        "profiling_name": "nccl:all_reduce",
        "time_created_us": 1_700_000_000_000_000,
        "state": "started",
        "frames": [],
    }
    path = tmp_path / "nccl_trace_rank_4"
    path.write_bytes(pickle.dumps({"version": "1.0", "entries": [old], "pg_config": {}}, 2))
    row = sightline.open(str(path)).table("flight_records").row(0, named=True)
    shown = ("rank", "group", "sequence", "created_ns", "place", "retired")
    assert [row[c] for c in shown] == [4, "3", 5, 1_700_000_000_000_000_000, None, None]


def test_a_folder_of_dumps_named_by_pytorch(tmp_path: Path) -> None:
    """Their names have no ending; a Makefile beside them is not a recording."""
    for rank in range(12):
        trace = {"version": "2.9", "pg_config": {}, "entries": [entry(7)]}
        (tmp_path / f"_dump_{rank}").write_bytes(pickle.dumps(trace, 2))
    (tmp_path / "Makefile").write_text("all:\n\techo\n")
    recordings = sightline.open(str(tmp_path)).table("recordings")
    assert recordings.get_column("rank").to_list() == list(range(12))
    assert recordings.get_column("rank_source").unique().to_list() == ["file name"]


def test_only_the_default_group_says_how_many_ranks_there_are(tmp_path: Path) -> None:
    """A rank's tensor parallel group ends with rank 7 of 16."""
    part = {"name": "3", "desc": "tp", "ranks": str(list(range(8)))}
    for known, expected in (({"3": part}, None), ({"0": {**part, "name": "0"}}, 8)):
        (tmp_path / "dump_0").write_text(json.dumps({**dump([], ranks=[0]), "pg_config": known}))
        run = sightline.open(str(tmp_path / "dump_0"))
        assert run.table("recordings")["world_size"].to_list() == [expected]


def test_nothing_of_a_pickle_is_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "made"),)

    document = {**dump([entry(1)], ranks=[0]), "more": Evil()}
    (tmp_path / "dump_0").write_bytes(pickle.dumps(document, 2))
    with pytest.raises(DamagedError, match="nothing of it was run"):
        sightline.open(str(tmp_path / "dump_0"))
    assert not (tmp_path / "made").exists()


def test_a_cut_pickle_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = pickle.dumps(dump([entry(k) for k in range(50)], ranks=[0, 1]), 2)
    (tmp_path / "dump_0").write_bytes(whole[: len(whole) // 2])
    run = sightline.open(str(tmp_path / "dump_0"))
    assert 10 < run.rows("flight_records") < 40
    assert "truncated" in run.table("quality")["kind"].to_list()


@pytest.mark.parametrize("entries", [[1, "x", None], [{}], [{"profiling_name": 5}]])
def test_what_is_no_record_is_counted(tmp_path: Path, entries: list[object]) -> None:
    (tmp_path / "dump_0").write_text(json.dumps({**dump([], ranks=[0, 1]), "entries": entries}))
    run = sightline.open(str(tmp_path / "dump_0"))
    assert run.table("quality").select("kind", "count").rows() == [
        ("damaged_entries", len(entries))
    ]


PROGRAM = """
import os, pickle, sys, threading, time
os.environ["TORCH_FR_BUFFER_SIZE"] = os.environ["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "2000"
import torch
import torch.distributed as dist
import torch._C._distributed_c10d as c10d

folder, rank, problem = sys.argv[1], int(sys.argv[2]), sys.argv[3]
store = dist.FileStore(folder + "/store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
data = torch.ones(4)

def work():
    dist.all_reduce(data)
    if problem == "hang" and rank == 1:
        return  # it goes another way
    if problem == "mismatch" and rank == 1:
        dist.all_reduce(data)  # the odd one
    else:
        dist.broadcast(data, 0)  # the usual one

threading.Thread(target=work, daemon=True).start()
# Both dump when both have asked for all that they ever will.
wanted = 1 if problem == "hang" and rank == 1 else 2
while True:
    dumped = c10d._dump_fr_trace(True, True, False)
    if len(pickle.loads(dumped)["entries"]) == wanted:
        break
    time.sleep(0.05)
open(f"{folder}/dump_{rank}", "wb").write(dumped)
store.set(f"done{rank}", "1")
store.wait(["done0", "done1"])
os._exit(0)
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("problem", ["hang", "mismatch"])
def test_two_processes_with_gloo(tmp_path: Path, problem: str) -> None:
    """A real program that hangs, or whose ranks differ: the right rank, at the right line."""
    program = tmp_path / "prog.py"
    program.write_text(PROGRAM)
    lines = {
        text: number
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        for text in ("the odd one", "the usual one")
        if text in line
    }
    started = [
        subprocess.Popen([sys.executable, str(program), str(tmp_path), str(rank), problem])
        for rank in (0, 1)
    ]
    assert [p.wait(300) for p in started] == [0, 0]
    found = sightline.open(str(tmp_path / "dump_0"), str(tmp_path / "dump_1")).findings()
    if problem == "hang":
        assert [f.rule for f in found] == ["collective-hang"]
        assert found[0].where["ranks"] == [1]
        assert found[0].where["source"] == f"{program}({lines['the usual one']}): work"
    else:
        assert [f.rule for f in found] == ["collective-mismatch"]
        assert found[0].where["ranks"] == [1]
        assert f'called gloo:broadcast of [[4]] ["Float"] at {program}' in found[0].summary
        assert f"({lines['the odd one']}): work" in found[0].summary
        assert f"({lines['the usual one']}): work" in found[0].summary
