"""Perfetto traces: packets of Google's library, Perfetto's own tests and engine, and damage."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.system import perfetto
from sightline.formats.system.perfetto.reading import read_trace
from sightline.views.exports import perfetto as exporter
from support import traces
from support.campaigns import sample
from support.corpus import list_recordings
from support.perfetto_engine import open_engine
from support.perfetto_packets import CLEARED, NEEDS, read_text_trace, write_trace

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
THREAD = {"uuid": 7, "thread": {"pid": 40, "tid": 41, "thread_name": "main"}}


def read(folder: Path, content: bytes) -> Imported:
    path = folder / "run.pftrace"
    path.write_bytes(content)
    imported: Imported = perfetto.read(Source(path, path.name), ImportOptions())
    return imported


def kinds(imported: Imported) -> dict[str, int | None]:
    return {q.kind: q.count for q in imported.quality}


def begin(time: int, name: str, **fields: Any) -> dict[str, Any]:
    event = {"type": BEGIN, "track_uuid": 7, "name": name, **fields}
    return {"timestamp": time, "track_event": event}


def end(time: int, track: int = 7) -> dict[str, Any]:
    return {"timestamp": time, "track_event": {"type": END, "track_uuid": track}}


def test_ranges_nest_on_their_thread(tmp_path: Path) -> None:
    """An end closes the innermost range; one that finds none is ignored, as in Perfetto."""
    packets = [
        {"track_descriptor": THREAD},
        end(90),
        begin(100, "outer", categories=["cpu_op"]),
        begin(110, "inner", categories=["hip_api"]),
        end(120),
        begin(120, "next", debug_annotations=[{"name": "n", "int_value": 3}]),
        end(150),
        end(200),
        {"timestamp": 210, "track_event": {"type": INSTANT, "track_uuid": 7, "name": "mark"}},
        begin(220, "open"),
        {"timestamp": 230, "track_event": {"type": INSTANT, "track_uuid": 7, "name": "last"}},
    ]
    imported = read(tmp_path, write_trace(*packets))
    host = imported.tables["host_ops"]
    columns = ("start_ns", "end_ns", "name", "layer", "depth", "range_kind", "payload")
    assert host.select(columns).rows() == [
        (100, 200, "outer", "op", 0, None, None),
        (110, 120, "inner", "runtime", 1, None, None),
        (120, 150, "next", "annotation", 1, "pushpop", '{"n":3}'),
        (220, 230, "open", "annotation", 0, "pushpop", None),
        (210, 210, "mark", "annotation", 0, "mark", None),
        (230, 230, "last", "annotation", 0, "mark", None),
    ]
    assert set(host.select("pid", "tid").rows()) == {(40, 41)}
    assert kinds(imported) == {"unclosed_ranges": 1, "unmatched_ends": 1}
    assert imported.tables["threads"].rows() == [(40, 41, "main", None)]


def test_interned_names_end_with_the_state_that_holds_them(tmp_path: Path) -> None:
    names = {"event_names": [{"iid": 1, "name": "first"}]}
    again = {"event_names": [{"iid": 1, "name": "second"}]}
    event = {"type": INSTANT, "name_iid": 1}
    defaults = {"track_event_defaults": {"track_uuid": 7}}
    packets = [
        {"track_descriptor": THREAD},
        {"sequence_flags": CLEARED, "interned_data": names, "trace_packet_defaults": defaults},
        {"timestamp": 1, "sequence_flags": NEEDS, "track_event": event},
        {"sequence_flags": CLEARED, "interned_data": again, "trace_packet_defaults": defaults},
        {"timestamp": 2, "sequence_flags": NEEDS, "track_event": event},
        # Lost packets: what needs the state is left out until it is whole again.
        {"timestamp": 3, "sequence_flags": NEEDS, "track_event": event,
         "previous_packet_dropped": 1},
        # Another sequence never had a state.
        {"timestamp": 4, "sequence_flags": NEEDS, "track_event": event,
         "trusted_packet_sequence_id": 2},
    ]  # fmt: skip
    imported = read(tmp_path, write_trace(*packets))
    host = imported.tables["host_ops"]
    assert host.select("start_ns", "name", "tid").rows() == [(1, "first", 41), (2, "second", 41)]
    assert kinds(imported) == {"lost_packets": 1, "skipped_packets": 2}


def test_clocks(tmp_path: Path) -> None:
    """By way of a third clock; increments of µs; a clock of one sequence's own."""
    packets = [
        {"track_descriptor": THREAD},
        {"clock_snapshot": {"clocks": [{"clock_id": 6, "timestamp": 1_000},
                                       {"clock_id": 3, "timestamp": 400}]}},
        {"clock_snapshot": {"clocks": [{"clock_id": 3, "timestamp": 500},
                                       {"clock_id": 64, "timestamp": 7, "is_incremental": True,
                                        "unit_multiplier_ns": 1000}]}},
        {**begin(2_000, "boot"), "timestamp_clock_id": 6},
        {**end(410), "timestamp_clock_id": 3},  # 1010: ends nothing that began before it
        {**begin(5, "own"), "timestamp_clock_id": 64},  # 7 + 5 µs: 12 000 of its own
        {**end(2), "timestamp_clock_id": 64},
        {**begin(9, "lost"), "timestamp_clock_id": 99},
    ]  # fmt: skip
    imported = read(tmp_path, write_trace(*packets))
    rows = imported.tables["host_ops"].select("name", "start_ns", "end_ns").rows()
    # 12 000 on clock 64 is 12 000 − 7000 + 500 = 5500 on clock 3, and 6100 on the trace's.
    assert rows == [("boot", 2_000, 8_100), ("own", 6_100, 8_100)]
    assert kinds(imported) == {"unknown_clock": 1, "unclosed_ranges": 1, "unmatched_ends": 1}


