"""The generator of simulated recordings, checked against itself and against plain counting."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from synth import (
    SCENARIOS,
    Costs,
    RankRun,
    Run,
    RunTruth,
    Simulator,
    kineto,
    scenarios,
    simulate,
    truth_of,
)
from synth.causes import CAUSES
from synth.dialects import DIALECTS
from synth.model import DeviceOp
from synth.names import ADD, DATALOADER, GEMM
from synth.truth import DeviceTruth, paint, tally

US = 1000
SEEDS = range(30)
DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def device_truths(run: Run) -> list[DeviceTruth]:
    return [d for rank in truth_of(run).ranks.values() for d in rank.devices.values()]


def ops_of(run: Run) -> list[DeviceOp]:
    return [op for rank in run.ranks for op in rank.ops]


def load(text: str) -> Any:
    """Parse JSON without losing a digit."""
    return json.loads(text, parse_float=Decimal)


def events_of(text: str) -> list[dict[str, Any]]:
    parsed = load(text)
    events: list[dict[str, Any]] = parsed if isinstance(parsed, list) else parsed["traceEvents"]
    return events


def ns(us: Decimal | int) -> int:
    exact = Decimal(us) * 1000
    assert exact == int(exact)
    return int(exact)


# -- the simulator ------------------------------------------------------------------------------


def test_start_of_a_kernel_is_the_latest_of_its_three_constraints() -> None:
    costs = Costs(launch_call_ns=4 * US, launch_latency_ns=6 * US, op_gap_ns=1 * US)
    sim = Simulator(costs=costs)
    t = sim.main()
    first = t.launch(GEMM, 50 * US)
    second = t.launch(ADD, 5 * US)
    assert (first.start_ns, first.end_ns, first.binding) == (6 * US, 56 * US, "launch")
    assert (second.start_ns, second.binding) == (57 * US, "stream")
    t.wait_event(t.record_event(7), stream=13)
    third = t.launch(ADD, 5 * US, stream=13)
    assert third.start_ns == second.end_ns + costs.event_latency_ns
    assert third.binding == "event"


def test_blocking_calls_return_after_the_work() -> None:
    sim = Simulator()
    t = sim.main()
    op = t.launch(GEMM, 500 * US)
    t.stream_synchronize()
    assert t.now_ns == op.end_ns + sim.costs.sync_return_ns
    before = t.now_ns
    t.synchronize()
    assert t.now_ns == before + sim.costs.sync_call_ns
    copy = t.memcpy("HtoD", 7_000_000, pinned=False, rate=7 * 10**9)
    assert copy.end_ns - copy.start_ns == 1_000_000
    assert t.now_ns == copy.end_ns + sim.costs.sync_return_ns


def test_a_full_queue_blocks_the_launch() -> None:
    sim = Simulator(costs=Costs(queue_limit=2))
    t = sim.main()
    ops = [t.launch(GEMM, 100 * US) for _ in range(4)]
    assert ops[3].launch.end_ns == ops[1].start_ns


def test_a_collective_ends_on_all_ranks_at_once() -> None:
    run = scenarios.straggler(ranks=3, slow_rank=2)
    for collective in truth_of(run).collectives:
        ends = {op.end_ns for op in ops_of(run) if op.collective_seq == collective.seq}
        assert ends == {collective.end_ns}
        assert len(collective.starts_ns) == 3
        assert collective.transfer_ns > 0


def test_launches_against_the_order_of_time_are_refused() -> None:
    sim = Simulator()
    other = sim.add_thread(0, "worker")
    sim.main().cpu(100)
    sim.main().launch(ADD, 10)
    with pytest.raises(ValueError, match="order of time"):
        other.launch(ADD, 10)


def test_open_ranges_are_refused_at_the_end() -> None:
    sim = Simulator()
    left_open = sim.main().op("aten::add")
    left_open.__enter__()
    with pytest.raises(ValueError, match="open ranges"):
        sim.finish("broken", "")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_simulated_could_have_happened(seed: int) -> None:
    run = simulate("random_program", seed=seed)
    for rank in run.ranks:
        by_id = {r.range_id: r for r in rank.ranges}
        for made in rank.ranges:
            assert 0 <= made.start_ns <= made.end_ns
            if made.parent_id is not None:
                outer = by_id[made.parent_id]
                assert outer.tid == made.tid
                assert outer.start_ns <= made.start_ns <= made.end_ns <= outer.end_ns
        streams: dict[tuple[int, int], list[DeviceOp]] = {}
        for op in rank.ops:
            assert op.launch.start_ns < op.start_ns < op.end_ns
            assert op.correlation == op.launch.correlation
            streams.setdefault((op.device, op.stream), []).append(op)
        for ops in streams.values():
            for one, two in itertools.pairwise(ops):
                assert one.end_ns <= two.start_ns


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    first, second = simulate(name, seed=3), simulate(name, seed=3)
    assert dataclasses.asdict(first) == dataclasses.asdict(second)
    assert kineto.text(first, 0) == kineto.text(second, 0)
    assert truth_of(first) == truth_of(second)


def test_another_seed_gives_another_run() -> None:
    texts = {kineto.text(simulate("random_program", seed=seed), 0) for seed in range(10)}
    assert len(texts) == 10


# -- the truth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("grain_ns", [1, 1000])
def test_painting_and_tallying_agree(seed: int, grain_ns: int) -> None:
    run = simulate("random_program", seed=seed, grain_ns=grain_ns)
    for rank in run.ranks:
        for device in {op.device for op in rank.ops}:
            ops = [op for op in rank.ops if op.device == device]
            assert paint(ops, grain_ns) == tally(ops)


def test_painting_in_parts_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = scenarios.launch_bound().ranks[0].ops
    whole = paint(ops, 1)
    monkeypatch.setattr("synth.truth.PAINT_CELLS", 9_973)
    assert paint(ops, 1) == whole


@pytest.mark.parametrize("name", SCENARIOS)
def test_truth_conserves(name: str) -> None:
    run = simulate(name)
    for truth in device_truths(run):
        b = truth.breakdown
        parts = (b.compute_ns, b.exposed_comm_ns, b.exposed_copy_ns, b.idle_ns)
        assert min(parts) >= 0
        assert sum(parts) == b.window_ns
        assert sum(gap.length_ns for gap in truth.gaps) == b.idle_ns
        assert sum(truth.idle_by_cause().values()) == b.idle_ns
        assert {cause for gap in truth.gaps for cause in gap.parts} <= set(CAUSES)
    ops = ops_of(run)
    sums = [s for d in device_truths(run) for s in (*d.kernels.values(), *d.copies.values())]
    assert sum(s.instances for s in sums) == len(ops)
    assert sum(s.total_ns for s in sums) == sum(op.end_ns - op.start_ns for op in ops)
    assert all(s.min_ns * s.instances <= s.total_ns <= s.max_ns * s.instances for s in sums)


def test_random_programs_show_every_cause() -> None:
    seen = {
        cause
        for seed in SEEDS
        for truth in device_truths(simulate("random_program", seed=seed))
        for gap in truth.gaps
        for cause in gap.parts
    }
    assert seen == set(CAUSES)


def test_priority_of_the_classes() -> None:
    sim = Simulator(2)
    for t in sim.mains:
        t.launch(GEMM, 100 * US)
    sim.collective(sim.mains, 50 * US, after=13)
    for t in sim.mains:
        t.memcpy("HtoD", 24_000, stream=24, rate=10**8)
    run = sim.finish("layers", "")
    kernel, comm, copy = run.ranks[0].ops
    b = device_truths(run)[0].breakdown
    assert kernel.start_ns < comm.start_ns < comm.end_ns < kernel.end_ns < copy.end_ns
    assert b.compute_ns == 100 * US
    assert b.exposed_comm_ns == 0
    assert b.exposed_copy_ns == copy.end_ns - kernel.end_ns
    assert b.idle_ns == 0


def test_a_launch_that_was_not_recorded_leaves_the_cause_unknown() -> None:
    sim = Simulator()
    t = sim.main()
    t.launch(GEMM, 10 * US)
    t.cpu(80 * US)
    t.launch(GEMM, 10 * US, recorded=False)
    run = sim.finish("hidden", "")
    assert [list(gap.parts) for gap in device_truths(run)[0].gaps] == [["unknown"]]
    names = Counter(e["name"] for e in events_of(kineto.text(run, 0)))
    assert (names["cudaLaunchKernel"], names[GEMM]) == (1, 2)
    assert truth_of(run).ranks[0].api_calls["cudaLaunchKernel"].instances == 1


# -- the scenarios ------------------------------------------------------------------------------


def shares(whole: RunTruth, rank: int = 0) -> dict[str, float]:
    truth = whole.device(rank)
    b = truth.breakdown
    parts = {
        "compute": b.compute_ns,
        "comm": b.exposed_comm_ns,
        "copy": b.exposed_copy_ns,
        "idle": b.idle_ns,
    }
    parts |= truth.idle_by_cause()
    return {name: truth.share_pct(part) for name, part in parts.items()}


def test_healthy_is_busy() -> None:
    for seed in range(5):
        assert shares(truth_of(scenarios.healthy(seed=seed)))["idle"] < 3


@pytest.mark.parametrize(
    ("name", "least_idle"),
    [
        ("launch_bound", 60),
        ("launch_latency", 15),
        ("dataloader_starved", 50),
        ("sync_every_step", 25),
        ("graph_replay", 5),
        ("two_streams_with_dependency", 20),
        ("two_threads", 20),
    ],
)
def test_the_planted_cause_dominates(name: str, least_idle: int) -> None:
    run = simulate(name)
    truth = truth_of(run).device()
    causes = truth.idle_by_cause()
    assert truth.share_pct(truth.breakdown.idle_ns) > least_idle
    assert max(causes, key=lambda cause: causes[cause]) == run.planted
    assert causes[run.planted] > 0.7 * truth.breakdown.idle_ns


@pytest.mark.parametrize("pinned", [False, True])
def test_h2d_bound_is_exposed_copy(pinned: bool) -> None:
    run = scenarios.h2d_bound(pinned=pinned)
    truth = truth_of(run)
    assert shares(truth)["copy"] > 50
    word = "Pinned" if pinned else "Pageable"
    assert list(truth.device().copies) == [f"Memcpy HtoD ({word} -> Device)"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_communication_is_exposed_or_overlapped(ranks: int) -> None:
    exposed = truth_of(scenarios.exposed_communication(ranks=ranks, steps=2))
    overlapped = truth_of(scenarios.overlapped_communication(ranks=ranks, steps=2))
    for rank in range(ranks):
        assert shares(exposed, rank)["comm"] > 50
        assert shares(overlapped, rank)["comm"] < 20
        assert shares(overlapped, rank)["idle"] < 3


def test_straggler_makes_the_others_wait() -> None:
    truth = truth_of(scenarios.straggler(ranks=3, slow_rank=1))
    collectives = truth.collectives
    waited = {rank: sum(c.waiting_ns(rank) for c in collectives) for rank in range(3)}
    assert min(waited[0], waited[2]) > 10 * waited[1]
    assert shares(truth, 1)["host_late"] > 30
    assert shares(truth, 0)["comm"] > 30


def test_dominating_kernel_dominates() -> None:
    kernels = truth_of(scenarios.dominating_kernel()).device().kernels
    longest = max(kernels.values(), key=lambda s: s.total_ns)
    assert longest.total_ns > 0.7 * sum(s.total_ns for s in kernels.values())


def test_cpu_only_has_no_device() -> None:
    run = scenarios.cpu_only()
    assert truth_of(run).ranks[0].devices == {}
    assert [n for n, _, _ in truth_of(run).ranks[0].steps] == [0, 1, 2]
    assert not [e for e in events_of(kineto.text(run, 0)) if e.get("cat") in DEVICE_CATEGORIES]


# -- the writers --------------------------------------------------------------------------------


def expected_rows(rank: RankRun, dialect: str) -> Counter[tuple[str, int, int]]:
    """Return (name, start, duration) of everything that a file must hold, but for mirrors."""
    form = DIALECTS[dialect]
    rows: Counter[tuple[str, int, int]] = Counter()
    for made in rank.ranges:
        if made.recorded and made.layer in form.categories:
            name = made.name
            if made.layer in ("runtime", "driver"):
                name = kineto.api_name(dialect, name)
            rows[(name, made.start_ns, made.end_ns - made.start_ns)] += 1
    for op in rank.ops:
        rows[(op.name, op.start_ns, op.end_ns - op.start_ns)] += 1
    return rows


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(8))
def test_dialects_hold_the_exact_times(dialect: str, seed: int) -> None:
    grain_ns = 1000 if dialect == "2021" else 1
    run = simulate("random_program", seed=seed, grain_ns=grain_ns)
    origin = kineto.origin_ns(dialect)
    for rank in run.ranks:
        found: Counter[tuple[str, int, int]] = Counter()
        for event in events_of(kineto.text(run, rank.rank, dialect)):
            if event["ph"] == "X" and event["cat"] not in ("Trace", "gpu_user_annotation"):
                found[(event["name"], ns(event["ts"]) - origin, ns(event["dur"]))] += 1
        assert found == expected_rows(rank, dialect)


def test_whole_us_only_where_they_are() -> None:
    with pytest.raises(ValueError, match="whole us"):
        kineto.text(scenarios.launch_bound(), 0, "2021")
    for event in events_of(kineto.text(scenarios.launch_bound(grain_ns=1000), 0, "2021")):
        assert isinstance(event["ts"], int)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_launches_and_operations_are_joined(dialect: str) -> None:
    run = simulate("random_program", seed=5, grain_ns=1000)
    for rank in run.ranks:
        events = events_of(kineto.text(run, rank.rank, dialect))
        on_device = [e for e in events if e.get("cat") in DEVICE_CATEGORIES]
        calls = Counter(
            e["args"]["correlation"]
            for e in events
            if e["ph"] == "X" and e["cat"] in ("cuda_runtime", "cuda_driver", "Runtime")
        )
        assert max(calls.values()) == 1
        hidden = {op.correlation for op in rank.ops if not op.launch.recorded}
        for event in on_device:
            correlation = event["args"]["correlation"]
            assert (correlation in calls) != (correlation in hidden)
            assert event["args"]["device"] == event["pid"]
        assert sum(e["ph"] == "f" for e in events) == len(on_device) == len(rank.ops)


def test_form_of_each_dialect() -> None:
    run = scenarios.exposed_communication(steps=1, grain_ns=1000)
    parsed = {d: load(kineto.text(run, 1, d)) for d in DIALECTS}
    assert isinstance(parsed["list"], list)
    assert "baseTimeNanoseconds" not in parsed["2023"]
    assert parsed["2023"]["distributedInfo"] == {"rank": 1}
    info = parsed["2025"]["distributedInfo"]
    assert (info["rank"], info["world_size"], info["backend"]) == (1, 2, "nccl")
    base = parsed["2025"]["baseTimeNanoseconds"]
    assert base + kineto.origin_ns("2025") == kineto.origin_ns("2023")

    comm = [e for e in parsed["2025"]["traceEvents"] if e["name"].startswith("ncclDevKernel")]
    assert comm[0]["args"]["Process Group Ranks"] == "[0, 1]"
    assert comm[0]["args"]["Collective name"] == "allreduce"
    mirrors = [e for e in parsed["2025"]["traceEvents"] if e.get("cat") == "gpu_user_annotation"]
    assert {e["name"] for e in mirrors} == {"ProfilerStep#0", "nccl:all_reduce"}

    old = [e for e in parsed["2021"]["traceEvents"] if e.get("cat") == "Kernel"]
    assert old[0]["tid"] == "stream 7"
    ops = [e for e in parsed["2021"]["traceEvents"] if e.get("cat") == "Operator"]
    assert any("Call stack" in e["args"] for e in ops)
    amd = [e for e in parsed["amd"]["traceEvents"] if e.get("cat") == "kernel"]
    assert {e["args"]["kind"] for e in amd} == {"Dispatch Kernel"}
    assert {e["pid"] for e in amd} == {kineto.device_id("amd", 1)} == {3}
    api = {e["name"] for e in parsed["amd"]["traceEvents"] if e.get("cat") == "cuda_runtime"}
    assert {"hipLaunchKernel", "hipEventRecord"} <= api
    assert not any(name.startswith("cu") for name in api)


def test_rows_begin_as_in_real_files() -> None:
    text = kineto.text(scenarios.launch_bound(steps=1), 0)
    for event in load(text)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] != "Trace":
            keys = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
            assert list(event) == keys


def test_python_functions_know_their_callers() -> None:
    events = events_of(kineto.text(scenarios.two_threads(), 0))
    functions = {e["args"]["Python id"]: e for e in events if e.get("cat") == "python_function"}
    roots = 0
    for event in functions.values():
        parent = event["args"]["Python parent id"]
        roots += parent is None
        if parent is not None:
            assert functions[parent]["ts"] < event["ts"]
    assert roots == 1


def test_instants_and_sync_rows() -> None:
    run = scenarios.two_threads()
    with_sync = events_of(kineto.text(run, 0, sync_events=True))
    kinds = {e["name"] for e in with_sync if e.get("cat") == "cuda_sync"}
    assert kinds == {"Context Sync"}
    assert not [e for e in events_of(kineto.text(run, 0)) if e.get("cat") == "cuda_sync"]
    memory = [e for e in with_sync if e["name"] == "[memory]"]
    assert len(memory) == len(run.ranks[0].memory)
    assert [e["args"]["Total Allocated"] for e in memory][:4] == [1 << 20, 2 << 20, 3 << 20, 0]


def test_the_loader_is_named_as_torch_names_it() -> None:
    names = Counter(e["name"] for e in events_of(kineto.text(scenarios.dataloader_starved(), 0)))
    assert names[DATALOADER] == 5


@pytest.mark.parametrize("gz", [False, True])
def test_files(tmp_path: Path, gz: bool) -> None:
    run = scenarios.exposed_communication(ranks=3, steps=1)
    files = kineto.write(run, tmp_path / "out", dialect="2025", gz=gz)
    assert [f.name.partition(".")[0] for f in files] == ["rank0", "rank1", "rank2"]
    for number, file in enumerate(files):
        data = file.read_bytes()
        text = (gzip.decompress(data) if gz else data).decode()
        assert load(text)["distributedInfo"]["rank"] == number
    assert files[0].read_bytes() == kineto.write(run, tmp_path, gz=gz)[0].read_bytes()
