"""Simulated programs as exports of Nsight Systems, for what both profilers can record."""

from __future__ import annotations

from pathlib import Path

from synth import kineto
from synth.families import Family
from synth.model import Run as Program
from synth_nsys import Export

DIRECTION = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2}
MIGRATION = {"UVM HtoD": 11, "UVM DtoH": 12}
MANAGED, PAGE_FAULT = 4, 2
BASE = 1_000_000


def recorded(family: Family, program: Program, folder: Path) -> Path:
    """A recording of the program by the profiler that can show the family's problem."""
    folder.mkdir(parents=True, exist_ok=True)
    if family.recorder == "nsys":
        return nsys(program, folder / "run.sqlite")
    kineto.write(program, folder, dialect="2025")
    return folder


def nsys(program: Program, path: Path) -> Path:
    """The program as an export: calls, device operations, and annotations as NVTX ranges."""
    export = Export("3.25.0")
    for device in sorted({d for rank in program.ranks for d in rank.devices}):
        export.add("TARGET_INFO_GPU", id=device, smCount=108)
    for rank in program.ranks:
        for made in rank.ranges:
            start, end = BASE + made.start_ns, BASE + made.end_ns
            if made.layer in ("runtime", "driver"):
                export.api(made.name, start, end, made.correlation, rank.pid, made.tid)
            elif made.layer == "annotation":
                export.range(made.name, start, end, rank.pid, made.tid)
        for op in rank.ops:
            start, end = BASE + op.start_ns, BASE + op.end_ns
            if op.kind == "kernel":
                export.kernel(
                    op.name,
                    start,
                    end,
                    op.correlation,
                    rank.pid,
                    op.device,
                    op.stream,
                    gridX=op.grid[0],
                    blockX=op.block[0],
                )
            elif op.kind == "memcpy":
                words = op.name.replace("(", "").replace(")", "").split()
                export.copy(
                    DIRECTION[words[1]],
                    start,
                    end,
                    op.correlation,
                    op.bytes,
                    MEMORY[words[2]],
                    MEMORY[words[4]],
                    rank.pid,
                    op.device,
                )
            else:
                export.fill(start, end, op.correlation, op.bytes, pid=rank.pid)
        for m in rank.migrations:
            export.copy(
                MIGRATION[m.kind],
                BASE + m.start_ns,
                BASE + m.end_ns,
                0,
                m.bytes,
                MANAGED,
                MEMORY["Device"],
                rank.pid,
                m.device,
                virtualAddress=m.address,
                migrationCause=PAGE_FAULT,
            )
        for metric in sorted({s.metric for s in rank.samples}):
            number = len(metric)
            export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=number, metricName=metric)
            for s in rank.samples:
                if s.metric == metric:
                    export.add(
                        "GPU_METRICS",
                        timestamp=BASE + s.time_ns,
                        typeId=s.device,
                        metricId=number,
                        value=s.value,
                    )
    return export.write(path)
