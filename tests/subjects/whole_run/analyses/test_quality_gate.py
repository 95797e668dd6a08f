"""quality_gate: what a recording lacks, and which findings that concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support import exports
from support.simulated import simulated
from support.traces import TID, Event, call, event, host, kernel, launched, op, opened, step


def effects(run: Run) -> dict[str, str]:
    return dict(run.ask("quality_gate").select("check", "effect").rows())


def test_a_clean_recording_passes() -> None:
    assert set(effects(simulated("healthy").run).values()) == {"ok"}


def test_kernels_without_length_or_host(tmp_path: Path) -> None:
    seen = effects(opened(tmp_path, [kernel("k", 10 * i, 0) for i in range(20)]))
    assert seen["zero durations"] == "lowers"
    assert seen["host"] == "blocks"


def test_kernels_that_start_before_their_launch_in_one_step(tmp_path: Path) -> None:
    early = [launched(10 * i + 5, kernel("k", 10 * i, 3), dur=2) for i in range(20)]
    seen = effects(opened(tmp_path, [*early, step(1, 0, 300)]))
    assert seen["clocks"] == "lowers"
    assert seen["steps"] == "lowers"


def test_no_device(tmp_path: Path) -> None:
    assert effects(opened(tmp_path, [call("cudaMalloc", 0, 5)]))["device"] == "blocks"


def test_a_profiler_that_takes_its_time(tmp_path: Path) -> None:
    """800 of 1,050 µs."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            host("overhead", "Buffer Flush", 120, 770, tid=TID + 1),
            launched(900, kernel("b", 910, 150)),
        ],
    )
    assert effects(run)["profiler overhead"] == "lowers"


def wait(start: int, recorded_by: int) -> Event:
    args = {"cuda_sync_kind": "Stream Wait Event", "stream": 7, "device": 0}
    recorded = {"wait_on_cuda_event_record_corr_id": recorded_by}
    return event("cuda_sync", "Wait", start, 1, pid=0, tid=7, **args, **recorded)


def test_waits_that_name_a_record_of_the_future_or_none(tmp_path: Path) -> None:
    record = call("cudaEventRecord", 50, 1, 9)
    early = opened(tmp_path / "early", [kernel("k", 10, 5), record, wait(20, 9)])
    assert effects(early)["records"] == "lowers"
    late = opened(tmp_path / "late", [kernel("k", 10, 5), record, wait(60, 9), wait(61, -1)])
    assert effects(late)["records"] == "ok"
    gate = late.ask("quality_gate").filter(check="waits")
    assert gate.get_column("count").to_list() == [1]


def test_sequence_numbers_of_several_backward_operations(tmp_path: Path) -> None:
    prefix = "autograd::engine::evaluate_function: "
    nodes = [op(f"{prefix}{n}", 10 * i, 5) for i, n in enumerate(("Mul", "Add", "Mul"))]
    for node, number in zip(nodes, (3, 3, 4), strict=True):
        node["args"]["Sequence number"] = number
    assert effects(opened(tmp_path, [kernel("k", 0, 5), *nodes]))["sequence numbers"] == "lowers"


@pytest.mark.corpus
def test_what_kineto_repaired_shows(corpus: Path) -> None:
    """Its own traces of before and after it named the record that a wait is for."""
    folder = corpus / "kineto/pytorch__kineto/docs/traces"
    gates = [
        sightline.open(str(folder / f"{name}_fix_trace.json")).ask("quality_gate")
        for name in ("before", "after")
    ]
    assert [g.filter(check="waits").get_column("count").item() for g in gates] == [2, 0]


def test_migrations_of_managed_memory_have_no_launch(tmp_path: Path) -> None:
    """Three of four operations: what moves them is a page fault, no call."""
    assert effects(exports.with_unified_memory(tmp_path))["launches"] == "ok"
