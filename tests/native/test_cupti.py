"""The injection library against a libcupti of ours: what went in comes out, to the record."""

from __future__ import annotations

import hashlib
import signal
import struct
import subprocess
from pathlib import Path
from uuid import UUID

import numpy as np
import polars as pl
import pytest

from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.nvidia import cupti
from sightline.formats.nvidia.cupti.device import _map_contexts
from sightline.formats.nvidia.cupti.file import read_file
from support.campaigns import CAMPAIGNS
from support.cupti_mock import (
    FIRST_NS,
    Built,
    build,
    build_with,
    expect_kernels,
    find_headers,
    is_complete,
    play,
)
from support.damage import survive_damage

pytestmark = pytest.mark.xdist_group("cupti")

HES = {"SIGHTLINE_CUPTI_HES": "1"}
NOT_SUPPORTED = "27"  # CUPTI_ERROR_NOT_SUPPORTED
TAKEN = 39  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED


@pytest.fixture(scope="module")
def first() -> Built:
    """The interface with structs, to 13.2."""
    return build()


@pytest.fixture(scope="module")
def second() -> Built:
    """The interface with layouts, from 13.3."""
    return build(layouts=True)


@pytest.fixture(scope="module", params=[False, True], ids=["structs", "layouts"])
def both(request: pytest.FixtureRequest) -> Built:
    return build(layouts=request.param)


def check_kernels(ops: pl.DataFrame, count: int, first: int = 0) -> None:
    """Each column of each kernel is what the mock wrote."""
    kernels = ops.filter(pl.col("kind") == "kernel").sort("start_ns")
    assert kernels.height == count
    for name, values in expect_kernels(count, first).items():
        assert np.array_equal(kernels.get_column(name).to_numpy(), values), name
    odd = kernels.filter(pl.col("correlation_id") % 2 == 0)
    assert odd.select(pl.col("cluster_x") == 2).to_series().all()
    assert (
        kernels.filter(pl.col("correlation_id") % 2 == 1).get_column("cluster_x").null_count()
        == (count + 1) // 2
    )


def test_each_of_many_records_is_there(both: Built, tmp_path: Path) -> None:
    count = 500_000 if CAMPAIGNS else 100_000
    outcome = play(both, tmp_path, f"launch={count}")
    assert outcome.code == 0
    imported = outcome.imported
    assert imported.quality == []
    file = outcome.file
    assert sum(file.tables[t].rows for t in ("kernels", "runtime_calls", "external")) == 3 * count
    ops, host = imported.tables["device_ops"], imported.tables["host_ops"]
    check_kernels(ops, count)
    n = np.arange(count)
    calls = host.sort("start_ns")
    assert np.array_equal(calls["start_ns"].to_numpy(), FIRST_NS + n * 10_000)
    assert np.array_equal(calls["end_ns"].to_numpy(), FIRST_NS + n * 10_000 + 4_000)
    assert np.array_equal(calls["tid"].to_numpy(), 100 + n % 4)
    assert calls["name"].unique().to_list() == ["cudaLaunchKernel"]
    # Each kernel is joined to the one call that launched it.
    joined = ops.join(
        host.select("host_op_id", call="correlation_id"), left_on="launch_id", right_on="host_op_id"
    )
    assert joined.height == count
    assert joined.select((pl.col("call") == pl.col("correlation_id")).all()).item()
    external = file.frame("external") if "external" in file.tables else None
    assert external is not None
    assert np.array_equal(
        external["external"].to_numpy() - 1000, external["correlation"].to_numpy() - 1
    )


def test_four_threads_at_once(both: Built, tmp_path: Path) -> None:
    outcome = play(
        both,
        tmp_path,
        "threads=20000",
        SIGHTLINE_CUPTI_BUFFER_KIB="64",
        SIGHTLINE_CUPTI_BUFFERS="4096",
    )
    assert outcome.imported.quality == []
    check_kernels(outcome.imported.tables["device_ops"], 80_000)


