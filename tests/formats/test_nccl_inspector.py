"""NCCL Inspector's lines: collectives that are matched by communicator and number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

T = 1_752_867_229_000_000  # µs


def line(rank: int, number: int, start: int, length: int, *, timed: bool = True) -> dict:
    """A line of an all-gather of 8 MB over two ranks, µs after T."""
    perf = {
        "coll": "AllGather",
        "coll_sn": number,
        "coll_msg_size_bytes": 4_000_000,  # one rank's share
        "coll_exec_time_us": length,
        "coll_algobw_gbs": 8_000 / length,
    }
    if timed:
        kernels = [{"channel_id": c, "kernel_start_ts": T + start + c} for c in (0, 1)]
        perf["event_trace_ts"] = {"coll_start_ts": T + start - 9, "kernel_events": kernels}
    return {
        "header": {"id": "0xe6", "rank": rank, "n_ranks": 2, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": T + start + length + 500,
            "hostname": "somewhere",
            "pid": 7,
        },
        "coll_perf": perf,
    }


def opened(folder: Path, *ranks: list[dict], indent: int | None = None):
    paths = []
    for number, lines in enumerate(ranks):
        path = folder / f"inspector-{number}.log"
        path.write_text("\n".join(json.dumps(item, indent=indent) for item in lines))
        paths.append(str(path))
    return sightline.open(*paths)


@pytest.mark.parametrize("indent", [None, 2], ids=["lines", "indented"])
def test_ranks_meet_by_number(tmp_path: Path, indent: int | None) -> None:
    """Rank 1 lacks the first; it comes 60 µs later to the second, which takes 100 µs from then."""
    run = opened(
        tmp_path,
        [line(0, 4, 0, 90), line(0, 5, 200, 160)],
        [line(1, 5, 260, 100)],
        indent=indent,
    )
    row = run.ask("collective_times").row(0, named=True)
    assert (row["kind"], row["grade"], row["sequence"]) == ("all_gather", "sequence", 5)
    assert (row["skew_ns"], row["transfer_ns"], row["last_rank"]) == (60_000, 100_000, 1)
    assert row["algorithm_bandwidth_gb_per_s"] == pytest.approx(80)
    assert row["bus_bandwidth_gb_per_s"] == pytest.approx(40)


def test_without_kernels_times_are_those_of_the_line(tmp_path: Path) -> None:
    run = opened(tmp_path, [line(0, 4, 0, 90, timed=False)])
    op = run.table("device_ops").row(0, named=True)
    assert (op["end_ns"], op["end_ns"] - op["start_ns"]) == ((T + 590) * 1000, 90_000)
    assert run.table("quality").select("kind", "count").rows() == [("no_kernel_times", 1)]


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "inspector.log"
    whole, lacking = json.dumps(line(0, 4, 0, 90)), json.dumps({"header": {}, "coll_perf": {}})
    path.write_text("\n".join([whole, whole[:80], lacking]))
    run = sightline.open(str(path))
    assert run.rows("device_ops") == 1
    assert run.table("quality")["count"].to_list() == [2]
    path.write_text(lacking + ' "inspector_output_format_version"')
    with pytest.raises(DamagedError, match="it has no complete collective"):
        sightline.open(str(path))
