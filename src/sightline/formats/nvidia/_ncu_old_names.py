"""What metrics of Pascal GPUs were called, and what the same ones are called since Volta.

Nsight Compute measured GPUs of compute capability 6.x until 2019.5, by metrics of an older library.
Its own section files and rules have both names for each figure, by the GPU: "SOL SM" is
`sm__sol_pct` there and `sm__throughput.avg.pct_of_peak_sustained_elapsed` since (SpeedOfLight,
Occupancy, SchedulerStatistics, WarpStateStatistics, SOLBottleneck). A report keeps its own names;
beside them stand those that all else asks for.
"""

from __future__ import annotations

import math

_NAMES = {
    "gpu__time_duration": "gpu__time_duration.sum",
    "sm__sol_pct": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_sol_pct": (
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    ),
    "fbpa__sol_pct": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "ltc__sol_pct": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "tex__sol_pct": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "tex__hitrate_pct": "l1tex__t_sector_hit_rate.pct",
    "lts__request_total_sectors_hitrate_pct": "lts__t_sector_hit_rate.pct",
    "dram__bytes_per_sec": "dram__bytes.sum.per_second",
    "dram__read_bytes": "dram__bytes_read.sum",
    "dram__write_bytes": "dram__bytes_write.sum",
    "dram__read_bytes_per_sec": "dram__bytes_read.sum.per_second",
    "dram__write_bytes_per_sec": "dram__bytes_write.sum.per_second",
    "gpc__elapsed_cycles_max": "gpc__cycles_elapsed.max",
    "gpc__frequency": "gpc__cycles_elapsed.avg.per_second",
    "sm__active_warps_avg_per_active_cycle": "sm__warps_active.avg.per_cycle_active",
    "sm__active_warps_avg_per_active_cycle_pct": (
        "sm__warps_active.avg.pct_of_peak_sustained_active"
    ),
    "sm__inst_executed_avg_per_active_cycle": "sm__inst_executed.avg.per_cycle_active",
    "sm__inst_executed_avg_per_elapsed_cycle": "sm__inst_executed.avg.per_cycle_elapsed",
    "smsp__inst_executed_sum": "smsp__inst_executed.sum",
    "smsp__active_warps_avg_per_active_cycle": "smsp__warps_active.avg.per_cycle_active",
    "smsp__eligible_warps_avg_per_active_cycle": "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__issue_active_avg_per_active_cycle": "smsp__issue_active.avg.per_cycle_active",
    "smsp__warp_cycles_per_inst_issued": "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__thread_inst_executed_per_inst_executed": (
        "smsp__thread_inst_executed_per_inst_executed.ratio"
    ),
    "smsp__thread_inst_executed_not_pred_off_per_inst_executed": (
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
    ),
}
_STALL = "smsp__warp_cycles_per_issue_stall_"
_STALL_SINCE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_REASONS = {"no_instructions": "no_instruction", "dispatch_stall": "dispatch"}


def rename_metric(old: str) -> str | None:
    """The name of today of a metric with an older one; None of others."""
    if not old.startswith(_STALL):
        return _NAMES.get(old)
    reason = old.removeprefix(_STALL)
    return _STALL_SINCE.format(_REASONS.get(reason, reason))


def list_renamed(totals: dict[str, int | float | str | None]) -> dict[str, int | float]:
    """The figures that a kernel has by an older name alone, by their names of today."""
    found: dict[str, int | float] = {}
    for old, value in totals.items():
        name = rename_metric(old)
        if name is None or name in totals or isinstance(value, str) or value is None:
            continue
        if math.isfinite(value):
            found[name] = value
    return found