def test_sixty_four_threads_at_once(both: Built, tmp_path: Path) -> None:
    outcome = play(
        both,
        tmp_path,
        "crowd=2000",
        SIGHTLINE_CUPTI_BUFFER_KIB="64",
        SIGHTLINE_CUPTI_BUFFERS="4096",
    )
    assert outcome.imported.quality == []
    check_kernels(outcome.imported.tables["device_ops"], 128_000)


def test_full_buffers_lose_what_cupti_says(both: Built, tmp_path: Path) -> None:
    count = 100_000
    outcome = play(
        both,
        tmp_path,
        f"launch={count}",
        SIGHTLINE_CUPTI_BUFFER_KIB="8",
        SIGHTLINE_CUPTI_BUFFERS="2",
    )
    file = outcome.file
    kept = sum(file.tables[t].rows for t in ("kernels", "runtime_calls", "external"))
    dropped = outcome.limits["dropped_records"]
    assert dropped > 0, "the writer was never behind: nothing was tested"
    assert kept + dropped == 3 * count
    assert file.facts["dropped"] == dropped
    assert file.facts["refused_buffers"] > 0


@pytest.mark.parametrize("version", ["26", "27"])
def test_a_cupti_that_crashes_without_a_buffer(first: Built, tmp_path: Path, version: str) -> None:
    """Before CUDA 12.9: it is given one whose records are let go, and they are counted as well."""
    count = 30_000
    outcome = play(
        first,
        tmp_path,
        f"launch={count}",
        SIGHTLINE_CUPTI_BUFFER_KIB="8",
        SIGHTLINE_CUPTI_BUFFERS="2",
        MOCK_VERSION=version,
    )
    assert outcome.code == 0
    file = outcome.file
    kept = sum(file.tables[t].rows for t in ("kernels", "runtime_calls", "external"))
    assert outcome.limits["dropped_records"] > 0
    assert kept + outcome.limits["dropped_records"] == 3 * count


