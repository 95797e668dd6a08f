"""Analyses of simulated recordings against what the simulator knows.

Dialects differ in the form of the file, not in what happened: one of them gets all the seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from support.campaigns import sample
from support.simulated import DIALECT_NAMES, SEEDS, WITH_DEVICE, Simulated, simulated
from synth.truth import DeviceTruth, Sums

CASES = [(name, seed, "2025") for name in WITH_DEVICE for seed in SEEDS] + [
    (name, 0, dialect) for name in WITH_DEVICE for dialect in DIALECT_NAMES if dialect != "2025"
]
PARTS = ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")


@pytest.fixture(params=sample(CASES, 10), ids=lambda case: "-".join(map(str, case)))
def case(request: pytest.FixtureRequest) -> Simulated:
    return simulated(*request.param)


def devices(case: Simulated) -> dict[tuple[int, int], DeviceTruth]:
    """The truth by (rank, number of the device in the recording)."""
    return {
        (rank, case.device_id(number)): truth
        for rank, found in case.truth.ranks.items()
        for number, truth in found.devices.items()
    }


def by_device(rows: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["rank"], row["device_id"]), []).append(row)
    return found


def test_breakdown_is_exact(case: Simulated) -> None:
    rows = case.run.ask("breakdown").to_dicts()
    got = {(r["rank"], r["device_id"]): {part: r[part] for part in PARTS} for r in rows}
    want = {
        key: {part: getattr(truth.breakdown, part) for part in PARTS}
        for key, truth in devices(case).items()
    }
    assert got == want


def test_windows_are_exact(case: Simulated) -> None:
    rows = case.run.ask("windows").to_dicts()
    got = {(r["rank"], r["device_id"]): (r["window_start_ns"], r["window_end_ns"]) for r in rows}
    assert got == {
        key: (t.breakdown.start_ns + case.origin_ns, t.breakdown.end_ns + case.origin_ns)
        for key, t in devices(case).items()
    }


def test_kernels_are_exact(case: Simulated) -> None:
    want: dict[str, list[Sums]] = {}
    for truth in devices(case).values():
        for name, sums in truth.kernels.items():
            want.setdefault(name, []).append(sums)
    rows = {row["name"]: row for row in case.run.ask("kernels").to_dicts()}
    assert set(rows) == set(want)
    for name, parts in want.items():
        row, total = rows[name], sum(p.total_ns for p in parts)
        count = sum(p.instances for p in parts)
        assert (row["instances"], row["total_ns"]) == (count, total)
        assert row["min_ns"] == min(p.min_ns for p in parts)
        assert row["max_ns"] == max(p.max_ns for p in parts)
        assert row["mean_ns"] == pytest.approx(total / count)


def test_copies_are_exact(case: Simulated) -> None:
    """Per device: number, time and bytes of all copies and fills."""
    if not any(truth.copies for truth in devices(case).values()):
        return
    rows = by_device(case.run.ask("memcpy").to_dicts())
    for key, truth in devices(case).items():
        mine, want = rows.get(key, []), truth.copies.values()
        assert sum(r["copies"] for r in mine) == sum(s.instances for s in want)
        assert sum(r["total_ns"] for r in mine) == sum(s.total_ns for s in want)
        assert sum(r["bytes"] for r in mine) == sum(s.bytes for s in want)


def test_gaps_are_exact(case: Simulated) -> None:
    rows = by_device(case.run.ask("idle_gaps").to_dicts())
    for key, truth in devices(case).items():
        got = [(r["start_ns"] - case.origin_ns, r["end_ns"] - case.origin_ns) for r in rows[key]]
        assert got == list(truth.breakdown.gaps)
        assert all(r["duration_ns"] == r["end_ns"] - r["start_ns"] for r in rows[key])


def test_causes_sum_to_the_idle_time(case: Simulated) -> None:
    rows = by_device(case.run.ask("idle").to_dicts())
    for key, truth in devices(case).items():
        assert sum(r["total_ns"] for r in rows[key]) == truth.breakdown.idle_ns
        assert "unknown" in {r["cause"] for r in rows[key]}


def test_causes_are_those_of_the_simulator(case: Simulated) -> None:
    """All but 1 % of each device's window has the right cause.

    The recording says less than the simulator knows: two causes of a gap of a few µs cannot
    always be told apart.
    """
    rows = by_device(case.run.ask("idle").to_dicts())
    for key, truth in devices(case).items():
        got = Counter({r["cause"]: r["total_ns"] for r in rows[key]})
        want = Counter(truth.idle_by_cause())
        wrong_ns = (got - want).total()
        assert wrong_ns <= truth.breakdown.window_ns / 100, (got - want, want - got)


def test_planted_cause_is_the_largest(case: Simulated) -> None:
    """Where a scenario plants a cause of idle time, that cause leads on every device."""
    for key, truth in devices(case).items():
        causes = truth.idle_by_cause()
        if case.program.planted not in causes:
            continue
        rows = by_device(case.run.ask("idle").to_dicts())[key]
        assert rows[0]["cause"] == max(causes, key=lambda cause: causes[cause])


def test_steps_are_exact(case: Simulated) -> None:
    """Annotations of 2021 cannot be told from operators, but steps can, by their name."""
    want = {
        (rank, start + case.origin_ns, end + case.origin_ns)
        for rank, truth in case.truth.ranks.items()
        for _, start, end in truth.steps
    }
    rows = case.run.ask("steps").to_dicts()
    assert {(r["rank"], r["host_start_ns"], r["host_end_ns"]) for r in rows} == want
    assert {(r["rank"], r["end_ns"]) for r in rows} == set(_list_step_ends(case))
    for row in rows:
        parts = [row[part] for part in PARTS[1:]]
        assert sum(parts) == row["duration_ns"] == row["end_ns"] - row["start_ns"]


def _list_step_ends(case: Simulated) -> Iterator[tuple[int, int]]:
    """The later of each step's host end and its last operation's, of streams that all steps use."""
    for rank, truth in case.truth.ranks.items():
        spans = [(start, end) for _, start, end in truth.steps]
        launched: list[tuple[int, Any, int]] = []
        for op in next(r for r in case.program.ranks if r.rank == rank).ops:
            if op.launch is not None:
                step = sum(start <= op.launch.start_ns for start, _ in spans) - 1
                launched.append((step, (op.device, op.stream), op.end_ns))
        late = range(min(1, len(spans) - 1), len(spans))
        used = {
            lane
            for _, lane, _ in launched
            if {step for step, mine, _ in launched if mine == lane} >= set(late)
        }
        clock = 0
        for number, (_, end) in enumerate(spans):
            mine = [
                e for step, lane, e in launched if step == number and (lane in used or not used)
            ]
            clock = max([clock, end, *mine])
            yield rank, clock + case.origin_ns


def test_overlap_agrees_with_the_breakdown(case: Simulated) -> None:
    for row, parts in zip(
        case.run.ask("overlap").to_dicts(), case.run.ask("breakdown").to_dicts(), strict=True
    ):
        assert row["compute_ns"] == parts["compute_ns"]
        assert row["comm_ns"] - row["comm_overlap_ns"] == parts["exposed_comm_ns"]
        assert row["copy_ns"] - row["copy_overlap_ns"] == parts["exposed_copy_ns"]


def test_streams_hold_all_operations(case: Simulated) -> None:
    rows = by_device(case.run.ask("streams").to_dicts())
    for key, truth in devices(case).items():
        ops = [op for op in case.program.ranks[key[0]].ops if case.device_id(op.device) == key[1]]
        assert {r["stream_id"] for r in rows[key]} == {op.stream for op in ops}
        assert sum(r["ops"] for r in rows[key]) == len(ops)
        # In the simulator the operations of one stream never overlap.
        assert sum(r["busy_ns"] for r in rows[key]) == sum(
            s.total_ns for s in [*truth.kernels.values(), *truth.copies.values()]
        )


def test_launches_are_joined_to_their_calls(case: Simulated) -> None:
    """API time and queue time of each operation whose launch was recorded."""
    want = Counter(
        (
            rank.rank,
            op.launch.start_ns + case.origin_ns,
            op.launch.end_ns - op.launch.start_ns,
            max(0, op.start_ns - op.launch.end_ns),
            op.end_ns - op.start_ns,
        )
        for rank in case.program.ranks
        for op in rank.ops
        if op.launch.recorded
    )
    rows = case.run.ask("kernel_launches").to_dicts()
    fields = ("rank", "api_start_ns", "api_ns", "queue_ns", "duration_ns")
    assert Counter(tuple(r[f] for f in fields) for r in rows) == want
    assert all(r["queue_depth"] >= 0 for r in rows)
