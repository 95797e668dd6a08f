"""A server's front end beside its workers: it is not a rank, and no other job."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.traces import host, write

WORKER = [host("cpu_op", "aten::mm", 1_000, 50), host("cpu_op", "aten::mm", 1_100, 50)]


def write_server(folder: Path, front: str) -> list[str]:
    """One of four workers, and the front end that was recorded with it."""
    told = {"rank": 0, "world_size": 4}
    worker = write(folder, WORKER, "worker.json", distributedInfo=told)
    return [str(worker), str(write(folder, [], front))]


def test_front_end_of_vllm_is_left_out_with_a_note(tmp_path: Path) -> None:
    paths = write_server(tmp_path, "host_123.async_llm.17.pt.trace.json")
    run = sightline.open(*paths)
    assert run.table("recordings").select("rank").rows() == [(0,)]
    (note,) = run.table("quality").filter(kind="helper_process").get_column("text")
    assert "front end" in note
    assert "rank_by_order" not in run.table("quality").get_column("kind")


def test_front_end_alone_is_shown(tmp_path: Path) -> None:
    front = write(tmp_path, WORKER, "host_123.async_llm.17.pt.trace.json")
    assert sightline.open(str(front)).table("recordings").height == 1
