"""The second simulator against itself: order, queues, conservation, truths, and its files."""

from __future__ import annotations

import gzip
import itertools
import json
import sqlite3
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml

from support.campaigns import CAMPAIGNS, sample
from worlds import kineto, nsight
from worlds.causes import CAUSES, MIXTURES
from worlds.dice import Dice
from worlds.programs import DISTRIBUTED, PROGRAMS
from worlds.recorded import RankRecord, RunRecord
from worlds.truth import judge, play

SEED = 5
HEALTHY_SHARE = 0.93  # of the window that devices compute: pipelines and copied batches lose some
JITTER_SHARE = 0.01  # by which a program may be longer without a cause


@cache
def healthy(program: str) -> RunRecord:
    return play(program, SEED, "nvidia", {})


@cache
def sick(program: str, cause: str) -> RunRecord:
    return play(program, SEED, "nvidia", {cause: CAUSES[cause].severity})


# The runs are played once, by one of the workers.
together = pytest.mark.xdist_group("worlds")


def all_ranks() -> list[RankRecord]:
    """Some runs that use every kind of call."""
    runs = [healthy(program) for program in sample(list(PROGRAMS), 3)]
    runs += [sick("transformer", "host-sync"), sick("gnn", "allocation"), sick("ddp", "slow-link")]
    return [rank for run in runs for rank in run.ranks]


@pytest.mark.campaign
@together
def test_ranges_end_after_they_start() -> None:
    for rank in all_ranks():
        assert all(0 <= h.start <= h.end for h in rank.hosts)
        assert all(0 < d.start < d.end for d in rank.devices)


@together
def test_streams_are_queues_without_overlap() -> None:
    for rank in all_ranks():
        streams = defaultdict(list)
        for device in rank.devices:
            streams[device.stream].append(device)
        for ranges in streams.values():
            assert all(a.end <= b.start for a, b in itertools.pairwise(ranges))
            # One thread at a time feeds a stream here, so ids rise along it.
            ids = [d.correlation for d in ranges]
            assert ids == sorted(ids)


@together
def test_device_ops_start_after_their_launch_began() -> None:
    for rank in all_ranks():
        calls = {h.correlation: h for h in rank.hosts if h.kind == "api"}
        joined = [(d, calls[d.correlation]) for d in rank.devices if d.correlation in calls]
        assert len(joined) >= 0.99 * len(rank.devices)
        assert all(d.start > call.start for d, call in joined)


@together
def test_correlations_are_unique() -> None:
    for rank in all_ranks():
        ids = [h.correlation for h in rank.hosts if h.kind == "api"]
        assert len(ids) == len(set(ids))


@together
def test_calls_of_one_thread_do_not_overlap_and_ranges_nest() -> None:
    for rank in all_ranks():
        threads = defaultdict(list)
        for host in rank.hosts:
            threads[host.tid].append(host)
        for hosts in threads.values():
            calls = sorted((h.start, h.end) for h in hosts if h.kind == "api")
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(calls))
            open_ends: list[int] = []
            for host in sorted(hosts, key=lambda h: (h.start, -h.end)):
                while open_ends and open_ends[-1] <= host.start:
                    open_ends.pop()
                assert not open_ends or host.end <= open_ends[-1]
                open_ends.append(host.end)


def test_collectives_end_together_after_the_last_rank_came() -> None:
    for program in ("ddp", "fsdp", "pipeline"):
        met = defaultdict(list)
        for rank in healthy(program).ranks:
            for device in rank.devices:
                if device.work.collective:
                    met[device.work.collective.key].append(device)
        for here in met.values():
            assert len({d.end for d in here}) == 1
            assert all(d.end - max(x.start for x in here) >= 1 for d in here)
            assert len(here) == len(here[0].work.collective.ranks)


@together
def test_kernels_never_need_more_than_the_device_has() -> None:
    for rank in all_ranks():
        edges = []
        for device in rank.devices:
            if device.work.kind == "kernel" and not device.work.collective:
                share = device.work.share
                edges += [(device.start, share), (device.end, -share)]
        used = 0.0
        for _, share in sorted(edges):  # ends come before starts at one time: shares are negative
            used += share
            assert used <= 1.0 + 1e-6


@pytest.mark.parametrize("program", PROGRAMS)
def test_healthy_programs_keep_their_devices_busy(program: str) -> None:
    run = healthy(program)
    assert len(run.ranks) == DISTRIBUTED.get(program, 1)
    assert run.busy_share() >= HEALTHY_SHARE


