"""onetrace's text and Chrome JSON: as its README and its source have them, damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import sightline
from sightline.formats.intel import onetrace
from support.damage import survive_damage

# From the README of pti-gpu's onetrace.
TEXT = """>>>> [272171119] clEnqueueWriteBuffer: commandQueue = 0x5591dbf4be70 cb = 4194304 event = 0
<<<< [272698660] clEnqueueWriteBuffer [527541 ns] -> CL_SUCCESS (0)
>>>> [272716922] <PID:7> <TID:9> zeKernelSetGroupSize: hKernel = 0x5591dc500c60
<<<< [272724034] <PID:7> <TID:9> zeKernelSetGroupSize [7112 ns] -> ZE_RESULT_SUCCESS(0x0)
Device Timeline (queue: 0x55a9c7e51e70): clEnqueueWriteBuffer [ns] = 317341082 (queued) 317355010 (submit) 317452332 (start) 317980165 (end)
Device Timeline (queue: 0x55a9c7e51e70): GEMM [ns] = 318185764 (append) 318200629 (submit) 318550014 (start) 361260930 (end)
<PID:7> Device Timeline (queue: 0x1): gemm<float> [ns] = 1 (append) 2 (submit) 3 (start) 4 (end)
Device Timeline (queue: 0x55a9c7e51e70): cut [ns] = 318185764 (append) 3182
"""  # noqa: E501


def write_event(tid: object, name: str, ts: int, dur: int, work: str) -> str:
    """An event as unified_tracer.h writes it."""
    where = f'{{"ph":"X", "pid":7, "tid":{tid}, "name":"{name}", "ts": {ts}, "dur":{dur}'
    return f'{where}, "args": {{"id": "{work}"}}}},\n'


QUEUE = 94188012345968
CHROME = (
    '[\n{"ph":"M", "name":"process_name", "pid":7, "tid":0, "args":{"name":"app"}},\n'
    '{"ph":"M", "name":"onetrace_start_time", "pid":7, "tid":0, "args":{"start_time":"1"}},\n'
    + write_event(9, "zeCommandQueueExecuteCommandLists", 100, 20, "3")
    + write_event(9, "zeEventHostSynchronize", 130, 900, "0")
    + write_event(9, "zeCommandQueueExecuteCommandLists", 2000, 20, "3")
    + write_event(QUEUE, "gemm<float, 8>", 150, 800, "3")
    + write_event(QUEUE, "zeCommandListAppendMemoryCopy(D2M)[4096]", 960, 40, "4")
)


def test_text_has_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(TEXT)
    run = sightline.open(str(path))
    ops = run.table("device_ops").select("name", "kind", "start_ns", "end_ns").rows()
    whole = re.findall(r"\): (\S+) \[ns\] = .* (\d+) \(start\) (\d+) \(end\)", TEXT)
    assert {(name, start, end) for name, _, start, end in ops} == {
        (name, int(start), int(end)) for name, start, end in whole
    }
    assert [kind for name, kind, *_ in ops if name.startswith("clEnqueue")] == ["memcpy"]
    calls = run.table("host_ops").select("name", "layer", "pid", "tid", "start_ns", "end_ns").rows()
    assert sorted(calls) == [
        ("clEnqueueWriteBuffer", "runtime", None, None, 272171119, 272698660),
        ("zeKernelSetGroupSize", "driver", 7, 9, 272716922, 272724034),
    ]
    notes = dict(run.table("quality").select("kind", "count").iter_rows())
    assert notes["damaged_lines"] == 1 and "no_launches" in notes


def test_chrome_events_are_tied_by_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "onetrace.7.json"
    path.write_text(CHROME)
    run = sightline.open(str(path))
    calls = dict(run.table("host_ops").select("host_op_id", "start_ns").iter_rows())
    ops = run.table("device_ops").select("name", "start_ns", "end_ns", "launch_id").rows()
    events = [e for e in json.loads(CHROME.rstrip(",\n") + "]") if e["ph"] == "X"]
    work = {
        e["name"]: (e["ts"] * 1000, (e["ts"] + e["dur"]) * 1000) for e in events if e["tid"] != 9
    }
    assert {name.partition("[")[0]: (start, end) for name, start, end, _ in ops} == {
        name.partition("[")[0]: times for name, times in work.items()
    }
    assert [calls.get(launch) for *_, launch in ops] == [100_000, None]
    copy = run.table("device_ops").filter(kind="memcpy").row(0, named=True)
    assert (copy["bytes"], copy["copy_kind"]) == (4096, "DtoH")


def test_of_stages_the_execution_is_the_work(tmp_path: Path) -> None:
    stages = [("Appended", 100, 20), ("Submitted", 120, 30), ("Execution", 150, 800)]
    head = CHROME[: CHROME.index('{"ph":"X"')]
    lines = [write_event(f"3.{QUEUE}", f"gemm ({s})", at, dur, "3") for s, at, dur in stages]
    path = tmp_path / "onetrace.7.json"
    path.write_text(head + "".join(lines).replace(', "args"', ', "cname":"thread_state", "args"'))
    ops = sightline.open(str(path)).table("device_ops").select("name", "start_ns", "end_ns").rows()
    assert ops == [("gemm", 150_000, 950_000)]


def test_advice_is_for_intel(tmp_path: Path) -> None:
    path = tmp_path / "onetrace.7.json"
    path.write_text(CHROME)
    findings = sightline.findings(sightline.open(str(path)))
    text = " ".join(str(finding) for finding in findings)
    assert not re.search(r"cuda|nsys|ncu|nvidia", text, re.IGNORECASE)


CLOSED = CHROME.rstrip(",\n") + "\n]\n"


@pytest.mark.parametrize(("name", "text"), [("log.txt", TEXT), ("trace.json", CLOSED)])
def test_damage(tmp_path: Path, name: str, text: str) -> None:
    survive_damage(onetrace.read, tmp_path / name, text)
