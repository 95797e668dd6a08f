"""Reports of Nsight Compute with one kernel, whose metrics a test chooses. Times are in ns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sightline
from sightline.core.model.run import Run
from synth_ncu import Kernel, cubin, report
from synth_ncu.report import source

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
ISSUE = "smsp__issue_active.avg.per_cycle_active"
TIME = "gpu__time_duration.sum"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# Six blocks of 256 threads fit one of the A10G's 80 SMs: 480 blocks are a wave.
FULL_SM = {
    "launch__registers_per_thread": 32.0,
    "launch__block_size": 256.0,
    "launch__shared_mem_per_block_driver": 1024.0,
}
CODE = 0x7F0000001000  # where the code of with_code() lies


def opened(folder: Path, data: bytes) -> Run:
    """The run that the tool makes of a report."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "r.ncu-rep"
    path.write_bytes(data)
    return sightline.open(str(path))


def profiled(
    folder: Path,
    metrics: Mapping[str, Any],
    *,
    blocks: int = 1600,
    threads: int = 256,
    time: float | None = 10_000.0,
) -> Run:
    """One kernel of 10 µs on an A10G (80 SMs): a gain of 1 % of it is 100 ns."""
    known = {} if time is None else {TIME: time}
    asked = {n: v for n, v in {**known, **metrics}.items() if v is not None}
    kernel = Kernel(grid=(blocks, 1, 1), block=(threads, 1, 1), metrics=asked)
    return opened(folder, report([kernel]))


def with_code(
    stall: str = "long_scoreboard", lines: bool = True, file: str = "scale.cu", **more: Any
) -> bytes:
    """A kernel of four instructions on two lines, sampled at two of them."""
    places = [(0, 10), (16, 12)] if lines else []
    binary = cubin("_Z5scalePf", [0x981, 0x221, 0x986, 0x94D], places, file)
    sampled = f"smsp__pcsamp_warps_issue_stalled_{stall}"
    metrics = {
        "launch__function_pcs": (float(CODE), {0: CODE}),
        "inst_executed": (400, {CODE + 16 * n: 100 for n in range(4)}),
        "smsp__pcsamp_interval_cycles": 1024.0,
        sampled: (30, {CODE: 0, CODE + 16: 30}),
        f"{sampled}_not_issued": (20, {CODE: 0, CODE + 16: 20}),
        "smsp__pcsamp_warps_issue_stalled_selected": (3, {CODE: 3, CODE + 16: 0}),
        **more,
    }
    kernel = Kernel(metrics=metrics, source=9)
    return report([kernel], sources=(source(9, binary, {"_Z5scalePf": CODE}),))