STATE = {
    "sequence_flags": CLEARED,
    "interned_data": {
        "graphics_contexts": [{"iid": 1, "pid": 40}],
        "gpu_specifications": [
            {"iid": 1, "name": "stream 7"},
            {"iid": 2, "name": "Kernel"},
            {"iid": 3, "name": "Memcpy HtoD"},
        ],
        "compute_kernels": [
            {"iid": 1, "name": "_Z3addPf", "demangled_name": "add(float*)", "arch": "sm_90",
             "args": [{"name_iid": 1, "uint_value": 32}]}
        ],
        "compute_arg_names": [{"iid": 1, "name": "registers_per_thread"}],
    },
}  # fmt: skip


def stage(time: int, duration: int, number: int, kind: int, **fields: Any) -> dict[str, Any]:
    event = {"event_id": number, "duration": duration, "gpu_id": 1, "context": 1,
             "hw_queue_iid": 1, "stage_iid": kind, **fields}  # fmt: skip
    return {"timestamp": time, "sequence_flags": NEEDS, "gpu_render_stage_event": event}


def test_render_stages_and_their_launches(tmp_path: Path) -> None:
    packets = [
        {"track_descriptor": THREAD},
        STATE,
        begin(10, "cudaLaunchKernel", categories=["cuda_runtime"],
              gpu_correlation={"render_stage_submission_event_ids": [5]}),
        end(20),
        stage(30, 25, 5, 2, kernel_iid=1, launch={
            "grid_size": {"x": 256, "y": 2}, "workgroup_size": {"x": 128},
            "args": [{"name": "shared_mem_dynamic", "uint_value": 4096}]}),
        stage(60, 5, 6, 3, extra_data=[{"name": "bytes", "value": "1048576"}]),
    ]  # fmt: skip
    tables = read(tmp_path, write_trace(*packets)).tables
    columns = (
        "start_ns", "end_ns", "device_id", "stream_id", "pid", "kind", "name", "mangled_name",
        "grid_x", "grid_y", "grid_z", "block_x", "registers_per_thread", "dynamic_shared_bytes",
        "bytes", "copy_kind", "launch_id",
    )  # fmt: skip
    blank = (None,) * 7  # no shape, no registers, no shared memory
    assert tables["device_ops"].select(columns).rows() == [
        (30, 55, 1, 7, 40, "kernel", "add(float*)", "_Z3addPf", 256, 2, 1, 128, 32, 4096, None,
         None, 0),
        (60, 65, 1, 7, 40, "memcpy", "Memcpy HtoD", *blank, 1_048_576, "HtoD", None),
    ]  # fmt: skip
    assert tables["devices"].select("device_id", "vendor").rows() == [(1, "nvidia")]


