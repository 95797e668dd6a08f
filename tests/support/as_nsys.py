"""Simulated programs as exports of Nsight Systems, for what both profilers can record."""

from __future__ import annotations

from synth_nsys import Export

DIRECTION = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
MEMORY = {"Pageable": 0, "Pinned": 1, "Device": 2}
BASE = 1_000_000


def nsys(program, path):
    """The program as an export: calls, device operations, and annotations as NVTX ranges."""
    export = Export("3.25.0")
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
                    op.name, start, end, op.correlation, rank.pid, op.device, op.stream,
                    gridX=op.grid[0], blockX=op.block[0],
                )  # fmt: skip
            elif op.kind == "memcpy":
                words = op.name.replace("(", "").replace(")", "").split()
                export.copy(
                    DIRECTION[words[1]], start, end, op.correlation, op.bytes, MEMORY[words[2]],
                    MEMORY[words[4]], rank.pid, op.device,
                )  # fmt: skip
            else:
                export.fill(start, end, op.correlation, op.bytes, pid=rank.pid)
        for metric in sorted({s.metric for s in rank.samples}):
            number = len(metric)
            export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=number, metricName=metric)
            for s in rank.samples:
                if s.metric == metric:
                    export.add("GPU_METRICS", timestamp=BASE + s.time_ns, typeId=s.device,
                               metricId=number, value=s.value)  # fmt: skip
    return export.write(path)
