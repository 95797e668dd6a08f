"""Stamps from within a kernel, as tracers of one's own write them into a Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run

SECTIONS = (("load", 2.0), ("mma", 5.0), ("store", 1.0))


def sections(multiprocessors: int = 2, warps: int = 2, **more: Any) -> list[dict[str, Any]]:
    """Of each warp three sections behind one another, 8 µs in all."""
    events = []
    for sm in range(multiprocessors):
        for warp in range(warps):
            start = 0.0
            for name, took in SECTIONS:
                event = {"name": name, "ph": "X", "ts": start, "dur": took, "pid": sm, "tid": warp}
                events.append(event | {"args": {"block": sm, "smid": sm}} | more)
                start += took
    return events


def names(text: str, pids: int = 2) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": text.format(pid)}}
        for pid in range(pids)
    ]


def opened(folder: Path, document: Any) -> Run:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return sightline.open(str(path))


def assert_sections(run: Run) -> None:
    """32 µs of four warps: 8 load, 20 mma, 4 store, and nothing of a CPU's or a GPU's timeline."""
    assert (run.rows("host_ops"), run.rows("device_ops"), run.rows("devices")) == (0, 0, 0)
    weights = run.table("stack_weights")
    assert weights.get_column("metric").unique().to_list() == ["warp_time_ns"]
    assert weights.get_column("value").sort().to_list() == [4_000, 8_000, 20_000]
    assert run.table("quality").get_column("kind").to_list() == ["in_kernel"]
    first = sightline.findings(run)[0]
    assert (first.rule, first.states_limit) == ("kernel-regions", True)
    assert first.summary == (
        "62.5 % of the warps' time in marked regions is in mma; the others take 37.5 %."
    )
    assert first.evidence[1] == "25.0 % load, 8.000 µs"


@pytest.mark.parametrize("text", ["SM {}", "SM_{}", "SM{}"])
def test_a_process_for_each_multiprocessor(tmp_path: Path, text: str) -> None:
    assert_sections(opened(tmp_path, {"traceEvents": [*sections(), *names(text)]}))


def test_kernels_that_name_their_multiprocessor(tmp_path: Path) -> None:
    """As open-cuprof writes them: a list, each section of category "kernel"."""
    assert_sections(opened(tmp_path, sections(cat="kernel")))


def test_sections_within_sections(tmp_path: Path) -> None:
    loop = {"name": "loop", "ph": "X", "ts": 1.0, "dur": 6.0, "pid": 0, "tid": 0}
    whole = {"name": "tile", "ph": "X", "ts": 0.0, "dur": 10.0, "pid": 0, "tid": 0}
    run = opened(tmp_path, {"traceEvents": [loop, whole, *names("SM {}", 1)]})
    assert run.table("stack_weights").get_column("value").sort().to_list() == [4_000, 6_000]


@pytest.mark.parametrize("text", ["rank {}", "SMTP {}", "SM {} helper"])
def test_other_processes(tmp_path: Path, text: str) -> None:
    run = opened(tmp_path, {"traceEvents": [*sections(), *names(text)]})
    assert run.rows("host_ops") == 12
    assert run.rows("stack_weights") == 0


def test_one_process_of_another_kind(tmp_path: Path) -> None:
    """A timeline with a track of multiprocessors beside the program's own threads stays one."""
    host = {"name": "main", "ph": "X", "ts": 0.0, "dur": 9.0, "pid": 7, "tid": 7}
    run = opened(tmp_path, {"traceEvents": [*sections(), host, *names("SM {}")]})
    assert run.rows("host_ops") == 13


def test_kernels_of_a_profiler(tmp_path: Path) -> None:
    """With a device, a grid or a call that launched it, a kernel is one."""
    args = {"device": 0, "stream": 7, "correlation": 3, "smid": 1}
    run = opened(tmp_path, [*sections(cat="kernel", args=args)])
    assert run.rows("device_ops") == 12
    assert run.rows("stack_weights") == 0