def test_kernels_written_twice_count_once(tmp_path: Path) -> None:
    """torch.profiler writes each kernel as a track event and, cut at the next one, as a stage."""
    gpu = {"uuid": 9, "name": "stream 7"}
    kernel = {"type": BEGIN, "track_uuid": 9, "name": "add", "categories": ["kernel"],
              "debug_annotations": [{"name": "device", "int_value": 1},
                                    {"name": "stream", "int_value": 7},
                                    {"name": "correlation", "int_value": 5},
                                    {"name": "grid", "array_values": [{"int_value": 4},
                                                                      {"int_value": 2},
                                                                      {"int_value": 1}]}],
              "flow_ids": [77]}  # fmt: skip
    packets = [
        {"track_descriptor": THREAD},
        {"track_descriptor": gpu},
        STATE,
        begin(10, "cudaLaunchKernel", categories=["cuda_runtime"], flow_ids=[77]),
        end(20),
        {"timestamp": 30, "track_event": kernel},
        end(60, 9),
        stage(30, 25, 5, 2, kernel_iid=1),
    ]
    ops = read(tmp_path, write_trace(*packets)).tables["device_ops"]
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "grid_x", "grid_y", "launch_id")
    assert ops.select(columns).rows() == [(30, 60, 1, 7, 4, 2, 0)]


def test_rocprof(tmp_path: Path) -> None:
    """Dispatches and copies are categories; the API call has the same flow."""
    packets = [
        {"track_descriptor": THREAD},
        {"track_descriptor": {"uuid": 9, "name": "COMPUTE Agent [4] QUEUE [0] GPU"}},
        begin(10, "hipLaunchKernel", categories=["hip_api"], flow_ids=[3],
              debug_annotations=[{"name": "corr_id", "int_value": 3}]),
        end(20),
        {"timestamp": 30, "track_event": {
            "type": BEGIN, "track_uuid": 9, "name": "add(float*)",
            "categories": ["kernel_dispatch"],
            "flow_ids": [3], "debug_annotations": [
                {"name": "agent", "string_value": "Agent 4"}, {"name": "corr_id", "int_value": 3},
                {"name": "queue", "int_value": 2}]}},
        end(50, 9),
    ]  # fmt: skip
    run = sightline.open(str(_write(tmp_path, write_trace(*packets))))
    columns = (
        "start_ns",
        "end_ns",
        "device_id",
        "stream_id",
        "name",
        "correlation_id",
        "launch_id",
    )
    (row,) = run.table("device_ops").select(columns).rows()
    assert row == (30, 50, 4, 2, "add(float*)", 3, 0)
    assert run.table("devices").get_column("vendor").to_list() == ["amd"]


