"""Random small traces: every analysis answers, and its sums agree with plain counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sightline
from sightline.core import registry
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from support import sweep
from support import traces as t
from support.campaigns import examples

DEVICE_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
NAMES = ("gemm", "add", "ncclDevKernel_AllReduce", "Memcpy HtoD (Pinned -> Device)", "Memset")

tenths = st.integers(0, 400).map(lambda n: f"{n / 10:.1f}")
device_events = st.builds(
    lambda name, ts, dur, number, device, stream: t.kernel(
        name,
        ts,
        dur,
        number,
        device=device,
        stream=stream,
        cat="gpu_memcpy" if "Memcpy" in name else "gpu_memset" if name == "Memset" else "kernel",
    ),
    st.sampled_from(NAMES),
    tenths,
    st.sampled_from(["0", "0.1", "3.7", "20", "80.05"]),
    st.integers(1, 8),
    st.integers(0, 1),
    st.integers(7, 8),
)
host_events = st.builds(
    lambda kind, ts, dur, number: {
        "launch": t.launch(ts, dur, number),
        "sync": t.call("cudaDeviceSynchronize", ts, dur),
        "wait": t.call("cudaStreamWaitEvent", ts, dur),
        "alloc": t.call("cudaMalloc", ts, dur),
        "op": t.op("aten::mm", ts, dur),
        "mark": t.host("user_annotation", "mark", ts, dur),
        "step": t.step(number, ts, dur),
    }[kind],
    st.sampled_from(["launch"] * 4 + ["sync", "wait", "alloc", "op", "op", "mark", "step"]),
    tenths,
    st.sampled_from(["0", "0.5", "5", "30"]),
    st.integers(1, 8),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("random")


def open_possible(path: Path) -> Run:
    """A trace whose times can be: what the product repairs (opening/impossible_times.py), plain
    counting takes as it stands.
    """
    run = sightline.open(str(path))
    assume(not run.table("quality").get_column("kind").str.starts_with("impossible_").any())
    return run


def totals(frame: pl.DataFrame, column: str) -> dict[tuple[int, int], int]:
    rows = frame.group_by("rank", "device_id").agg(pl.col(column).sum()).rows()
    return {(rank, device): value for rank, device, value in rows}


def check(run: Run, document: dict[str, Any]) -> None:
    parts = {
        (r["rank"], r["device_id"]): {n: r[n] for n in ("window_ns", *DEVICE_PARTS)}
        for r in run.ask("breakdown").to_dicts()
    }
    ops = sweep.operations(document)
    assert parts == {(0, device): sweep.breakdown(mine) for device, mine in ops.items()}
    idle = {key: row["idle_ns"] for key, row in parts.items()}
    assert totals(run.ask("idle"), "total_ns") == idle
    launched = run.ask("kernel_launches") if run.rows("host_ops") else None
    if launched is not None and launched.height:
        assert launched.select(pl.col("queue_ns", "queue_depth", "api_ns").min()).row(0) >= (
            0,
            0,
            0,
        )
    lengths = sum(end - start for mine in ops.values() for start, end, _ in mine)
    copies = run.ask("memcpy").get_column("total_ns").sum()
    assert run.ask("kernels").get_column("total_ns").sum() + copies == lengths
    if run.rows("host_ops"):
        assert run.ask("ops").get_column("device_self_ns").sum() == lengths


@given(st.lists(device_events, min_size=1, max_size=12), st.lists(host_events, max_size=12))
@settings(max_examples=examples(25))
def test_answers_of_random_traces(folder: Any, device: list[t.Event], host: list[t.Event]) -> None:
    path = t.write(folder, [*host, *device])
    run = open_possible(path)
    for name in registry.list_names("analyses"):
        try:
            run.ask(name)
        except MissingDataError:
            continue
    check(run, sweep.parse(path))


@given(st.lists(device_events, min_size=1, max_size=12), st.integers(0, 300), st.integers(1, 300))
@settings(max_examples=examples(30))
def test_windows_of_random_traces(
    folder: Any, device: list[t.Event], first: int, length: int
) -> None:
    """A window after a device's first operation: all parts are cut to it, and still sum to it."""
    path = t.write(folder, device)
    run = open_possible(path).with_window(f"{first / 10}us..{(first + length) / 10}us")
    want = {}
    for number, ops in sweep.operations(sweep.parse(path)).items():
        start = min(op[0] for op in ops) + first * 100
        end = start + length * 100
        inside = [(max(a, start), min(b, end), kind) for a, b, kind in ops]
        edges = [(start, start, "compute"), (end, end, "compute")]
        want[0, number] = sweep.breakdown([op for op in inside if op[0] <= op[1]] + edges)
    got = {
        (r["rank"], r["device_id"]): {n: r[n] for n in ("window_ns", *DEVICE_PARTS)}
        for r in run.ask("breakdown").to_dicts()
    }
    assert got == want
