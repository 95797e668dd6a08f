"""The replay of a job: unchanged it is the recording; without excess it is what a hand finds."""

from __future__ import annotations

from pathlib import Path

from sightline.fleet.answer import judge_ranks
from sightline.fleet.job import Scenario, compose_job, replay_job, trace_path
from sightline.fleet.read import reduce_recordings
from sightline.views.comparison.ranks import write_screen
from support.jobs import collective
from support.many_ranks import HOST, LINK, Cause, Program, write_ranks
from support.traces import kernel, write


def job_of(folder: Path, late: float = 0, transfer: float = 100):
    """Four ranks, two collectives: rank 2 computes `late` µs longer before the second."""
    for rank in range(4):
        second = 300 + (late if rank == 2 else 0)
        events = [
            kernel("gemm", 0, 50),
            collective(50, transfer, members=range(4)),
            kernel("gemm", 150, second - 150),
            collective(second, 300 + late + transfer - second, members=range(4)),
        ]
        told = {"rank": rank, "world_size": 4}
        write(folder, events, f"rank{rank}.json", distributedInfo=told)
    return compose_job(reduce_recordings([str(folder)]).ranks)


def test_unchanged_it_is_the_recording(tmp_path: Path) -> None:
    program = Program(16, steps=6, seed=5, causes=(Cause(HOST, 3, 1e5),))
    list(write_ranks(program, tmp_path))
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert job.unmatched == 0
    assert replay_job(job, [()]) == [program.play().length_ns]
    assert trace_path(job)["ns"].sum() == program.play().length_ns


def test_what_is_beyond_the_median_is_taken_out(tmp_path: Path) -> None:
    job = job_of(tmp_path, late=70)
    free = Scenario(("compute",), (2,))
    assert replay_job(job, [(), (free,), (Scenario(("idle",)),)]) == [470_000, 400_000, 470_000]


def test_the_path_goes_through_the_late_rank(tmp_path: Path) -> None:
    path = trace_path(job_of(tmp_path, late=70))
    assert set(path.filter(path["part"] == "compute").rows()) >= {(2, "compute", 220_000)}
    assert path["ns"].sum() == 470_000


def test_two_ranks_have_no_usual(tmp_path: Path) -> None:
    for rank, late in enumerate((0, 70)):
        events = [kernel("gemm", 0, 50 + late), collective(50 + late, 170 - late, members=(0, 1))]
        told = {"rank": rank, "world_size": 2}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=told)
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert replay_job(job, [(), (Scenario(("compute",)),)]) == [220_000, 220_000]


def test_ranks_that_share_nothing_begin_together(tmp_path: Path) -> None:
    """Two pairs of ranks, of which the second's clock is an hour off: the job is the longer one."""
    for rank in range(4):
        first = 0 if rank < 2 else 3_600_000_000
        pair = (0, 1) if rank < 2 else (2, 3)
        told = {"members": pair, "Process Group Name": str(pair[0])}
        gemm = 50 + 20 * rank
        ends = 200 + 20 * (pair[1])
        events = [
            kernel("gemm", first, gemm),
            collective(first + gemm, ends - gemm, **told),
        ]
        write(tmp_path, events, f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 4})
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert (job.components, job.unmatched) == (2, 0)
    assert replay_job(job, [()]) == [260_000]


def test_no_communication_at_all(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, [kernel("gemm", 0, 50 + rank)], f"rank{rank}.json")
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert replay_job(job, [()]) == [52_000]
    assert trace_path(job).is_empty()


def write_pairs(folder: Path, pairs: int, slow: int) -> None:
    """Pairs of ranks with five all-reduces each; one transfer, or all of the last pair's, is slow.

    `slow` is how many of the last pair's five take 400 µs instead of 50.
    """
    for rank in range(2 * pairs):
        pair = (rank - rank % 2, rank - rank % 2 + 1)
        events, at = [], 0
        for n in range(5):
            took = 400 if rank >= 2 * pairs - 2 and n < slow else 50
            events += [kernel("gemm", at, 50), collective(at + 50, took, members=pair)]
            at += 50 + took
        told = {"rank": rank, "world_size": 2 * pairs}
        write(folder, events, f"rank{rank}.json", distributedInfo=told)


def test_one_link_alone_is_not_called_slow(tmp_path: Path) -> None:
    """One transfer of five takes longer on the only link: nothing tells that the link is slow."""
    write_pairs(tmp_path, 1, slow=1)
    answer = judge_ranks(reduce_recordings([str(tmp_path)]))
    screen = write_screen(answer)
    assert answer.verdict.stragglers.is_empty()
    assert "cannot be compared" in screen
    assert LINK not in screen
    assert " × as long" not in screen


def test_of_three_links_the_slow_one_is_named(tmp_path: Path) -> None:
    write_pairs(tmp_path, 3, slow=5)
    first = judge_ranks(reduce_recordings([str(tmp_path)])).verdict.stragglers.row(0, named=True)
    assert (first["cause"], first["ranks"]) == (LINK, [4, 5])
