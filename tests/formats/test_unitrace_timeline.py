"""unitrace's device timelines: a written one, and those of Intel's own tests."""

from __future__ import annotations

import re
from pathlib import Path

import polars
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.intel import unitrace_timeline
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures

TIMES = "[ns] {} (append) {} (submit) {} (start) {} (end)"


def write(folder: Path, *entries: tuple[str, str, int, int]) -> Path:
    lines = [
        f"Thread 5 Device {device} : {name} {TIMES.format(1, 2, start, end)}"
        for device, name, start, end in entries
    ]
    path = folder / "timeline.txt"
    path.write_text("\n".join(lines))
    return path


def read(path: Path) -> Imported:
    imported: Imported = unitrace_timeline.read(Source(path, path.name), ImportOptions())
    return imported


def test_what_becomes_what(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ("59", '"GEMM[SIMD32 {1; 1024; 2} {64; 4; 1}]"', 30, 50),
        ("59", '"zeCommandListAppendMemoryCopy(M2D)[4096]"', 10, 20),
        ("59", '"zeCommandListAppendMemoryCopy(S2D)[8]"', 60, 61),
        ("0x4f", "clEnqueueReadBuffer", 70, 90),
        ("59", '"zeCommandListAppendBarrier"', 20, 50),
        ("59", '"zeCommandListAppendMemoryFill(D)[16]"', 91, 92),
    )
    tables = read(path).tables
    columns = ("start_ns", "end_ns", "device_id", "kind", "name", "bytes", "copy_kind")
    copy = "zeCommandListAppendMemoryCopy"
    assert tables["device_ops"].select(columns).rows() == [
        (10, 20, 0, "memcpy", f"{copy}(M2D)", 4096, "HtoD"),
        (30, 50, 0, "kernel", "GEMM", None, None),
        (60, 61, 0, "memcpy", f"{copy}(S2D)", 8, None),
        (70, 90, 1, "memcpy", "clEnqueueReadBuffer", None, "DtoH"),
        (91, 92, 0, "memset", "zeCommandListAppendMemoryFill(D)", 16, None),
    ]
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    assert tables["device_ops"].select(shape).row(1) == (1, 1024, 2, 64, 4, 1)
    waits = tables["device_ranges"].select("name", "start_ns", "end_ns").rows()
    assert waits == [("zeCommandListAppendBarrier", 20, 50)]
    assert tables["devices"].rows() == [(0, "intel"), (1, "intel")]
    # All were handed to the driver at once: one call, of which only the moment is known.
    calls = tables["host_ops"].select("tid", "layer", "name", "start_ns", "end_ns").rows()
    assert calls == [(5, "runtime", "submit", 2, 2)]
    assert tables["device_ops"].get_column("launch_id").to_list() == [0] * 5


def test_idle_time_before_a_submission_is_the_hosts(tmp_path: Path) -> None:
    """1,000 µs until the thread submits, then 200 until the GPU begins."""
    path = tmp_path / "timeline.txt"
    lines = [
        f'Thread 5 Device 1 : "A[SIMD32 {{1; 1; 1}} {{1; 1; 1}}]" [ns] {at} (append) {at} (submit) '
        f"{at + 200_000} (start) {at + 500_000} (end)"
        for at in range(0, 12 * 1_500_000, 1_500_000)
    ]
    path.write_text("\n".join(lines))
    run = sightline.open(str(path))
    gaps = run.ask("idle_parts").group_by("cause").agg(ns=polars.col("part_ns").sum())
    assert dict(gaps.rows()) == {"host_late": 11 * 1_000_000, "not_started": 11 * 200_000}
    late = next(f for f in run.findings() if f.rule == "host-late")
    # Handed over in time, the work queues: that hides some of the time it takes to begin, too.
    assert 11 * 1_000_000 <= (late.gain_ns or 0) <= 11 * 1_200_000
    assert late.confidence == "low"


def test_lines_that_are_cut_or_run_backwards(tmp_path: Path) -> None:
    path = write(tmp_path, ("1", '"a"', 10, 20), ("1", '"b"', 40, 30), ("1", '"c"', 50, 60))
    path.write_text(path.read_text()[:-30])
    imported = read(path)
    assert imported.tables["device_ops"].get_column("name").to_list() == ["a"]
    counts = {note.kind: note.count for note in imported.quality}
    assert counts == {"open_end": None, "damaged_lines": 2, "no_api_calls": None}
    path.write_text("Thread 5 Device 1 : x")
    with pytest.raises(DamagedError, match="it has no complete line"):
        read(path)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "\u0663", "\u00b2", "-1"])
@pytest.mark.parametrize("place", ["Thread 5", "[ns] 1", " 2 (submit", " 10 (start", " 20 (end"])
def test_numbers_that_no_column_holds(tmp_path: Path, place: str, number: str) -> None:
    path = write(tmp_path, ("59", "copy", 10, 20), ("59", "copy", 30, 40))
    head = place.rstrip("0123456789") if place[-1].isdigit() else " "
    tail = "" if place[-1].isdigit() else place[place.index("(") - 1 :]
    path.write_text(path.read_text().replace(place, f"{head}{number}{tail}", 1))
    imported = read(path)
    assert imported.tables["device_ops"].height == 1
    assert any(row.count == 1 for row in imported.quality)


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("intel_unitrace/**/*.txt"), ids=name_recording)
def test_every_file_of_intels_tests_gives_a_report_or_a_reason(path: Path) -> None:
    """Timelines have as many entries as lines say `(end)`, and their sums are those of awk."""
    text = path.read_text()
    spans = re.findall(r"(\d+) \(start\) (\d+) \(end\)", text)
    if not spans and "(start)" not in text:
        return  # a summary: test_unitrace_summary.py
    run = sightline.open(str(path))
    ops, ranges = run.table("device_ops"), run.table("device_ranges")
    total = sum(
        (frame.get_column("end_ns") - frame.get_column("start_ns")).sum() for frame in (ops, ranges)
    )
    theirs = len(spans), sum(int(end) - int(start) for start, end in spans)
    compare_figures(path, "entries and ns", (ops.height + ranges.height, total), theirs)
    for finding in run.findings():
        assert not re.search(r"CUDA|nsys|ncu|nvidia", finding.fix or "", re.IGNORECASE)
