"""What NCCL's RAS answers, as its user guide prints it, and who is behind or gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

HEAD = """NCCL version 2.28.3 compiled with CUDA 13.0
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        {size}        32   RUNNING  {errors}

Errors
======

"""
MISMATCH = """#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  6 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6640
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210
"""
ONE = """#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1
"""
CROWDS = """#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  4 ranks have launched up to operation 64
  4 ranks have launched up to operation 63
"""
DEAD = """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
"""


def opened(folder: Path, text: str):
    (folder / "ras.txt").write_text(text)
    return sightline.open(str(folder / "ras.txt"))


def text_of(size: int, errors: str, body: str) -> str:
    return HEAD.format(size=size, errors=errors) + body


def test_ranks_that_are_named_and_the_others(tmp_path: Path) -> None:
    run = opened(tmp_path, text_of(8, "MISMATCH", MISMATCH))
    launched = run.table("communicator_ranks").sort("member").select("member", "launched", "pid")
    assert launched.rows() == [
        (rank, 6640, 483_072 + rank) if rank in (0, 5) else (rank, 6650, None) for rank in range(8)
    ]
    (row,) = run.ask("communicator_progress").rows(named=True)
    assert (row["most"], row["least"], row["behind"]) == (6650, 6640, [0, 5])
    (finding,) = [f for f in run.findings() if f.rule == "rank-behind"]
    assert finding.where["ranks"] == [0, 5]
    assert finding.confidence == "low"
    assert "483077" in finding.evidence[1]


def test_one_rank_on_its_line(tmp_path: Path) -> None:
    run = opened(tmp_path, text_of(8, "MISMATCH", ONE))
    (row,) = run.ask("communicator_progress").rows(named=True)
    assert (row["op"], row["most"], row["least"], row["behind"]) == ("AllReduce", 64, 60, [7])


def test_of_two_crowds_nobody_is_named(tmp_path: Path) -> None:
    run = opened(tmp_path, text_of(8, "MISMATCH", CROWDS))
    assert run.table("communicator_ranks").get_column("launched").null_count() == 8
    assert run.ask("communicator_progress").item(0, "behind").to_list() == []
    assert not [f for f in run.findings() if f.rule == "rank-behind"]


def test_a_dead_rank(tmp_path: Path) -> None:
    run = opened(tmp_path, text_of(32, "INCOMPLETE", DEAD))
    (row,) = run.ask("communicator_progress").rows(named=True)
    assert (row["gone"], row["state"], row["group_size"]) == ([21], "dead", 32)
    (finding,) = [f for f in run.findings() if f.rule == "rank-behind"]
    assert (finding.where["ranks"], finding.severity) == ([21], "critical")


def test_a_job_whose_ranks_are_alike(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no single rank") as caught:
        opened(tmp_path, text_of(32, "OK", ""))
    assert "ncclras -f json" in caught.value.hint


def member(rank: int, **counts: int) -> dict:
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "abort_flag": False}
    place = {"rank": rank, "host": "172.16.64.245", "pid": 100 + rank, "cuda_dev": rank}
    return place | {"status": status, "collective_counts": counts}


GONE = {"rank": 3, "host": "n", "pid": 103, "cuda_dev": 3}
GONE |= {"status": {"unresponsive": True, "considered_dead": False}}
REPORT = {
    "nccl_version": "2.29.1",
    "cuda_runtime_version": 13000,
    "timestamp": "2025-12-19 13:06:53",
    "communicators_count": 1,
    "communicators": [
        {
            "hash": "0xae94423cfbb2ef4a",
            "size": 4,
            "ranks": [
                member(0, AllReduce=90, Broadcast=1),
                member(1, AllReduce=90, Broadcast=1),
                member(2, AllReduce=87, Broadcast=1),
            ],
            "missing_ranks": [GONE],
        }
    ],
}


@pytest.mark.parametrize("answer", [False, True])
def test_json_with_every_rank(tmp_path: Path, answer: bool) -> None:
    """As ncclras writes it, and as the port answers: behind two lines of OK."""
    run = opened(tmp_path, ("OK\nOK\n" if answer else "") + json.dumps(REPORT, indent=1))
    ranks = run.table("communicator_ranks")
    assert ranks.filter(ranks["op"] == "AllReduce").sort("member")["launched"].to_list() == [
        *(90, 90, 87)
    ]
    rows = {row["op"]: row for row in run.ask("communicator_progress").rows(named=True)}
    assert (rows["AllReduce"]["behind"], rows["Broadcast"]["behind"]) == ([2], [])
    assert {tuple(row["gone"]) for row in rows.values()} == {(3,)}
    assert rows["AllReduce"]["state"] == "unresponsive"
    assert "172.16.64.245" not in str(ranks.rows())


def test_a_moment_that_no_column_holds(tmp_path: Path) -> None:
    text = json.dumps(REPORT | {"timestamp": "2925-12-19 13:06:53"})
    ranks = opened(tmp_path, text).table("communicator_ranks")
    assert (ranks.height, ranks["time_ns"].null_count()) == (7, 7)


def test_the_comma_that_nccl_2_28_9_leaves_out(tmp_path: Path) -> None:
    text = json.dumps(REPORT, indent=1).replace('"pid": 103,', '"pid": 103')
    run = opened(tmp_path, text)
    gone = run.table("communicator_ranks").filter(member=3)
    assert gone.select("pid", "state").row(0) == (103, "unresponsive")


@pytest.mark.parametrize("text", [text_of(8, "MISMATCH", MISMATCH), json.dumps(REPORT, indent=1)])
def test_what_is_cut_off_is_an_error_or_less(tmp_path: Path, text: str) -> None:
    for end in range(150, len(text), 97):
        try:
            run = opened(tmp_path, text[:end])
        except sightline.SightlineError:
            continue
        assert run.rows("communicator_ranks") <= 8
