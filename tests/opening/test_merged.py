"""Whose a recording is: merged ranks, several captures in one folder, processes of no rank."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.source import Source
from sightline.errors import InputError
from sightline.opening.merged import is_merged

START_US = 1_778_660_000_123_456


def make_events(at: float, *, device: int = 0, pid: int = 1000) -> list[dict[str, Any]]:
    """Ten kernels of 50 µs, each 18 µs behind its launch, and 30 µs apart."""
    events: list[dict[str, Any]] = []
    for n in range(1, 11):
        begin = at + 80 * n
        events += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid,
             "ts": begin, "dur": 10, "args": {"correlation": n}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7, "ts": begin + 18,
             "dur": 50, "args": {"device": device, "stream": 7, "correlation": n}},
        ]  # fmt: skip
    return events


def write(path: Path, events: list[dict[str, Any]], rank: int | None, size: int = 2) -> None:
    content: dict[str, Any] = {"schemaVersion": 1, "traceEvents": events}
    if rank is not None:
        content["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": size}
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("devices", [(0, 0), (0, 1)])
def test_merged_ranks_are_taken_apart(tmp_path: Path, devices: tuple[int, int]) -> None:
    merged = []
    for rank, device in enumerate(devices):
        for event in make_events(START_US + 3000 * rank, device=device):
            label = f"[TP{rank:02d}-DP00-PP00-EP00]"
            merged.append({**event, "pid": f"{label} {event['pid']}"})
    path = tmp_path / "merged-two.trace.json.gz"
    write(path, merged, 0)
    run = sightline.open(str(path))
    rows = run.ask("breakdown").sort("rank").select("rank", "compute_ns", "window_ns").rows()
    assert rows == [(0, 500_000, 770_000), (1, 500_000, 770_000)]
    delays = run.table("device_ops").join(
        run.table("host_ops"), left_on="launch_id", right_on="host_op_id", suffix="_call"
    )
    assert (delays["start_ns"] - delays["start_ns_call"]).unique().to_list() == [18_000]
    assert delays.height == 20


def test_labels_of_one_rank_are_no_merge(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    write(path, [{**e, "pid": f"[TP00] {e['pid']}"} for e in make_events(START_US)], 0)
    assert is_merged(Source(path, str(path)))
    assert sightline.open(str(path)).ask("breakdown").height == 1


def write_twice(folder: Path, apart_us: float) -> None:
    for rank in range(2):
        for capture in range(2):
            at = START_US + capture * apart_us
            write(folder / f"rank{rank}.{capture}.pt.trace.json.gz", make_events(at), rank)


def test_two_captures_of_the_same_ranks_are_not_merged(tmp_path: Path) -> None:
    write_twice(tmp_path, 5e6)
    with pytest.raises(InputError) as error:
        sightline.open(str(tmp_path))
    assert "rank 0 was recorded twice" in (error.value.why or "")
    before, after = (
        " ".join(str(tmp_path / f"rank{rank}.{capture}.pt.trace.json.gz") for rank in range(2))
        for capture in range(2)
    )
    assert f"sightline compare --before {before} --after {after}" in (error.value.hint or "")


def test_a_process_of_no_rank_is_left_out(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json", make_events(START_US), rank)
    call = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "serve",
        "pid": 5,
        "tid": 5,
        "ts": START_US,
        "dur": 9,
    }
    write(tmp_path / "async_llm.json", [call], None)
    run = sightline.open(str(tmp_path))
    assert run.table("recordings").height == 2
    assert "helper_process" in run.table("quality").get_column("kind")