def test_all_kinds(first: Built, tmp_path: Path) -> None:
    verbs = ["device=0", "device=1", "launch=4", "copy=2", "peer_copy=1", "fill=1", "sync=4",
             "graph=1", "overhead=1", "pool=1", "event=1", "nodes=2", "driver=4"]  # fmt: skip
    outcome = play(first, tmp_path, *verbs, SIGHTLINE_CUPTI_GRAPH="graph")
    imported = outcome.imported
    # Copies and the fill have numbers that no call has.
    assert outcome.limits == {"unmatched_launches": 4}
    ops = imported.tables["device_ops"]
    assert dict(ops.group_by("kind").len().iter_rows()) == {
        "kernel": 6,
        "memcpy": 3,
        "memset": 1,
        "graph": 1,
    }
    copies = (
        ops.filter(kind="memcpy")
        .sort("start_ns")
        .select("name", "copy_kind", "src_kind", "dst_kind", "bytes", "dst_device_id")
    )
    assert copies.rows() == [
        ("[CUDA memcpy Host-to-Device]", "HtoD", "pageable", "device", 4100, None),
        ("[CUDA memcpy Device-to-Host]", "DtoH", "pageable", "device", 4101, None),
        ("[CUDA memcpy Peer-to-Peer]", "PtoP", "device", "device", 8192, 1),
    ]
    fill = ops.filter(kind="memset").row(0, named=True)
    assert (
        fill["bytes"],
        fill["fill_value"],
        fill["dst_kind"],
        fill["end_ns"] - fill["start_ns"],
    ) == (512, 0xAB, "device", 500)
    nodes = ops.filter(pl.col("graph_node_id").is_not_null())
    assert nodes.select("graph_id", "kind").unique().rows() == [(5, "kernel")]
    syncs = imported.tables["syncs"].sort("start_ns")
    assert syncs["kind"].to_list() == ["event", "stream_wait_event", "stream", "context"]
    assert syncs["stream_id"].to_list() == [7, 7, 7, None]
    assert syncs["event_id"].to_list() == [3, 3, None, None]
    assert syncs["device_id"].to_list() == [0] * 4
    host = imported.tables["host_ops"]
    waiting = syncs.join(host, on="host_op_id", how="left")
    assert waiting["name"].unique().to_list() == ["cudaDeviceSynchronize"]
    overhead = host.filter(layer="overhead").row(0, named=True)
    assert (overhead["name"], overhead["tid"]) == ("Buffer flush (Profiler)", 101)
    # The driver's call lies within the runtime's, and the kernel is the outer one's.
    driver = host.filter(layer="driver")
    assert driver["name"].unique().to_list() == ["cuLaunchKernel"]
    assert driver["depth"].to_list() == [1] * 4
    launched = ops.filter(pl.col("correlation_id") <= 4, kind="kernel").join(
        host, left_on="launch_id", right_on="host_op_id"
    )
    assert set(launched["layer"]) == {"runtime"}
    (pool,) = imported.tables["memory_pools"].rows(named=True)
    expected = {
        "action": "trimmed",
        "pool_type": "local",
        "pool_bytes": 1 << 25,
        "used_bytes": 1 << 20,
        "release_threshold_bytes": 77,
        "min_bytes_to_keep": 11,
    }
    assert {k: pool[k] for k in expected} == expected
    (event,) = imported.tables["cuda_events"].rows(named=True)
    assert (event["event_id"], event["stream_id"], event["device_id"]) == (3, 7, 0)
    device = imported.tables["devices"].row(0, named=True)
    assert device["name"] == "NVIDIA H200"
    assert device["max_clock_hz"] == 1_980_000_000
    assert device["memory_bandwidth_bytes_per_s"] == 4_800_000_000_000
    assert (device["compute_capability"], device["max_threads_per_sm"]) == ("9.0", 2048)


def test_queries_around_launches_are_not_recorded(both: Built, tmp_path: Path) -> None:
    """Four of five calls of PyTorch's, and the lookup of a name that recording itself causes."""
    outcome = play(both, tmp_path, "lookup=4", "launch=4", "driver=4")
    host = outcome.imported.tables["host_ops"]
    assert dict(host.group_by("name").len().iter_rows()) == {
        "cudaLaunchKernel": 4,
        "cuLaunchKernel": 4,
    }


def test_lookups_that_were_recorded_are_the_recordings_cost(both: Built, tmp_path: Path) -> None:
    """As of a CUPTI before 13.0: no call of the program's, unless no launch follows."""
    outcome = play(both, tmp_path, "lookup=5", "launch=4", MOCK_KEEPS_QUERIES="1")
    host = outcome.imported.tables["host_ops"]
    found = host.group_by("layer", "name").len().sort("layer", "name")
    assert found.rows() == [
        ("driver", "cuKernelGetName", 1),
        ("overhead", "Name of a kernel (Profiler)", 4),
        ("runtime", "cudaGetLastError", 5),
        ("runtime", "cudaLaunchKernel", 4),
    ]


def test_records_without_times_or_numbers(both: Built, tmp_path: Path) -> None:
    outcome = play(
        both, tmp_path, "launch=10", "untimed=3", "unfinished=2", "uncorrelated=4", "flush=1"
    )
    assert outcome.limits == {
        "missing_times": 3,
        "unfinished_operations": 2,
        "unmatched_launches": 4,
    }
    ops = outcome.imported.tables["device_ops"]
    assert ops.height == 14
    assert ops.filter(pl.col("correlation_id").is_null()).height == 4
    assert ops.filter(pl.col("launch_id").is_null()).height == 4