def _write(folder: Path, content: bytes, name: str = "run.pftrace") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_counters(tmp_path: Path) -> None:
    """Steps add up within a sequence's state; GPU counters cover the time since the last one."""
    counting = {"uuid": 3, "name": "loss", "counter": {"unit_name": "W", "unit_multiplier": 10,
                                                       "is_incremental": True}}  # fmt: skip
    specs = {"specs": [{"counter_id": 1, "name": "SM Active (%)"}]}

    def count(time: int, value: int) -> dict[str, Any]:
        event = {"type": COUNTER, "track_uuid": 3, "counter_value": value}
        return {"timestamp": time, "track_event": event}

    def sampled(time: int, value: float) -> dict[str, Any]:
        counter = {"counter_id": 1, "double_value": value}
        return {"timestamp": time, "gpu_counter_event": {"gpu_id": 2, "counters": [counter]}}

    packets = [
        {"track_descriptor": counting, "sequence_flags": CLEARED},
        count(10, 5),
        count(20, -2),
        {"sequence_flags": CLEARED},
        count(30, 1),
        {"timestamp": 0, "gpu_counter_event": {"gpu_id": 2, "counter_descriptor": specs}},
        sampled(100, 12.5),
        sampled(200, 50.0),
    ]
    rows = read(tmp_path, write_trace(*packets)).tables["counters"]
    columns = ("metric", "unit", "device_id", "from_ns", "time_ns", "value")
    assert rows.select(columns).rows() == [
        ("loss", "W", None, None, 10, 50.0),
        ("loss", "W", None, None, 20, 30.0),
        ("loss", "W", None, None, 30, 10.0),
        ("SM Active (%)", None, 2, None, 100, 12.5),
        ("SM Active (%)", None, 2, 100, 200, 50.0),
    ]


def test_samples_and_switches(tmp_path: Path) -> None:
    state = {
        "function_names": [{"iid": 1, "name": "main"}, {"iid": 2, "name": "work"}],
        "mapping_paths": [{"iid": 1, "name": "libapp.so"}],
        "mappings": [{"iid": 1, "path_string_ids": [1]}],
        "frames": [{"iid": 1, "function_name_id": 1, "mapping_id": 1},
                   {"iid": 2, "function_name_id": 2, "mapping_id": 1}],
        "callstacks": [{"iid": 1, "frame_ids": [1, 2]}],
    }  # fmt: skip
    taken = {"cpu": 3, "pid": 40, "tid": 41, "callstack_iid": 1}
    switch = {"prev_pid": 41, "prev_state": 1, "next_pid": 0}
    compact = {
        "switch_timestamp": [30, 5],
        "switch_prev_state": [2, 0],
        "switch_next_pid": [41, 50],
    }
    packets = [
        {"process_tree": {"threads": [{"tid": 41, "name": "main", "tgid": 40}]}},
        {"sequence_flags": CLEARED, "interned_data": state},
        {"timestamp": 5, "sequence_flags": NEEDS, "perf_sample": taken},
        {
            "ftrace_events": {
                "cpu": 3,
                "event": [{"timestamp": 9, "pid": 41, "sched_switch": switch}],
            }
        },
        {"ftrace_events": {"cpu": 2, "compact_sched": compact}},
    ]
    tables = read(tmp_path, write_trace(*packets)).tables
    frames = tables["frames"].select("function", "module").rows()
    stacks = tables["stacks"].select("stack_id", "parent_id", "frame_id", "depth").rows()
    assert (frames, stacks) == (
        [("main", "libapp.so"), ("work", "libapp.so")],
        [(0, None, 0, 0), (1, 0, 1, 1)],
    )
    samples = tables["cpu_samples"].select("time_ns", "pid", "tid", "cpu", "stack_id").rows()
    assert samples == [(5, 40, 41, 3, 1)]
    columns = ("time_ns", "pid", "tid", "cpu", "switched_in", "state")
    assert tables["sched_events"].select(columns).rows() == [
        (9, 40, 41, 3, False, "S"),
        (30, 40, 41, 2, True, None),
        (35, 40, 41, 2, False, "R"),
        (35, None, 50, 2, True, None),
    ]


