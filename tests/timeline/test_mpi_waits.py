"""Waits of MPI ranks: of programs whose waits are known, and of real ones, counted again."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict, deque
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from sightline.timeline.mpi import count_unmatched, list_messages
from sightline.timeline.mpi_waits import list_mpi_waits
from support.mpi_programs import Program, play_at_random, write_archive
from support.rules import answers, assert_silent, assert_speaks
from synth_nsys import Export, gtid

PING_PONG = "otf2/hpcgroup__pipit/pipit/tests/data/ping-pong-otf2"
FOUR_RANKS = "nsys/own_cpu/mpi4.sqlite"


def sum_waits(run: Run) -> dict[tuple[str, int, int], int]:
    """What all waits of a pattern, rank and peer come to."""
    waits = list_mpi_waits(run).group_by("pattern", "process", "peer").agg(pl.col("wait_ns").sum())
    return {row[:3]: row[3] for row in waits.rows()}


@pytest.mark.parametrize("seed", [1, 2])
def test_random_programs(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    program = play_at_random(seed)
    run = sightline.open(str(write_archive(program, tmp_path / "archive")))
    assert sum_waits(run) == dict(program.waits)
    assert count_unmatched(run) == 0
    in_calls = run.table("host_ops").filter(pl.col("layer") == "mpi")
    most = in_calls.group_by("pid").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    waited = list_mpi_waits(run).group_by("pid").agg(pl.col("wait_ns").sum())
    assert waited.join(most, on="pid").filter(pl.col("wait_ns") > pl.col("end_ns")).is_empty()


def test_a_late_sender_is_found_and_its_gain_bounded(tmp_path: Path) -> None:
    """Rank 1 works 9 ms before each send to rank 0, which waits 8 ms for it."""
    pytest.importorskip("otf2")
    program = Program(4)
    program.now = [0] * 4
    for _ in range(10):
        program.compute(1, 9_000_000)
        program.compute(0, 1_000_000 - 700)
        program.send(1, 0, 5, "eager")
        program.now[1] = program.now[0]
    run = sightline.open(str(write_archive(program, tmp_path / "archive")))
    waited = program.waits["late sender", 0, 1]
    assert_speaks(
        run,
        "late-sender",
        cost_ns=waited,
        gain_ns=waited // 4,
        evidence=["rank 0 waits", "for rank 1, in 10 calls"],
        fix="send earlier on rank 1",
        severity="critical",
    )


def test_a_gpu_that_waits_for_a_late_sender(tmp_path: Path) -> None:
    """Rank 0 feeds a GPU that is idle from 2 to 12 ms: from 3 ms on it receives, rank 1 sends at 9.

    So 6 of the 10 ms are the sender's, and the transfer behind it is not.
    """
    export = Export()
    for rank in (0, 1):
        export.add("MPI_RANKS", globalTid=gtid(7 + rank, 7), rank=rank)
        export.add(
            "MPI_COMMUNICATORS",
            rank=rank, timestamp=0, commHandle=50 + rank, parentHandle=0, localRank=rank, size=2,
        )  # fmt: skip
    for name, start, end, rank, peer in (
        ("MPI_Recv", 3_000_000, 11_000_000, 0, 1),
        ("MPI_Send", 9_000_000, 9_500_000, 1, 0),
    ):
        export.add(
            "MPI_P2P_EVENTS",
            start=start, end=end, globalTid=gtid(7 + rank, 7), textId=export.text(name),
            commHandle=50 + rank, tag=4, remoteRank=peer, size=8,
        )  # fmt: skip
    for number, at in enumerate((1_000_000, 12_000_000), 1):
        export.api("cudaLaunchKernel_v7000", at - 10_000, at - 5_000, number)
        export.kernel("gemm", at, at + 1_000_000, number)
    run = sightline.open(str(export.write(tmp_path / "e.sqlite")))
    parts = dict(run.ask("idle_parts").select("cause", "part_ns").rows())
    assert parts == {"late_sender": 6_000_000, "host_late": 4_000_000}
    found = assert_speaks(
        run,
        "late-sender",
        cost_ns=6_000_000,
        gain_ns=6_000_000,
        evidence=["rank 0 waits 6.000 ms for rank 1"],
        fix="send earlier on rank 1",
    )
    assert found.cost_pct == pytest.approx(50)


def test_a_message_that_was_not_received_leaves_its_like_unmatched(tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    program = Program(2)
    for tag in (1, 1, 2):
        program.compute(0, 5000)
        program.send(0, 1, tag, "eager")
    program.events[1] = [e for e in program.events[1] if e[2] != ("recv", 0, 2)]
    last = [e for e in program.events[1] if e[1] == "record"][-1]
    program.events[1].remove(last)  # of two messages with tag 1 one receive: which, nobody knows
    run = sightline.open(str(write_archive(program, tmp_path / "archive")))
    assert list_messages(run).height == 0
    assert count_unmatched(run) == 4
    assert_silent(run, "late-sender")


@pytest.mark.corpus
def test_score_p_by_the_library_s_own_events(corpus: Path) -> None:
    """Sends and receives of a ping-pong, in two queues for each pair, tag and communicator."""
    library = pytest.importorskip("otf2")
    calls, sends, receives = {}, defaultdict(deque), defaultdict(deque)
    with library.reader.open(str(corpus / PING_PONG / "traces.otf2")) as reader:
        step = int(reader.timer_resolution)
        for place, event in reader.events:
            rank, kind = int(place.group.name.removeprefix("MPI Rank ")), type(event).__name__
            time = event.time * 10**9 // step
            if kind == "Enter":
                calls[place] = [time, None]
            elif kind == "Leave" and place in calls:
                calls.pop(place)[1] = time
            elif kind == "MpiSend":
                sends[rank, event.receiver, event.msg_tag].append(calls[place])
            elif kind == "MpiRecv":
                receives[event.sender, rank, event.msg_tag].append(calls[place])
    expected = Counter()
    for (source, target, tag), queue in sends.items():
        for (sent, returned), (posted, done) in zip(
            queue, receives[source, target, tag], strict=True
        ):
            if sent > posted:
                expected["late sender", target, source] += min(sent, done) - posted
            if returned > posted > sent:
                expected["late receiver", source, target] += posted - sent
    assert sum_waits(sightline.open(str(corpus / PING_PONG))) == dict(expected)


@pytest.mark.corpus
def test_nsight_systems_by_sql(corpus: Path) -> None:
    """Four ranks in a ring, of which rank 1 works three times as long (mpi.c beside the recording).

    Of each iteration: the ring's message i, and the barrier and allreduce, joined by their number.
    """
    run = sightline.open(str(corpus / FOUR_RANKS))
    found = sum_waits(run)
    database = sqlite3.connect(f"file:{corpus / FOUR_RANKS}?mode=ro&immutable=1", uri=True)
    world = """
        WITH c AS (
            SELECT r.rank AS rank, s.value AS name, e.start, e.end, ROW_NUMBER() OVER (
                PARTITION BY r.rank, s.value ORDER BY e.start) AS nth
            FROM MPI_COLLECTIVES_EVENTS e JOIN MPI_RANKS r USING (globalTid)
            JOIN StringIds s ON s.id = e.textId WHERE s.value = ?)
        SELECT SUM(last - start) FROM c JOIN (
            SELECT nth, MAX(start) AS last FROM c GROUP BY nth) USING (nth)"""
    for name, pattern in (("MPI_Allreduce", "wait at n x n"), ("MPI_Barrier", "wait at barrier")):
        waited = sum(ns for key, ns in found.items() if key[0] == pattern)
        assert waited == database.execute(world, (name,)).fetchone()[0]
    ring = """
        WITH p AS (
            SELECT r.rank, s.value AS name, e.start, e.tag, e.remoteRank AS peer, e.requestHandle,
                (SELECT MIN(w.start) FROM MPI_START_WAIT_EVENTS w WHERE w.globalTid = e.globalTid
                 AND w.requestHandle = e.requestHandle AND w.start > e.start) AS waits
            FROM MPI_P2P_EVENTS e JOIN MPI_RANKS r USING (globalTid)
            JOIN StringIds s ON s.id = e.textId)
        SELECT SUM(MAX(sent.start - got.waits, 0)) FROM p sent JOIN p got
            ON got.rank = sent.peer AND sent.rank = got.peer AND sent.tag = got.tag
        WHERE sent.name = 'MPI_Isend' AND got.name = 'MPI_Irecv' AND sent.rank = 1"""
    assert found["late sender", 2, 1] == database.execute(ring).fetchone()[0]
    (finding,) = answers(run, "late-sender")
    assert "mostly rank 1" in finding.summary
    assert finding.gain_ns <= finding.cost_ns == found["late sender", 2, 1]


@pytest.mark.corpus
def test_the_first_screen_of_a_job_of_mpi_says_who_waited_for_whom(corpus: Path) -> None:
    from support.command import sightline as command

    screen = command(corpus / PING_PONG).out
    assert "MPI: 2 ranks, 36 calls, " in screen
    assert "rank 0      rank 1      late receiver" in screen
    # MPI_Init is 97 % of this recording, and no share of the work.
    assert 0 < float(screen.split(" calls, ")[1].split(" %")[0]) < 90
