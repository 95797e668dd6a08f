"""Regions within kernels, in cycles: by region and warp, nested, damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sightline
from sightline import findings
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.triton import proton_cycles
from support.damage import survive_damage


def region(name: str, start: Any, cycles: Any, block: int = 0, warp: int = 0) -> dict[str, Any]:
    return {
        "cname": "cq_build_passed",
        "name": name,
        "cat": "triton",
        "ph": "X",
        "ts": start,
        "dur": cycles,
        "pid": f"threadblock {block}",
        "tid": f"warp {warp}",
        "args": {"sm_id": "128", "Note": "0.001ms = 1 cycle"},
    }


def trace(*events: dict[str, Any]) -> str:
    return json.dumps({"traceEvents": list(events)})


TWO_WARPS = trace(
    *(
        region(name, start, cycles, warp=warp)
        for warp in range(2)
        for name, start, cycles in (("load", 0, 200), ("loop", 200, 600), ("store", 800, 200))
    )
)


def test_regions_by_their_cycles(tmp_path: Path) -> None:
    path = tmp_path / "chrome_trace.json"
    path.write_text(TWO_WARPS)
    run = sightline.open(str(path))
    assert run.rows("host_ops") == 0
    assert run.table("stack_weights").get_column("value").sum() == 2_000
    first = findings(run)[0]
    assert (first.rule, first.states_limit) == ("kernel-regions", True)
    assert first.summary.startswith("60.0 % of the 2,000 cycles in marked regions are in loop")
    assert first.evidence[1] == "20.0 % load, 400 cycles"


def read(folder: Path, text: str) -> Imported:
    path = folder / "x.json"
    path.write_text(text)
    imported: Imported = proton_cycles.read(Source(path, "x.json"), ImportOptions())
    return imported


def test_a_region_within_another_is_not_counted_twice(tmp_path: Path) -> None:
    imported = read(tmp_path, trace(region("loop", 0, 1_000), region("wait", 100, 300)))
    assert sorted(imported.tables["stack_weights"].get_column("value")) == [300, 700]


def test_odd_events_are_left_out_and_counted(tmp_path: Path) -> None:
    odd = [region("x", -1, 5), region("x", 0, "many"), {"ph": "M"}]
    imported = read(tmp_path, trace(region("loop", 0, 10), *odd))
    assert {q.kind: q.count for q in imported.quality}["damaged_lines"] == 3


def test_damage(tmp_path: Path) -> None:
    survive_damage(proton_cycles.read, tmp_path / "x", TWO_WARPS)