def test_marks_of_android(tmp_path: Path) -> None:
    texts = [(10, "B|40|frame"), (20, "C|40|fps|60"), (30, "E|40\n"), (40, "S|40|async|1"),
             (50, "F|40|async|1")]  # fmt: skip
    events = [{"timestamp": t, "pid": 41, "print": {"buf": text}} for t, text in texts]
    tables = read(tmp_path, write_trace({"ftrace_events": {"cpu": 0, "event": events}})).tables
    host = tables["host_ops"].select("name", "start_ns", "end_ns", "pid", "tid").rows()
    assert host == [("frame", 10, 30, 40, 41), ("async", 40, 50, 40, None)]
    assert tables["counters"].select("metric", "value").rows() == [("fps", 60.0)]


def test_memory_of_android(tmp_path: Path) -> None:
    """Each source of memory under the engine's name: of a process, a GPU, the machine, in bytes."""
    of_kernel = [
        {"timestamp": 10, "pid": 41,
         "rss_stat": {"member": 1, "size": 8192, "curr": 1, "mm_id": 9}},
        # Another thread frees of the same memory; then one of memory that nobody was seen with.
        {"timestamp": 12, "pid": 77,
         "rss_stat": {"member": 1, "size": 4096, "curr": 0, "mm_id": 9}},
        {"timestamp": 13, "pid": 77, "rss_stat": {"member": 1, "size": 512, "curr": 0, "mm_id": 8}},
        {"timestamp": 14, "pid": 41,
         "rss_stat_throttled": {"curr": 1, "member": 0, "mm_id": 9, "size": 1024}},
        {"timestamp": 15, "pid": 1, "gpu_mem_total": {"gpu_id": 0, "pid": 40, "size": 300}},
        {"timestamp": 16, "pid": 1,
         "dma_heap_stat": {"inode": 5, "len": -4, "total_allocated": 96}},
    ]  # fmt: skip
    content = write_trace(
        {"process_tree": {"processes": [{"pid": 40, "cmdline": ["app"]}],
                          "threads": [{"tid": 41, "tgid": 40, "name": "main"}]}},
        {"timestamp": 5, "process_stats": {"processes": [{"pid": 40, "vm_rss_kb": 3,
                                                          "rss_anon_kb": 2}]}},
        {"timestamp": 6, "sys_stats": {"meminfo": [{"key": 3, "value": 7},
                                                   {"key": 99, "value": 1}]}},
        {"timestamp": 7, "gpu_mem_total_event": {"gpu_id": 0, "size": 500}},
        {"ftrace_events": {"cpu": 0, "event": of_kernel}},
    )  # fmt: skip
    rows = read(tmp_path, content).tables["counters"].sort("time_ns")
    assert rows.get_column("unit").unique().to_list() == ["bytes"]
    assert rows.select("time_ns", "metric", "device_id", "source", "value").rows() == [
        (5, "mem.rss", None, "app (40)", 3072.0),
        (5, "mem.rss.anon", None, "app (40)", 2048.0),
        (6, "MemAvailable", None, None, 7168.0),
        (7, "GPU Memory", 0, None, 500.0),
        (10, "mem.rss.anon", None, "app (40)", 8192.0),
        (12, "mem.rss.anon", None, "app (40)", 4096.0),
        (14, "mem.rss.file", None, "app (40)", 1024.0),
        (15, "GPU Memory", 0, "app (40)", 300.0),
        (16, "mem.dma_heap", None, None, 96.0),
    ]


@pytest.mark.parametrize("pack", ["gzip", "packets"])
def test_packed(pack: str, tmp_path: Path) -> None:
    plain = write_trace({"track_descriptor": THREAD}, *_many(500))
    if pack == "gzip":
        packed = gzip.compress(plain)
    else:
        packed = write_trace({"compressed_packets": zlib.compress(plain)})
    expected = read(tmp_path, plain).tables["host_ops"]
    assert expected.height == 500
    assert read(tmp_path, packed).tables["host_ops"].equals(expected)


