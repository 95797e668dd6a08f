"""JAX profiles: real ones against a second parser and TraceLens' report, a live one, and damage."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.jax import xplane
from support.campaigns import sample
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures
from support.wire import read_fields, read_one
from support.xplane_planes import MESSAGES

LEGACY = "xplane/AMD-AGI__TraceLens/traces/mi300/jax_conv_minimal_legacy"
REPORT = "peer_expected/AMD-AGI__TraceLens/tests/traces/mi300/jax_conv_minimal_perf_report_csvs"


def write_space() -> bytes:
    """A kernel that a call launched, a copy, a step around the call, and when it all began."""
    space = MESSAGES["XSpace"]()
    names = [{"key": i, "value": {"id": i, "name": name}} for i, name in enumerate(
        ["", "hipLaunchKernel", "fusion_1", "MemcpyH2D", "train"])]  # fmt: skip
    stats = [{"key": i, "value": {"id": i, "name": name}} for i, name in enumerate(
        ["", "correlation_id", "kernel_details", "memcpy_details", "hlo_op", "hlo_module",
         "step_num", "profile_start_time", "dot.1", "jit_f", "device_vendor"])]  # fmt: skip
    kernel = {"metadata_id": 2, "offset_ps": 1_500, "duration_ps": 4_999, "stats": [
        {"metadata_id": 1, "uint64_value": 9}, {"metadata_id": 4, "ref_value": 8},
        {"metadata_id": 5, "ref_value": 9},
        {"metadata_id": 2, "str_value": "regs:32 static_shared=512 dynamic_shared:0 "
                                        "grid:4,2,1 block:64,1,1 occ_pct=50.0"}]}  # fmt: skip
    copy = {"metadata_id": 3, "offset_ps": 20_000, "duration_ps": 1_000, "stats": [
        {"metadata_id": 3, "str_value": "kind:H2D size:4096 dest:0 async:1"}]}  # fmt: skip
    gpu = {"id": 1, "name": "/device:GPU:1", "event_metadata": names, "stat_metadata": stats,
           "stats": [{"metadata_id": 10, "str_value": "AMD"}],
           "lines": [{"id": 7, "name": "Stream #7(Kernel)", "timestamp_ns": 100,
                      "events": [kernel, copy]}]}  # fmt: skip
    call = {"metadata_id": 1, "offset_ps": 1_000, "duration_ps": 2_000,
            "stats": [{"metadata_id": 1, "uint64_value": 9}]}  # fmt: skip
    step = {"metadata_id": 4, "offset_ps": 0, "duration_ps": 9_000,
            "stats": [{"metadata_id": 6, "uint64_value": 3}]}  # fmt: skip
    host = {
        "id": 2,
        "name": "/host:CPU",
        "event_metadata": names,
        "stat_metadata": stats,
        "lines": [{"id": 44, "name": "python", "timestamp_ns": 95, "events": [step, call]}],
    }
    task = {"id": 3, "name": "Task Environment", "stat_metadata": stats,
            "stats": [{"metadata_id": 7, "uint64_value": 1_000_000}]}  # fmt: skip
    for plane in (gpu, host, task):
        space.planes.add(**plane)
    data: bytes = space.SerializeToString()
    return data


def read(folder: Path, content: bytes) -> Imported:
    path = folder / "run.xplane.pb"
    path.write_bytes(content)
    imported: Imported = xplane.read(Source(path, path.name), ImportOptions())
    return imported


def test_what_becomes_what(tmp_path: Path) -> None:
    tables = read(tmp_path, write_space()).tables
    columns = (
        "start_ns", "end_ns", "device_id", "stream_id", "kind", "name", "grid_x", "grid_y",
        "block_x", "registers_per_thread", "static_shared_bytes", "bytes", "copy_kind", "launch_id",
    )  # fmt: skip
    blank = (None,) * 5
    # 101.5 ns and 106.499 ns: half to even, and to the nearest.
    assert tables["device_ops"].select(columns).rows() == [
        (1_000_102, 1_000_106, 1, 7, "kernel", "fusion_1", 4, 2, 64, 32, 512, None, None, 1),
        (1_000_120, 1_000_121, 1, 7, "memcpy", "MemcpyH2D", *blank, 4096, "HtoD", None),
    ]
    host = tables["host_ops"].select("name", "layer", "start_ns", "end_ns", "depth", "tid").rows()
    assert host == [
        ("train 3", "step", 1_000_095, 1_000_104, 0, 44),
        ("hipLaunchKernel", "runtime", 1_000_096, 1_000_098, 1, 44),
    ]
    spans = tables["device_ranges"].select("name", "start_ns", "end_ns").rows()
    assert spans == [("jit_f/dot.1", 1_000_102, 1_000_106)]
    assert tables["devices"].select("device_id", "vendor").rows() == [(1, "amd")]


def test_damage(tmp_path: Path) -> None:
    whole = write_space()
    random = Random(3)
    for _ in sample(range(3000), 150):
        content = bytearray(whole)
        if random.random() < 0.3:
            del content[random.randrange(1, len(content)) :]
        for _ in range(random.randrange(1, 4)):
            content[random.randrange(len(content))] = random.randrange(256)
        try:
            tables = read(tmp_path, bytes(content)).tables
        except DamagedError:
            continue
        assert tables["device_ops"].height <= 4
        assert tables["host_ops"].height <= 4


# Lines of a plane whose events are work: streams of GPUs; of TPUs this one, beside which lie the
# modules that they are part of and copies that run beside them.
TPU_WORK = b"XLA Ops"


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("xplane/**/*.xplane.pb"), ids=name_recording)
def test_every_profile_of_the_corpus_against_a_second_parser(path: Path) -> None:
    """Counts and picoseconds of every line, by a wire-format walker of the tests' own."""
    run = sightline.open(str(path))
    work, calls, length = 0, 0, 0
    for plane in read_fields(path.read_bytes(), 1):
        name = read_one(plane, 2).decode()
        for line in read_fields(plane, 3):
            events = list(read_fields(line, 4))
            is_tpu = name.startswith("/device:TPU") and read_one(line, 2) == TPU_WORK
            if name.startswith("/device:GPU") or is_tpu:
                work += len(events)
                length += sum(int(read_one(event, 3) or 0) for event in events)
            elif name == "/host:CPU":
                calls += len(events)
    ops = run.table("device_ops")
    if TPU_WORK in path.read_bytes():  # what runs beside the core stands in other streams
        ops = ops.filter(pl.col("stream_id") == 0)
    compare_figures(path, "operations and calls", (ops.height, run.rows("host_ops")), (work, calls))
    ours = ops.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    # A nanosecond each, of rounding.
    agree = abs(ours * 1000 - length) <= 1000 * work
    compare_figures(path, "time of all operations, ps", ours * 1000, length, agree=agree)
    has_nvidia = "nvidia" in run.table("devices").get_column("vendor")
    for finding in run.findings():
        assert has_nvidia or not re.search(r"nsys|CUDA", finding.fix or ""), finding.rule


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["jax08_gemm/tw003", "jax_conv_minimal_08/tw003"])
def test_devices_are_amds(corpus: Path, name: str) -> None:
    path = corpus / f"xplane/AMD-AGI__TraceLens/traces/mi300/{name}.xplane.pb"
    assert set(sightline.open(str(path)).table("devices").get_column("vendor")) == {"amd"}


