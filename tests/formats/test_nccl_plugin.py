"""Lines of a profiler plug-in of NCCL: collectives by their kernels, or by their channels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError


def event(kind: str, start: float, stop: float, **told) -> dict:
    edges = {"start": {"ts": start, "pid": 5, "tid": 6}, "stop": {"ts": stop}}
    return {"type": kind, "commId": 77, "rank": 1, "ctx": "0xc", **edges, **told}


TRACE = (
    "nccl_profiler/pha-Z__nccl/uni_report_latex/en/images/ncclgroup 03_communicators_01_allreduce/"
    "trace - 2762285 collectives all reduces single node - Copy.jsonl"
)
INIT = event("ProfilerLifecycle", 0, 0, details={"nranks": 4})
CALL = event("ncclProfileCollApi", 100, 110, details={"func": "AllReduce"})
COLL = {"func": "AllReduce", "seq": 3, "count": 1000, "dtype": "ncclFloat32"}
COLL = event("ncclProfileColl", 120, 125, eventAddr="0xa", details=COLL)
LAUNCH = event("ncclProfileKernelLaunch", 112, 118, extCorrId=9)
CHANNELS = [
    event("ncclProfileKernelCh", 200 + n, 300 + n, parentObj="0xa", details={"channel": n})
    for n in (0, 1)
]
KERNEL = event("KERNEL", 150.25, 290.5, extCorrId=9, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def opened(folder: Path, *lines: object):
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "plugin.jsonl").write_text(text + "\n")
    return sightline.open(str(folder / "plugin.jsonl"))


@pytest.mark.parametrize(
    ("kernel", "times", "notes"),
    [(True, (150_250, 290_500), set()), (False, (200_000, 301_000), {"no_kernel_times"})],
)
def test_a_collective_is_its_kernel_or_its_channels(
    tmp_path: Path, kernel: bool, times: tuple[int, int], notes: set[str]
) -> None:
    lines = [INIT, CALL, LAUNCH, COLL, *CHANNELS, *([KERNEL] if kernel else [])]
    run = opened(tmp_path, *lines)
    assert run.table("device_ops").select("start_ns", "end_ns").rows() == [times]
    told = run.table("collectives").select("op", "group", "group_size", "sequence", "bytes_in")
    assert told.rows() == [("AllReduce", "77", 4, 3, 4000)]
    assert run.table("recordings").select("rank", "world_size").row(0) == (1, 4)
    assert run.table("host_ops").select("name", "start_ns", "end_ns").rows() == [
        ("ncclAllReduce", 100_000, 110_000)
    ]
    assert set(run.table("quality").get_column("kind")) == notes


def test_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    run = opened(tmp_path, INIT, COLL, "{broken", *CHANNELS)
    notes = dict(run.table("quality").select("kind", "count").rows())
    assert notes["damaged_lines"] == 1


def test_without_a_time(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no collective in it has a start and an end"):
        opened(tmp_path, INIT, COLL)


@pytest.mark.corpus
def test_four_gpus_of_one_process(corpus: Path) -> None:
    """A published trace: each GPU's kernel is as long as CUPTI's own line says, summed by hand."""
    path = corpus / TRACE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lengths = sorted(round(1000 * e["duration"]) for e in lines if e.get("type") == "KERNEL")
    ops = sightline.open(str(path)).table("device_ops")
    assert sorted((ops["end_ns"] - ops["start_ns"]).to_list()) == lengths
    assert sorted(ops["device_id"].to_list()) == [0, 1, 2, 3]
