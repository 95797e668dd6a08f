"""Workloads of rocprof-compute with one kernel, whose counters a test chooses."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import sightline
from sightline.core.model.run import Run

# An MI300X: 304 compute units of 2.1 GHz on 8 dies, 128 channels of 1.3 GHz.
MI300X = {
    "workload_name": "w", "command": "./w", "hostname": "node7", "rocm_version": "6.2",
    "gpu_model": "MI300X", "gpu_arch": "gfx942", "gpu_l2": "4096", "cu_per_gpu": "304",
    "simd_per_cu": "4", "se_per_gpu": "32", "wave_size": "64", "max_waves_per_cu": "32",
    "max_sclk": "2100", "max_mclk": "1300", "total_l2_chan": "128", "lds_banks_per_cu": "32",
    "sqc_per_gpu": "160", "pipes_per_gpu": "4", "hbm_bw": "5324.8", "num_xcd": "8",
    "num_hbm_channels": "128",
}  # fmt: skip
DISPATCH = {
    "Dispatch_ID": 0, "Kernel_Name": "scale(float*) [clone .kd]", "GPU_ID": 2,
    "Grid_Size": 1_638_400, "Workgroup_Size": 256, "LDS_Per_Workgroup": 0,
    "Scratch_Per_Workitem": 0, "Arch_VGPR": 32, "Accum_VGPR": 0, "SGPR": 16, "Wave_Size": 64,
    "Start_Timestamp": 1_000_000, "End_Timestamp": 1_010_000,
}  # fmt: skip
# All compute units in 10,000 cycles of the GPU: 8 dies count 80,000.
CYCLES = {"GRBM_GUI_ACTIVE": 80_000}
ALL_CYCLES = 10_000 * 304


def write_workload(
    folder: Path, *rows: Mapping[str, object], machine: Mapping[str, str] = MI300X
) -> Path:
    """A workload with these dispatches: columns that differ from DISPATCH, and counters."""
    folder.mkdir(parents=True, exist_ok=True)
    full = [{**DISPATCH, "Dispatch_ID": n, **row} for n, row in enumerate(rows)]
    write_table(folder / "pmc_perf.csv", full)
    write_table(folder / "sysinfo.csv", [machine])
    return folder


def write_table(path: Path, rows: list[Mapping[str, object]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def counted(folder: Path, **counters: object) -> Run:
    """The run of one kernel of 10 µs with these counters (or columns of its dispatch)."""
    return sightline.open(str(write_workload(folder / "w", CYCLES | counters)))
