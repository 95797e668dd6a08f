"""The same behaviour gets the same answer, whether PyTorch's profiler or Nsight Systems saw it."""

from __future__ import annotations

import pytest

import sightline
from sightline.report.summary import findings
from synth import kineto
from synth.families import FAMILIES
from synth_nsys import Export

# What a family needs that only PyTorch's profiler records: input shapes, operators, collectives'
# sizes and groups, one file per rank.
NOT_IN_NSYS = {
    "slow-variant", "dtype-casts", "exposed-communication", "small-collectives", "straggler-rank",
    "collective-below-bandwidth",
    "imbalance", "overlap-slows-compute", "pipeline-bubble",
    # Steps are marked by names that belong to PyTorch's profiler.
    "first-iteration-included",
    # The device's name is in a table of the export that this writer does not fill.
    "no-tensor-cores",
}  # fmt: skip
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


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in NOT_IN_NSYS])
def test_same_finding_and_gain(name, tmp_path):
    program = FAMILIES[name].build(0, 3, True)
    kineto.write(program, tmp_path / "kineto", dialect="2025")
    there = findings(sightline.open(str(tmp_path / "kineto")))[0]
    here = findings(sightline.open(str(nsys(program, tmp_path / "run.sqlite"))))[0]
    assert (here.rule, here.severity) == (there.rule, there.severity) == (name, here.severity)
    assert (here.cost_ns, here.gain_ns) == (there.cost_ns, there.gain_ns)
