"""Traces that are read slice by slice: the same tables, wherever the slices are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.system.ctf.reading import read_recording
from support.campaigns import examples
from support.ctf_traces import Bits, declare_events, write_trace
from support.kernel_traces import KernelTrace, switch


def read(folder: Path, **pieces: int) -> Imported:
    return read_recording(Source(folder, folder.name), ImportOptions(), **pieces)


def list_tables(imported: Imported) -> dict[str, pl.DataFrame]:
    large = {name: frame.collect() for name, frame in imported.large.items()}
    return {n: f.drop(drop_null(f)) for n, f in (imported.tables | large).items() if f.height}


def drop_null(frame: pl.DataFrame) -> list[str]:
    return [name for name in frame.columns if frame[name].null_count() == frame.height]


def assert_same(folder: Path, slice_bytes: int, batch_events: int) -> Imported:
    """The same tables and notes of one slice and of many; what of many is on disk, is in order."""
    whole = read(folder)
    cut = read(folder, slice_bytes=slice_bytes, batch_events=batch_events)
    expected, found = list_tables(whole), list_tables(cut)
    assert sorted(found) == sorted(expected)
    for name, frame in expected.items():
        assert_frame_equal(found[name], frame, check_column_order=False)
    assert sorted(map(str, cut.quality)) == sorted(map(str, whole.quality))
    assert cut.recording == whole.recording
    return cut


events = st.lists(
    st.tuples(
        st.integers(0, 2),  # core
        st.integers(0, 3),  # ns since the event before
        st.sampled_from(
            [
                *("switch", "wake", "softirq_entry", "softirq_exit", "read", "read_exit"),
                *("futex", "sent", "received"),
            ]
        ),
        st.integers(1, 4),  # thread
    ),
    max_size=60,
)


@given(events, st.integers(1, 7))
@settings(max_examples=examples(60))
def test_kernel_traces_of_any_events(tmp_path_factory: Any, steps: Any, batch: int) -> None:
    """Ends without a begin, begins without an end, and what is open over many slices, too."""
    trace, now = KernelTrace(), 0
    for core, pause, what, tid in steps:
        now += pause
        if what == "switch":
            trace.add(now, core, "sched_switch", *switch(tid, tid % 3, tid % 4 + 1))
        elif what == "wake":
            trace.wake(now, core, tid)
        elif what.startswith("softirq"):
            trace.add(now, core, what, (tid, 32))
        elif what in ("sent", "received"):
            trace.packet(now, core, what, (tid, 80, now, 1, 0x10), is_v6=tid % 2 == 0)
        elif what == "read":
            trace.add(now, core, "syscall_entry_read", (5, 32))
        elif what == "read_exit":
            trace.add(now, core, "syscall_exit_read", (tid, 64))
        else:
            trace.futex(now, core, now + tid, core, 0xBEEF)
    if not steps:
        return
    folder = trace.write(tmp_path_factory.mktemp("t") / "kernel")
    try:
        assert_same(folder, 1, batch)
    except DamagedError:
        with pytest.raises(DamagedError):
            read(folder)


calls = st.lists(
    st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 3), st.booleans()), max_size=50
)


@given(calls, st.integers(1, 5))
@settings(max_examples=examples(60))
def test_nested_calls_of_threads(tmp_path_factory: Any, steps: Any, batch: int) -> None:
    """Functions of three threads, nested in any way, with marks between them."""
    if not steps:
        return
    names = ["lttng_ust_cyg_profile:func_entry", "lttng_ust_cyg_profile:func_exit", "app:mark"]
    bits, now = Bits(), 0
    for pause, ends, tid, is_mark in steps:
        now += pause
        number = 2 if is_mark and not ends else int(ends)
        bits.integer(number, 8).integer(now, 64).integer(9, 32).integer(tid, 32)
        bits.integer(0x400000 + now % 5, 64)
    fields = [(name, "uint64_t addr;") for name in names]
    context = "event.context := struct { uint32_t vpid; uint32_t vtid; };"
    folder = tmp_path_factory.mktemp("u") / "ust"
    write_trace(folder, declare_events(fields, context=context), bits.bytes())
    try:
        assert_same(folder, 1, batch)
    except DamagedError:
        with pytest.raises(DamagedError):
            read(folder)


def test_tables_of_many_slices_are_made_while_they_are_written(tmp_path: Path) -> None:
    trace = KernelTrace().switch(0, 0, 0, 0, 7)
    for at in range(10, 4000, 10):
        trace.read(at, at + 4, 0, 1)
    trace.futex(5, 0, 3990, 0, 0xBEEF)  # around all others
    cut = assert_same(trace.write(tmp_path / "kernel"), 1, 5)
    assert set(cut.large) == {"host_ops"}
    ops = cut.large["host_ops"].collect()
    assert ops.select("name", "depth", "parent_id").row(0) == ("futex", 0, None)
    assert ops.get_column("host_op_id").to_list() == list(range(ops.height))


@pytest.mark.parametrize("at", [200, 399])
def test_an_event_with_an_impossible_time_moves_no_other(tmp_path: Path, at: int) -> None:
    """A damaged time, 146 years later than all others: it comes last, and what follows is read."""
    bits = Bits()
    for number in range(400):
        bits.integer(0, 8).integer(2**62 if number == at else 10 * number, 64)
        bits.integer(number, 32)
    folder = write_trace(
        tmp_path / "u", declare_events([("app:mark", "uint32_t n;")]), bits.bytes()
    )
    ops = list_tables(assert_same(folder, 1, 7))["host_ops"]
    payloads = ops.get_column("payload").to_list()
    assert payloads[-1] == f'{{"n":{at}}}'
    assert payloads[:-1] == [f'{{"n":{n}}}' for n in range(400) if n != at]


def test_of_one_switch_the_thread_that_leaves_comes_first(tmp_path: Path) -> None:
    trace = KernelTrace()
    for at in range(100):
        trace.switch(at, 0, 7 + at % 2, 0, 7 + (at + 1) % 2)
    rows = read(trace.write(tmp_path / "k")).tables["sched_events"].get_column("switched_in")
    assert rows.to_list() == [False, True] * 100


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "ctf/efficios__babeltrace/ctf-traces/succeed/lttng-tracefile-rotation",
        "ctf/efficios__babeltrace/ctf-traces/succeed/multi-domains",
        "ctf/eclipse-tracecompass__tracecompass-test-traces/exp",
        "ctf/eclipse-tracecompass__tracecompass-test-traces/debuginfo-test-app3",
    ],
)
def test_real_traces(corpus: Path, name: str) -> None:
    assert_same(corpus / name, 20_000, 500)
