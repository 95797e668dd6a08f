"""THAPI's traces as text: calls of iprof --trace, and intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from sightline.formats.system import thapi_trace
from support.corpus import list_recordings, name_recording
from support.damage import survive_damage

HEAD = "host-1 - vpid: 10, vtid: 11 - lttng_ust_"
RAW = f"""\
23:59:59.999999000 - {HEAD}ze:zeInit_entry: {{ flags: [ ZE_INIT_FLAG_GPU_ONLY ] }}
23:59:59.999999500 - {HEAD}pytorch:op_entry: {{
  name: "aten::empty",
  overload_name: "memory_format"
}}
00:00:00.000000100 - {HEAD}pytorch:op_exit: {{
  name: "aten::empty",
  overload_name: "memory_format"
}}
00:00:00.000000200 - {HEAD}ze:zeInit_exit: {{ zeResult: ZE_RESULT_ERROR_UNINITIALIZED }}
00:00:00.000000300 - {HEAD}ompt:ompt_callback_target_emi: {{ endpoint: ompt_scope_begin }}
00:00:00.000000400 - {HEAD}ompt:ompt_callback_target_emi: {{ endpoint: ompt_scope_end }}
00:00:00.000000500 - {HEAD}ze_properties:device: {{ name: "Intel" }}
noise
"""
WHO = 'hostname = "h", vpid = 10, vtid = 1'
INTERVALS = f"""\
lttng:host: {{ {WHO}, ts = 1704110400000000000, backend = 3 }}, {{ name = "cuLaunchKernel", \
dur = 10, err = true }}
lttng:device: {{ {WHO}, ts = 1704110400000000020, backend = 3 }}, {{ name = "gemm", dur = 1000, \
did = 123, sdid = 123, err = false, metadata = "" }}
lttng:device: {{ {WHO}, ts = 1704110400000002000, backend = 3 }}, {{ name = "cuMemcpyHtoD_v2", \
dur = 500, did = 77, sdid = 77, err = false, metadata = "" }}
lttng:traffic: {{ {WHO}, ts = 1704110400000000000, backend = 3 }}, {{ name = "x", size = 4 }}
"""


def open_text(folder: Path, text: str) -> sightline.Session:
    path = folder / "trace.txt"
    path.write_text(text)
    return sightline.open(str(path))


def test_calls_are_paired_over_midnight(tmp_path: Path) -> None:
    run = open_text(tmp_path, RAW)
    rows = run.table("host_ops").select("name", "layer", "depth", "tid", "start_ns", "end_ns")
    day = 86_400 * 10**9
    assert rows.rows() == [
        ("zeInit", "driver", 0, 11, day - 1000, day + 200),
        ("aten::empty", "op", 1, 11, day - 500, day + 100),
        ("ompt_callback_target_emi", "openmp", 0, 11, day + 300, day + 400),
    ]
    kinds = run.table("quality").select("kind", "count").rows()
    assert ("damaged_lines", 1) in kinds and ("no_device_ops", None) in kinds


def test_intervals_have_work_of_devices(tmp_path: Path) -> None:
    run = open_text(tmp_path, INTERVALS)
    ops = run.table("device_ops").select("name", "kind", "device_id", "start_ns", "end_ns").rows()
    at = 1704110400000000000
    assert ops == [
        ("gemm", "kernel", 1, at + 20, at + 1020),
        ("cuMemcpyHtoD_v2", "memcpy", 0, at + 2000, at + 2500),
    ]
    assert run.table("host_ops").select("name", "return_value").rows() == [("cuLaunchKernel", 1)]


@pytest.mark.parametrize("text", [RAW, INTERVALS])
def test_damage(tmp_path: Path, text: str) -> None:
    survive_damage(thapi_trace.read, tmp_path / "trace.txt", text)


def test_ends_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError):
        open_text(tmp_path, f"00:00:00.000000200 - {HEAD}ze:zeInit_exit: {{ zeResult: 0 }}\n")


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("thapi/**/*.bt_text_pretty"), ids=name_recording)
def test_as_many_as_there_are_lines(path: Path) -> None:
    text = path.read_text()
    try:
        run = sightline.open(str(path))
    except sightline.SightlineError:
        assert not text.strip() or "lttng:host" not in text
        return
    assert run.table("host_ops").height == text.count("lttng:host: ")
    assert run.table("device_ops").height == text.count("lttng:device: ")