def test_unfinished_records_come_with_the_forced_flush(both: Built, tmp_path: Path) -> None:
    """A buffer with a kernel that still runs is not handed over before the end."""
    outcome = play(both, tmp_path, "launch=5", "unfinished=1", "flush=0")
    check_kernels(outcome.imported.tables["device_ops"], 5)
    assert outcome.limits == {"unfinished_operations": 1}


def test_records_of_unknown_kinds_are_passed_over(first: Built, tmp_path: Path) -> None:
    outcome = play(first, tmp_path, "launch=3", "unknown=2", "launch=3")
    assert outcome.file.facts["unknown_records"] == 2
    check_kernels(outcome.imported.tables["device_ops"], 6)


def test_unknown_kinds_are_counted_each(first: Built, tmp_path: Path) -> None:
    outcome = play(first, tmp_path, "unknown=2")
    assert outcome.file.facts["unknown_kinds"] == {"52": 2}  # CUPTI_ACTIVITY_KIND_JIT


def test_kinds_of_later_versions(second: Built, tmp_path: Path) -> None:
    """Decompressed batches, host functions of streams and graphs, green contexts (CUPTI 13.5)."""
    if second.version < 130500:
        pytest.skip(f"these headers are of CUPTI {second.version}, before 13.5")
    tables = play(second, tmp_path, "late").imported.tables
    (batch,) = tables["device_ops"].rows(named=True)
    expected = {
        "kind": "memcpy", "bytes": 4096, "device_id": 1, "context_id": 2, "stream_id": 13,
        "correlation_id": 71, "start_ns": FIRST_NS + 1000, "end_ns": FIRST_NS + 1900,
    }  # fmt: skip
    assert {name: batch[name] for name in expected} == expected
    host = tables["host_ops"].select("name", "tid", "start_ns", "end_ns", "correlation_id").rows()
    assert host == [
        ("host node of CUDA graph 6", 900, FIRST_NS + 2000, FIRST_NS + 2500, 72),
        ("host function of a stream", 901, FIRST_NS + 3000, FIRST_NS + 3700, 73),
    ]


def test_green_contexts_have_their_device(second: Built, tmp_path: Path) -> None:
    if second.version < 130500:
        pytest.skip(f"these headers are of CUPTI {second.version}, before 13.5")
    outcome = play(second, tmp_path, "late")
    assert outcome.file.frame("green_contexts").rows() == [(9, 2, 1, 16)]
    assert _map_contexts(outcome.file)[9] == 1


def test_what_an_older_cupti_lacks_is_no_loss(first: Built, tmp_path: Path) -> None:
    """Kinds of 13.5 are not asked of 13.1: nothing is refused, and no row says so."""
    outcome = play(first, tmp_path, "launch=1")
    assert outcome.file.facts["refused"] == []
    assert "green_contexts" not in outcome.file.facts["enabled"]
    assert "kinds_refused" not in outcome.limits


def test_uuids_are_kept_where_identity_is(both: Built, tmp_path: Path) -> None:
    outcome = play(both, tmp_path, "device=0", "device=1")
    source = Source(outcome.path, outcome.path.name)
    devices = cupti.read(source, ImportOptions(keep_identity=True)).tables["devices"]
    # The mock's bytes count up by three from 0xf0, and from 0xf1.
    assert devices.get_column("uuid").to_list() == [
        str_of(bytes((0xF0 + device + 3 * i) & 0xFF for i in range(16))) for device in (0, 1)
    ]
    plain = outcome.imported.tables["devices"]
    assert plain.get_column("uuid").to_list() == [None, None]


def str_of(uuid: bytes) -> str:
    return f"GPU-{UUID(bytes=uuid)}"


def test_external_numbers_are_those_of_calls(both: Built, tmp_path: Path) -> None:
    """What another tool pushed before a launch stands at the launch's API call."""
    host = play(both, tmp_path, "launch=50", "sync=3").imported.tables["host_ops"]
    launches = host.filter(pl.col("name").str.starts_with("cudaLaunchKernel"))
    numbers = launches.select(pl.col("external_id") - pl.col("correlation_id")).to_series()
    assert (
        numbers.to_list() == [999] * 50
    )  # the mock pushes 1000 + n before launch n, which is n + 1
    others = host.filter(~pl.col("name").str.starts_with("cudaLaunchKernel"))
    assert others.height == 3
    assert others.get_column("external_id").null_count() == 3