def _many(count: int) -> list[dict[str, Any]]:
    return [p for i in range(count) for p in (begin(10 * i, f"r{i % 7}"), end(10 * i + 5))]


def test_our_own_export_reads_back_the_same(tmp_path: Path) -> None:
    events = [
        traces.op("outer", 0, 50),
        traces.op("inner", 5, 10),
        traces.launch(6, 2, 1),
        traces.kernel("one", 20, 10, correlation=1),
        traces.kernel("two", 25, 10, stream=9),
        traces.copy("Memcpy HtoD (Pinned -> Device)", 40, 5, 4096),
    ]
    run = traces.opened(tmp_path, events)
    (path,) = exporter.write(run, tmp_path / "run.perfetto-trace")
    back = sightline.open(str(path))
    device = ("name", "kind", "device_id", "stream_id", "start_ns", "end_ns", "copy_kind", "bytes",
              "grid_x", "block_x", "registers_per_thread")  # fmt: skip
    assert back.table("device_ops").select(device).rows() == (
        run.table("device_ops").select(device).rows()
    )
    spans = ("name", "start_ns", "end_ns")
    assert sorted(back.table("host_ops").select(spans).rows()) == sorted(
        run.table("host_ops").select(spans).rows()
    )
    assert _launches(back) == _launches(run) != []
    for question in ("breakdown", "kernels"):
        assert back.ask(question).equals(run.ask(question))


def _launches(run: sightline.Run) -> list[tuple[Any, ...]]:
    calls = run.table("host_ops").select(launch_id="host_op_id", call="name")
    ops = run.table("device_ops").join(calls, on="launch_id", how="inner")
    return sorted(ops.select("name", "start_ns", "call").rows())


def test_damage(tmp_path: Path) -> None:
    """Cuts and flips anywhere: what is whole is read, or a clear error, and never more rows."""
    state = dict(STATE)
    whole = write_trace(
        {"track_descriptor": THREAD}, state, *_many(40), *(stage(9 * i, 5, i, 2) for i in range(40))
    )
    rows = _count_rows(tmp_path, whole) or 0
    random = Random(5)
    for _ in sample(range(3000), 150):
        content = bytearray(whole)
        if random.random() < 0.3:
            del content[random.randrange(len(content)) :]
        for _ in range(random.randrange(1, 4)):
            if content:
                content[random.randrange(len(content))] = random.randrange(256)
        found = _count_rows(tmp_path, bytes(content))
        assert found is None or found <= rows + 4


def _count_rows(folder: Path, content: bytes) -> int | None:
    try:
        tables = read(folder, content).tables
    except DamagedError:
        return None
    return tables["host_ops"].height + tables["device_ops"].height