@pytest.mark.parametrize("cause", CAUSES)
def test_removing_a_cause_makes_the_program_faster(cause: str) -> None:
    count = None if CAMPAIGNS else 1
    for program in CAUSES[cause].programs[:count]:
        window = sick(program, cause).window_ns()
        assert healthy(program).window_ns() <= (1 + JITTER_SHARE) * window


def test_a_cause_leaves_all_other_luck_as_it_is() -> None:
    """Kernels that a program has with and without a cause take as long in both."""
    lengths = []
    for run in (healthy("transformer"), sick("transformer", "data-loading")):
        kernels = [d.work.ns for d in run.ranks[0].devices if d.work.kind == "kernel"]
        lengths.append(kernels)
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("program", CAUSES["clock-throttle"].programs)
def test_a_clock_that_drops_does_so_in_mid_recording(program: str) -> None:
    """Some of the recorded kernels run at the old clock, and some at the new one."""
    slow = 1.0 + 0.4 * CAUSES["clock-throttle"].severity
    for rank in sick(program, "clock-throttle").ranks:
        kernels = [d for d in rank.devices if d.work.clocked]
        late = sum(d.end - d.start > (1 + slow) / 2 * d.work.ns for d in kernels)
        assert 0.2 * len(kernels) < late < 0.8 * len(kernels)


def test_work_is_conserved() -> None:
    """Without planted work, both runs put the same on their devices."""
    pairs = (("resnet", "data-loading"), ("ddp", "exposed-communication"), ("stencil", "mpi-wait"))
    for program, cause in pairs:
        totals = []
        for run in (healthy(program), sick(program, cause)):
            works = [d.work for d in run.ranks[0].devices]
            totals.append((len(works), sum(w.bytes for w in works)))
        assert totals[0] == totals[1]


def test_the_same_seed_gives_the_same_run() -> None:
    again = play("gnn", SEED, "nvidia", {})
    assert again.ranks[0].devices == healthy("gnn").ranks[0].devices
    assert play("gnn", SEED + 1, "nvidia", {}).window_ns() != again.window_ns()


def test_gains_of_a_mixture_are_worked_out_one_by_one_and_together() -> None:
    case = judge("transformer", {"host-sync": 1.0, "checkpoint": 1.0}, SEED, "nvidia")
    assert all(gain > 0 for gain in case.gains.values())
    assert case.together_ns == pytest.approx(sum(case.gains.values()), rel=0.1)
    assert case.window_ns - case.together_ns == healthy("transformer").window_ns()


@pytest.mark.parametrize("dialect", kineto.DIALECTS)
def test_kineto_files_hold_all_device_ops(dialect: str, tmp_path: Path) -> None:
    run = healthy("ddp")
    paths = kineto.write_run(run, tmp_path, dialect, SEED + 1)
    assert len(paths) == len(run.ranks)
    for rank, path in zip(run.ranks, paths, strict=True):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        kinds = {kineto.CATEGORIES[k][0 if dialect == "old" else 1] for k in ("kernel", "memcpy")}
        found = [e for e in trace["traceEvents"] if e.get("cat") in kinds]
        wanted = [d for d in rank.devices if d.work.kind in ("kernel", "memcpy")]
        assert len(found) == len(wanted)
        assert trace["distributedInfo"]["rank"] == rank.rank
        if dialect == "new":
            total = sum(round(e["dur"] * 1000) for e in found)
            assert total == sum(d.end - d.start for d in wanted)


def test_nsight_files_hold_all_device_ops(tmp_path: Path) -> None:
    run = healthy("stencil")
    (path,) = nsight.write_run(run, tmp_path, SEED, together=True)
    database = sqlite3.connect(path)
    count, total = database.execute(
        "SELECT COUNT(*), SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchone()
    kernels = [d for r in run.ranks for d in r.devices if d.work.kind == "kernel"]
    assert (count, total) == (len(kernels), sum(d.end - d.start for d in kernels))
    ranks = database.execute("SELECT rank FROM MPI_RANKS ORDER BY rank").fetchall()
    assert ranks == [(0,), (1,), (2,), (3,)]


def test_each_cause_has_an_entry_in_the_table_of_rules() -> None:
    rules = yaml.safe_load((Path(__file__).parent / "rules_for_causes.yaml").read_text())
    assert set(rules) - {"formats"} == set(CAUSES)
    assert all(c in CAUSES for _, *causes in MIXTURES for c in causes)


def test_draws_depend_on_the_place_alone() -> None:
    assert Dice(1, "a").host(1_000) == Dice(1, "a").host(1_000)
    assert Dice(1, "a").host(1_000) != Dice(1, "b").host(1_000)