@pytest.mark.parametrize(
    ("variables", "verbs", "expected"),
    [
        ({"MOCK_HES": "1", **HES}, (), "on"),
        (HES, (), "CUPTI_ERROR_NOT_SUPPORTED"),
        ({"MOCK_HES": "1"}, (), "not wanted"),
        ({"MOCK_HES": "1", "SIGHTLINE_CUPTI_PC": "continuous", **HES}, (), "not with samples"),
        # Asked before the driver is there, CUPTI says later that the device has none.
        ({"MOCK_HES": "1", **HES}, ("no_hardware_times",), "CUPTI_ERROR_NOT_SUPPORTED"),
    ],
)
def test_times_of_the_hardware(
    both: Built, tmp_path: Path, variables: dict[str, str], verbs: tuple[str, ...], expected: str
) -> None:
    outcome = play(both, tmp_path, *verbs, "launch=3", **variables)
    assert outcome.file.facts["hardware_times"] == expected
    check_kernels(outcome.imported.tables["device_ops"], 3)


def test_bytes_that_are_no_record(both: Built, tmp_path: Path) -> None:
    outcome = play(both, tmp_path, "launch=3", "damage=64", "launch=3")
    assert "unread_records" in outcome.limits
    check_kernels(outcome.imported.tables["device_ops"], 6)


@pytest.mark.timing
def test_a_context_is_destroyed(both: Built, tmp_path: Path) -> None:
    """What it did is handed over then, and what follows is kept, too."""
    outcome = play(
        both,
        tmp_path,
        "context=1",
        "launch=7",
        "destroy=1",
        "sleep=200",
        "launch=5",
        "quit",
        SIGHTLINE_CUPTI_FLUSH_MS="60000",
    )
    kernels = outcome.imported.tables["device_ops"]
    assert kernels.height == 7
    assert "unfinished" in outcome.limits


def test_a_child_of_a_fork_records_nothing(both: Built, tmp_path: Path) -> None:
    outcome = play(both, tmp_path, "launch=5", "fork=100", "launch=5")
    assert outcome.code == 0
    assert outcome.imported.quality == []
    check_kernels(outcome.imported.tables["device_ops"], 10)


@pytest.mark.timing
def test_a_program_that_becomes_another(both: Built, tmp_path: Path) -> None:
    """By exec, with the same number: each leaves its own file, and what was flushed is there."""
    outcome = play(
        both,
        tmp_path,
        "launch=1000",
        "sleep=600",
        "exec=launch=7",
        SIGHTLINE_CUPTI_FLUSH_MS="50",
        one_file=False,
    )
    assert outcome.code == 0
    first, second = sorted(tmp_path.glob("*.cupti"), key=lambda p: len(p.name))
    assert second.name == f"{first.name.removesuffix('.cupti')}.2.cupti"
    for path, count, kinds in ((first, 1000, {"unfinished"}), (second, 7, set())):
        imported = cupti.read(Source(path, path.name), ImportOptions())
        check_kernels(imported.tables["device_ops"], count)
        assert {q.kind for q in imported.quality} == kinds