def test_a_cut_keeps_all_packets_before_it(tmp_path: Path) -> None:
    whole = write_trace({"track_descriptor": THREAD}, *_many(100))
    imported = read(tmp_path, whole[: len(whole) // 2])
    assert 45 <= imported.tables["host_ops"].height <= 55
    assert "cut_off" in kinds(imported)


def test_lengths_that_lie_cost_no_memory(tmp_path: Path) -> None:
    for length in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"):
        with pytest.raises(DamagedError, match="no packet"):
            read(tmp_path, b"\x0a" + length + b"\x40\x01" * 50)


def test_what_unpacks_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    bomb = write_trace({"track_descriptor": THREAD}, begin(1, "x" * 100), end(2)) + write_trace(
        *[{"trusted_uid": 1}] * 500_000
    )
    path = tmp_path / "run.pftrace"
    path.write_bytes(gzip.compress(bomb))
    imported = read_trace(Source(path, path.name), ImportOptions(), unpacked_bytes=1 << 20)
    assert "too_long" in kinds(imported)


# What the engine has as slices, counters and time on cores: of every recording of the corpus.
SLICES = """
    SELECT s.name, count(*), sum(s.dur), min(s.ts), max(s.ts) FROM slice s GROUP BY 1
    HAVING min(s.dur) >= 0
"""
COUNTERS = """
    SELECT t.name, count(*), sum(c.value) FROM counter c JOIN track t ON t.id = c.track_id
    GROUP BY 1
"""
# Old asynchronous events with an id each, which the engine puts on one track and closes in the
# order of that track; by their ids they end earlier (docs/accuracy.md).
CROSSED = "Graphics.Pipeline.DrawAndSwap"
UNREAD = ("cpuidle", "cpufreq")  # of the processor: no table of ours has them


SMALL = ("nested_tracks", "gpu_compute_kernel")


@pytest.mark.corpus
@pytest.mark.xdist_group("perfetto_engine")
@pytest.mark.parametrize(
    "size",
    ["small", pytest.param("all", marks=pytest.mark.campaign)],  # loading each takes seconds
)
def test_perfettos_engine_counts_and_sums_the_same(size: str, tmp_path: Path) -> None:
    def is_asked(path: Path) -> bool:
        return size == "all" or path.stem in SMALL

    binary = [p for p in list_recordings("perfetto/**/*trace") if is_asked(p)]
    written = [
        _write(tmp_path, read_text_trace(path), f"{path.stem}.pftrace")
        for path in list_recordings("perfetto/**/*.textproto")
        if is_asked(path)
    ]
    compared = Counter[str]()
    with open_engine() as ask:
        for path in [*binary, *written]:
            try:
                tables = perfetto.read(Source(path, path.name), ImportOptions()).tables
            except DamagedError as error:
                assert "hold no range" in str(error)  # descriptions of counters only
                continue
            slices, counters = ask(path.read_bytes(), SLICES, COUNTERS)
            both = pl.concat(
                [tables[n].select("name", "start_ns", "end_ns") for n in ("host_ops", "device_ops")]
            )
            if path in written:  # of another name: this engine does not know kernels' names yet
                both = both.with_columns(name=pl.lit("all"))
                slices = _unite(slices)
            ours = _sum_slices(both)
            for name, *row in slices:
                if name == CROSSED:
                    assert ours[name][0] == row[0]
                    continue
                assert ours[name] == tuple(row), (path, name)
                compared[path.name] += row[0]
            mine = {name: row for name, *row in _sum_counters(tables["counters"]).iter_rows()}
            for name, count, total in counters:
                if name in UNREAD or path in written:  # single values, whose shift differs
                    continue
                assert mine[name][0] == count
                assert mine[name][1] == pytest.approx(total, rel=1e-12)
                compared[path.name] += count
    if size == "all":
        assert compared["chrome.pftrace"] > 400_000
        assert compared["androidGpu.pftrace"] == 11_564
    assert compared["nested_tracks.perfetto-trace"] == 1_364
    assert compared["gpu_compute_kernel.pftrace"] == 3


def _unite(slices: list[list[Any]]) -> list[list[Any]]:
    if not slices:
        return []
    _, counts, sums, firsts, lasts = zip(*slices, strict=True)
    return [["all", sum(counts), sum(sums), min(firsts), max(lasts)]]


def _sum_counters(counters: pl.DataFrame) -> pl.DataFrame:
    """Rows and sums; a GPU's first sample covers a time that the engine shows nothing for."""
    covers = pl.col("from_ns").is_not_null() | pl.col("from_ns").is_null().all().over("metric")
    return counters.group_by("metric").agg(pl.len(), pl.col("value").filter(covers).sum())


def _sum_slices(slices: pl.DataFrame) -> dict[str, tuple[int, ...]]:
    summed = slices.group_by("name").agg(
        pl.len(),
        (pl.col("end_ns") - pl.col("start_ns")).sum(),
        pl.col("start_ns").min().alias("first"),
        pl.col("start_ns").max().alias("last"),
    )
    return {name: tuple(row) for name, *row in summed.iter_rows()}