@pytest.mark.corpus
def test_tracelens_reports_the_same_timeline(corpus: Path) -> None:
    """TraceLens numbers GPUs from 1: its 8 is 7 here. Its times are in ms of float64."""
    path = corpus / LEGACY / "chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb"
    rows = sightline.open(str(path)).ask("breakdown").rows(named=True)
    with (corpus / REPORT / "gpu_timeline.csv").open() as file:
        told = {r["type"]: float(r["time ms"]) for r in csv.DictReader(file) if r["gpu_pid"] == "8"}
    (gpu,) = (row for row in rows if row["device_id"] == 7)
    for theirs, ours in {
        "computation_time": "compute_ns", "exposed_comm_time": "exposed_comm_ns",
        "exposed_memcpy_time": "exposed_copy_ns", "idle_time": "idle_ns", "total_time": "window_ns",
    }.items():  # fmt: skip
        assert round(told[theirs] * 1e6) == gpu[ours]
    with (corpus / REPORT / "gpu_events_averages.csv").open() as file:
        mean = {r["type"]: float(r["time ms"]) for r in csv.DictReader(file)}
    copied = sum(row["exposed_copy_ns"] for row in rows)
    assert round(mean["exposed_memcpy_time"] * 2e6) == copied


# In a process of its own: where JAX was imported, no test may fork any more.
LIVE = """
import json, pathlib, sys
import jax

with jax.profiler.trace(sys.argv[1]):
    for step in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            (jax.numpy.ones((64, 64)) @ jax.numpy.ones((64, 64))).block_until_ready()
(path,) = pathlib.Path(sys.argv[1]).rglob("*.xplane.pb")
print(json.dumps([
    (line.name, event.name.removeprefix("$"))
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes
    if plane.name == "/host:CPU"
    for line in plane.lines
    for event in line.events
]))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_a_live_profile_of_jax(tmp_path: Path) -> None:
    """JAX's own reader has the same events, name by name."""
    words = [sys.executable, "-c", LIVE, str(tmp_path)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    theirs = json.loads(done.stdout)
    (path,) = tmp_path.rglob("*.xplane.pb")
    run = sightline.open(str(path))
    host = run.table("host_ops")
    assert host.height == len(theirs) > 0
    steps = host.filter(pl.col("layer") == "step").get_column("name").to_list()
    assert steps == ["train 0", "train 1", "train 2"]
    names = set(host.get_column("name")) - set(steps)
    assert names == {name for _, name in theirs if name != "train"}


def test_calls_that_have_the_name_of_what_they_launch(tmp_path: Path) -> None:
    """XLA names the driver's calls so: all 2,249 operations of jax 0.11 on an H200."""
    space = MESSAGES["XSpace"].FromString(write_space())
    gpu, host = space.planes[0], space.planes[1]
    for plane in (gpu, host):
        plane.event_metadata[1].value.name = "fusion_1"  # the call of what stream 7 ran
        plane.event_metadata[4].value.name = "cuGraphLaunch (CudaGraph:6)"
        plane.event_metadata[3].value.name = "Memset 3"
    host.lines[0].events[0].stats[0].metadata_id = 1  # no step: the graph's call, correlation 3
    tables = read(tmp_path, space.SerializeToString()).tables
    calls = tables["host_ops"].filter(pl.col("layer") == "runtime")
    assert sorted(calls.get_column("name").to_list()) == ["cuGraphLaunch", "cuLaunchKernel"]
    launched = tables["device_ops"].filter(pl.col("name") == "fusion_1")
    by = calls.filter(pl.col("name") == "cuLaunchKernel").get_column("host_op_id").item()
    assert launched.get_column("launch_id").item() == by


def test_a_fill_without_details(tmp_path: Path) -> None:
    space = MESSAGES["XSpace"].FromString(write_space())
    space.planes[0].event_metadata[3].value.name = "Memset 3"
    del space.planes[0].lines[0].events[1].stats[:]
    tables = read(tmp_path, space.SerializeToString()).tables
    kinds = dict(tables["device_ops"].select("name", "kind").rows())
    assert kinds == {"fusion_1": "kernel", "Memset 3": "memset"}