@pytest.mark.timing
@pytest.mark.parametrize(
    ("verb", "code"), [("quit", 0), ("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT)]
)
def test_an_end_without_a_flush(both: Built, tmp_path: Path, verb: str, code: int) -> None:
    """Everything that was flushed is there; what came after it is the buffer that CUPTI had."""
    outcome = play(
        # Twelve times the flush's period: on a busy machine its thread comes late.
        both,
        tmp_path,
        "launch=1000",
        "sleep=600",
        "launch=10",
        verb,
        SIGHTLINE_CUPTI_FLUSH_MS="50",
    )
    assert outcome.code == code
    assert "unfinished" in outcome.limits
    ops = outcome.imported.tables["device_ops"]
    check_kernels(ops, ops.height)
    assert 1000 <= ops.height <= 1010


@pytest.mark.parametrize("pause_ms", [1, 3, 7, 20])
def test_killed_at_any_moment(both: Built, tmp_path: Path, pause_ms: int) -> None:
    """What is there is a whole beginning: no torn record, none missing in between.

    On a busy machine that may be nothing at all; test_an_end_without_a_flush leaves time to write.
    """
    outcome = play(both, tmp_path, "launch=20000", f"sleep={pause_ms}", "launch=20000", "kill",
                   SIGHTLINE_CUPTI_BUFFER_KIB="64", SIGHTLINE_CUPTI_BUFFERS="4096",
                   SIGHTLINE_CUPTI_FLUSH_MS="10")  # fmt: skip
    file = outcome.file
    assert (file.damaged_chunks, file.missing_chunks) == (0, 0)
    # Of the last buffer some tables may have been written, and others not.
    counts = [file.tables[t].rows for t in ("external", "runtime_calls", "kernels")]
    assert max(counts) - min(counts) <= 64 * 1024 // 24
    for table, count in zip(("external", "runtime_calls", "kernels"), counts, strict=True):
        correlation = file.frame(table)["correlation"].to_numpy()
        assert np.array_equal(correlation, np.arange(1, count + 1)), table
    if counts[2]:
        check_kernels(outcome.imported.tables["device_ops"], counts[2])
    else:
        assert "device_ops" not in outcome.imported.tables


def test_another_profiler_is_named(first: Built, tmp_path: Path) -> None:
    if first.version < 130000:
        pytest.skip("CUPTI before 13.0 does not name who is subscribed")
    outcome = play(first, tmp_path, "launch=5", MOCK_TAKEN="Nsight Systems")
    assert outcome.code == 0
    assert "Nsight Systems is using CUPTI" in outcome.said
    assert outcome.file.facts["other_subscriber"] == "CUPTI for Nsight Systems"
    (limit,) = outcome.imported.quality
    assert limit.kind == "cupti_taken"
    assert "Nsight Systems" in limit.text
    assert outcome.imported.tables == {}


def test_another_profiler_beside_ours(second: Built, tmp_path: Path) -> None:
    """From 13.3 on there is room for several, if the other one allows it."""
    shared = play(second, tmp_path / "a", "launch=50", MOCK_TAKEN="Kineto")
    check_kernels(shared.imported.tables["device_ops"], 50)
    assert shared.limits == {"other_profiler": None}
    alone = play(second, tmp_path / "b", "launch=50", MOCK_TAKEN="Kineto", MOCK_SHARES="0")
    assert [q.kind for q in alone.imported.quality] == ["cupti_taken"]


def test_a_cupti_that_supports_nothing(both: Built, tmp_path: Path) -> None:
    outcome = play(both, tmp_path, "launch=5", MOCK_REFUSE=NOT_SUPPORTED)
    assert outcome.code == 0
    (limit,) = outcome.imported.quality
    assert limit.kind == "cupti_refused"
    assert "CUPTI_ERROR_NOT_SUPPORTED" in limit.text


def test_a_kind_that_is_not_supported(first: Built, tmp_path: Path) -> None:
    graph_trace = "51"
    outcome = play(
        first,
        tmp_path,
        "launch=5",
        "graph=1",
        MOCK_NO_KIND=graph_trace,
        SIGHTLINE_CUPTI_GRAPH="graph",
    )
    assert outcome.limits == {"kinds_refused": 1}
    check_kernels(outcome.imported.tables["device_ops"], 5)


@pytest.mark.parametrize(
    ("version", "said"), [("21", "older than CUDA 12.4"), ("0", "older than CUDA 12.4")]
)
def test_a_cupti_that_is_too_old(first: Built, tmp_path: Path, version: str, said: str) -> None:
    outcome = play(first, tmp_path, "launch=5", MOCK_VERSION=version)
    (limit,) = outcome.imported.quality
    assert limit.kind == "no_cupti"
    assert said in limit.text


@pytest.mark.parametrize("version", ["22", "28", "130001", "130100", "130200", "130500"])
def test_structs_whatever_version_the_program_has(
    first: Built, tmp_path: Path, version: str
) -> None:
    outcome = play(first, tmp_path, "launch=50", MOCK_VERSION=version)
    has_layouts = int(version) >= 130300 and first.version >= 130300
    assert outcome.file.facts["interface"] == 1 + has_layouts
    check_kernels(outcome.imported.tables["device_ops"], 50)


@pytest.mark.parametrize(
    ("version", "interface"), [("22", 1), ("130100", 1), ("130200", 1), ("130300", 2)]
)
def test_one_build_takes_the_interface_that_there_is(
    second: Built, tmp_path: Path, version: str, interface: int
) -> None:
    outcome = play(second, tmp_path, "launch=50", MOCK_VERSION=version)
    assert outcome.file.facts["interface"] == interface
    check_kernels(outcome.imported.tables["device_ops"], 50)


def test_no_cupti_at_all(first: Built, tmp_path: Path) -> None:
    outcome = play(first, tmp_path, SIGHTLINE_CUPTI_LIBRARY="/nowhere/libcupti.so.13")
    (limit,) = outcome.imported.quality
    assert limit.kind == "no_cupti"
    assert outcome.code == 0


def test_ranks_that_are_not_asked_for(first: Built, tmp_path: Path) -> None:
    chosen = play(
        first,
        tmp_path / "a",
        "launch=2",
        RANK="2",
        WORLD_SIZE="4",
        SIGHTLINE_CUPTI_RANKS="0,2",
        SIGHTLINE_CUPTI_HOST="abcd",
    )
    assert chosen.path.name.startswith("rank2-abcd-")
    assert (chosen.imported.recording.rank, chosen.imported.recording.world_size) == (2, 4)
    with pytest.raises(ValueError, match="not enough values"):  # no file
        play(first, tmp_path / "b", RANK="1", WORLD_SIZE="4", SIGHTLINE_CUPTI_RANKS="0,2")


def test_a_thread_that_lost_its_core_between_two_clocks_moves_no_time(
    first: Built, tmp_path: Path
) -> None:
    """Of a recording that was cut off there is one comparison of clocks: its quickest reading."""
    outcome = play(first, tmp_path, "launch=50", MOCK_LATE_CLOCKS="3")
    apart = outcome.file.frame("clocks").select(pl.col("realtime") - pl.col("cupti")).to_series()
    assert apart.len() >= 2
    assert apart.max() < 15_000_000  # the first three readings lie 20 ms apart


def test_a_full_disk_ends_the_recording_not_the_program(first: Built, tmp_path: Path) -> None:
    """A limit on the size of files stands in for it."""
    command = f"ulimit -f 100; trap '' XFSZ; exec {first.program} launch=50000"
    done = subprocess.run(
        ["bash", "-c", command],
        env={
            "CUDA_INJECTION64_PATH": str(first.injection),
            "SIGHTLINE_CUPTI_LIBRARY": str(first.mock),
            "SIGHTLINE_CUPTI_FOLDER": str(tmp_path),
            "SIGHTLINE_CUPTI_BUFFER_KIB": "16",
            "SIGHTLINE_CUPTI_BUFFERS": "4096",
        },
        check=False,
    )
    assert done.returncode == 0
    (path,) = tmp_path.glob("*.cupti")
    imported = cupti.read(Source(path, path.name), ImportOptions())
    assert {q.kind for q in imported.quality} >= {"unfinished"}
    check_kernels(imported.tables["device_ops"], imported.tables["device_ops"].height)


def test_a_disk_that_is_full(first: Built, tmp_path: Path) -> None:
    """A real one, of a megabyte: the program ends as ever, and says once why its recording ends."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        outcome = play(
            first,
            disk,
            "launch=50000",
            "sleep=100",
            "launch=50000",
            SIGHTLINE_CUPTI_BUFFER_KIB="16",
            SIGHTLINE_CUPTI_BUFFERS="4096",
        )
        assert outcome.code == 0
        told = f"sightline: the recording of the GPU ends here: {outcome.path}"
        assert outcome.said.splitlines() == [f"{told}: No space left on device"]
        imported = outcome.imported
        assert {q.kind for q in imported.quality} >= {"unfinished"}
        ops = imported.tables["device_ops"]
        assert ops.height > 1000
        check_kernels(ops, ops.height)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_it_needs_nothing_but_libc(first: Built) -> None:
    """It lives in other people's programs, with whatever C++ library they have."""
    names = subprocess.run(
        ["nm", "-D", "--defined-only", first.injection], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in names.splitlines()] == [
        "InitializeInjection",
        "InitializeInjectionNvtx2",
    ]


def test_damaged_recordings(first: Built, tmp_path: Path) -> None:
    outcome = play(
        first,
        tmp_path / "run",
        "device=0",
        "launch=20",
        "copy=2",
        "sync=4",
        "overhead=1",
        "pool=1",
        "event=1",
    )
    survive_damage(cupti.read, tmp_path / "x.cupti", outcome.path.read_bytes())


def test_a_damaged_chunk_is_left_out_and_told(first: Built, tmp_path: Path) -> None:
    outcome = play(first, tmp_path / "run", "launch=20", "flush", "sleep=50", "launch=20")
    data = bytearray(outcome.path.read_bytes())
    at = data.rindex(b"SLCK", 0, data.rindex(b'{"ended"') - 24)
    data[at + 40] ^= 1
    damaged = tmp_path / "x.cupti"
    damaged.write_bytes(data)
    imported = cupti.read(Source(damaged, "x.cupti"), ImportOptions())
    assert "damaged_chunks" in {q.kind for q in imported.quality}


def test_a_chunk_that_says_it_is_huge(tmp_path: Path) -> None:
    path = tmp_path / "x.cupti"
    header = struct.pack("<16sIIQ", b"SIGHTLINE-CUPTI\n", 1, 1, 1)
    path.write_bytes(header + struct.pack("<4sHHIIII", b"SLCK", 3, 0, 2**32 - 1, 1, 0, 0))
    imported = cupti.read(Source(path, "x.cupti"), ImportOptions())
    assert [q.kind for q in imported.quality] == ["truncated", "unfinished"]


def test_a_file_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "x.cupti"
    path.write_bytes(struct.pack("<16sIIQ", b"SIGHTLINE-CUPTI\n", 9, 1, 1))
    with pytest.raises(DamagedError, match="cannot read") as caught:
        cupti.read(Source(path, "x.cupti"), ImportOptions())
    assert "version 9" in caught.value.why


def test_why_nothing_can_be_built(tmp_path: Path) -> None:
    """The reason of a skip is itself tested."""
    assert "no CUPTI headers" in str(find_headers(False, (tmp_path,)))
    assert not is_complete(tmp_path)


def test_checksum_is_zlibs(first: Built, tmp_path: Path) -> None:
    """Python's zlib checks what the library's own CRC-32 wrote: chunks of any length."""
    outcome = play(first, tmp_path, *["launch=1", "flush"] * 5)
    assert outcome.file.damaged_chunks == 0
    assert hashlib.sha256(outcome.path.read_bytes()).digest()
    assert build_with(first.headers).injection == first.injection
    assert read_file(Source(outcome.path, "x")).stopped is None
