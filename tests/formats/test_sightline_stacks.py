"""Stack files, written here: what their blocks mean, losses, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.core.model.stack_file import CUT, IN_KERNEL, LOST_WAY, RECORD, StackWriter
from sightline.errors import DamagedError
from sightline.formats.own import sightline_stacks
from support.damage import survive_damage

OFFSET = 1_700_000_000_000_000_000
FRAMES: list[Any] = [
    ["native", "main", None, "/bin/train"],
    ["python", "step", "/home/me/train.py", None],
    ["native", "_ZN2at3addEv", None, "/lib/libtorch.so"],
    ["os", "do_page_fault", None, "[kernel.kallsyms]"],
    ["native", None, None, "/lib/libfoo.so"],
]
NODES = [(-1, 0), (0, 1), (1, 2), (2, 3), (1, 4)]
SAMPLES = [(100, 42, 42, 2, 0, 0), (90, 42, 43, 4, 1, CUT), (200, 42, 42, 3, 0, IN_KERNEL)]


def write(path: Path, samples: list[Any] = SAMPLES, **facts: Any) -> Path:
    path.unlink(missing_ok=True)
    writer = StackWriter(path, 50)
    writer.write_facts({"sightline": "1", "period_ns": 1000, "clock": [[50, OFFSET + 50]]})
    writer.write_frames(0, FRAMES)
    writer.write_nodes(NODES)
    writer.write_threads([(42, 42, "train", "train"), (42, 43, "train", "loader")])
    writer.write_samples(np.array(samples, RECORD))
    end = {"finished": True, "clock": [[50, OFFSET + 50], [900, OFFSET + 907]], "stack_bytes": 8}
    writer.write_facts(end | {"cpu_time_ns": 4000, "samples": 3, "own_cpu_ns": 5} | facts)
    writer.close()
    return path


def read(path: Path) -> Imported:
    return sightline_stacks.read(Source(path, path.name), ImportOptions())


def test_what_a_file_says(tmp_path: Path) -> None:
    imported = read(write(tmp_path / "a.stacks"))
    samples = imported.tables["cpu_samples"]
    assert samples.select("time_ns", "tid", "stack_id", "cpu", "weight_ns", "on_cpu").rows() == [
        (OFFSET + 90, 43, 4, 1, 1000, True),
        (OFFSET + 100, 42, 2, 0, 1000, True),
        (OFFSET + 200, 42, 3, 0, 1000, True),
    ]
    frames = imported.tables["frames"]
    assert frames.get_column("function").to_list() == [
        "main", "step", "at::add()", "do_page_fault", "[libfoo.so]",
    ]  # fmt: skip
    stacks = imported.tables["stacks"]
    assert stacks.select("parent_id", "depth").rows() == [
        (None, 0), (0, 1), (1, 2), (2, 3), (1, 2),
    ]  # fmt: skip
    assert imported.recording.clock_offset_ns == OFFSET
    assert imported.recording.clock_uncertainty_ns == 7
    assert imported.tables["threads"].get_column("thread_name").to_list() == ["train", "loader"]
    kinds = {q.kind: q.text for q in imported.quality}
    assert set(kinds) == {"stacks_cut", "overhead"}
    assert kinds["stacks_cut"].startswith("33.3 %")
    assert "3.000 µs of the 4.000 µs" in kinds["overhead"]


def test_a_name_that_comes_later_holds(tmp_path: Path) -> None:
    path = write(tmp_path / "a.stacks")
    writer = object.__new__(StackWriter)
    writer._file = path.open("ab", buffering=0)
    writer.write_frames(4, [("python", "late", "/a.py", None)])
    writer.close()
    frames = read(path).tables["frames"]
    assert frames.row(4, named=True)["function"] == "late"


@pytest.mark.parametrize(
    ("facts", "kind", "count"),
    [
        ({"lost": 12}, "samples_lost", 12),
        ({"throttled": 2}, "samples_throttled", 2),
        ({"sees_kernel": False}, "kernel_not_sampled", None),
        ({"stacks_left_out": 9}, "stacks_left_out", 9),
    ],
)
def test_limits(tmp_path: Path, facts: dict[str, Any], kind: str, count: int | None) -> None:
    found = {q.kind: q.count for q in read(write(tmp_path / "a.stacks", **facts)).quality}
    assert found[kind] == count
    assert kind not in {q.kind for q in read(write(tmp_path / "b.stacks")).quality}


def test_stacks_that_nobody_could_follow(tmp_path: Path) -> None:
    samples = [(100 + i, 42, 42, 2, 0, LOST_WAY if i < 3 else 0) for i in range(4)]
    found = {q.kind: q.text for q in read(write(tmp_path / "a.stacks", samples)).quality}
    assert found["broken_stacks"].startswith("75.0 % of the stacks")


def test_a_python_without_names_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.stacks"
    writer = StackWriter(path, 50)
    writer.write_frames(0, FRAMES[:1])
    writer.write_nodes(NODES[:1])
    writer.write_threads([(42, 42, "python3.11", "python3.11")])
    writer.write_samples(np.array([(100, 42, 42, 0, 0, 0)], RECORD))
    writer.close()
    kinds = {q.kind for q in read(path).quality}
    assert {"no_python_frames", "process_killed"} <= kinds


def test_nodes_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    """Parents that come later, or are not there; frames without a number; what is below them."""
    path = tmp_path / "a.stacks"
    writer = StackWriter(path, 50)
    writer.write_frames(0, FRAMES[:1])
    writer.write_nodes([(-1, 0), (2, 0), (1, 0), (0, 77), (3, 0), (0, 0), (-5, 0)])
    writer.write_samples(np.array([(i, 1, 1, i, 0, 0) for i in range(8)], RECORD))
    writer.close()
    imported = read(path)
    assert imported.tables["stacks"].get_column("stack_id").to_list() == [0, 5]
    assert imported.tables["cpu_samples"].get_column("stack_id").null_count() == 6
    (row,) = [q for q in imported.quality if q.kind == "damaged_events"]
    assert row.count == 5 + 6


def test_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "a.stacks")
    survive_damage(sightline_stacks.read, path, path.read_bytes())


def test_no_sample(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no sample"):
        read(write(tmp_path / "a.stacks", []))


def test_the_run_draws_and_names_functions(tmp_path: Path) -> None:
    run = sightline.open(str(write(tmp_path / "a.stacks")))
    assert run.scan("cpu_samples").select(pl.len()).collect().item() == 3
