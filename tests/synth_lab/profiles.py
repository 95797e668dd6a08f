"""What Nsight Compute and Nsight Systems would record of a kernel that `kernels.py` ran."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

from synth_lab.kernels import SECTOR, WARP, Access, Math, Outcome, Program, run_kernel
from synth_ncu import Kernel, report
from worlds import nsight
from worlds.calls import Work
from worlds.recorded import RunRecord
from worlds.world import COMPUTE, World

SEED = 2
# Attributes as a report on an H100 states them (the names are those of real reports).
DEVICE = {
    "display_name": "NVIDIA H100 80GB HBM3",
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "multiprocessor_count": 132,
    "max_gpu_frequency_khz": 1_980_000,
    "max_mem_frequency_khz": 2_619_000,
    "fb_bus_width": 5_120,
    "total_memory": 85_018_279_936,
    "l2_cache_size": 52_428_800,
    "warp_size": 32,
    "max_warps_per_multiprocessor": 64,
    "max_blocks_per_multiprocessor": 32,
    "max_threads_per_multiprocessor": 2_048,
    "max_registers_per_multiprocessor": 65_536,
    "max_shared_memory_per_multiprocessor": 233_472,
    "num_schedulers_per_multiprocessor": 4,
}
STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "lg_throttle",
    "mio_throttle",
    "math_pipe_throttle",
    "wait",
    "barrier",
    "selected",
    "not_selected",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "membar",
    "misc",
    "no_instruction",
    "sleeping",
    "tex_throttle",
)


def write_report(program: Program, target: Path) -> Outcome:
    """A report of Nsight Compute with one launch of a kernel."""
    outcome = run_kernel(program)
    function = re.split(r"\W", program.name)[0]
    kernel = Kernel(
        name=program.name,
        function=function,
        mangled=f"_Z{len(function)}{function}",
        grid=program.grid,
        block=program.block,
        metrics=count_metrics(outcome),
        locked=False,
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(report([kernel], device=DEVICE, version="2024.3.2.0 (build 1)"))
    return outcome


def write_timeline(outcome: Outcome, times: int, target: Path) -> None:
    """An SQLite export of Nsight Systems: the kernel, so many times."""
    program = outcome.program
    world = World(SEED, operators=False)
    main = world.script(0, "main", 100, recorded=True)
    main.start()
    for _ in range(times):
        main.spend(900)
        main.launch(
            [
                Work(
                    "kernel",
                    program.name,
                    round(outcome.ns),
                    grid=program.grid,
                    block=program.block,
                    registers=program.registers,
                    shared_bytes=program.shared_bytes,
                )
            ],
            COMPUTE,
        )
    main.sync_device()
    write_sqlite(world.play(), target, annotated=False)


def write_sqlite(run: RunRecord, target: Path, *, annotated: bool) -> None:
    """What `nsys export --type sqlite` writes of a run."""
    target.parent.mkdir(parents=True, exist_ok=True)
    nsight.Writer(target, SEED, annotated=annotated).write(run.ranks)
    with sqlite3.connect(target) as database:
        # Small pages: the names of tables come early, where formats are recognized.
        database.execute("PRAGMA page_size = 1024")
        database.execute("VACUUM")
    database.close()


def count_metrics(outcome: Outcome) -> dict[str, float]:
    """The metrics of `ncu --set full` that the model has, under their names."""
    return {
        **_count_launch(outcome),
        **_count_light(outcome),
        **_count_memory(outcome),
        **_count_warps(outcome),
    }


def _count_launch(outcome: Outcome) -> dict[str, float]:
    program, gpu = outcome.program, outcome.gpu
    threads = program.warps * WARP
    return {
        "gpu__time_duration.sum": outcome.ns,
        "launch__grid_size": float(program.blocks),
        "launch__block_size": float(threads),
        "launch__registers_per_thread": float(program.registers),
        "launch__shared_mem_per_block_static": float(program.shared_bytes),
        "launch__shared_mem_per_block_dynamic": 0.0,
        "launch__shared_mem_per_block_driver": float(gpu.shared_reserved),
        "launch__waves_per_multiprocessor": program.blocks / gpu.sms / outcome.resident,
        "sm__maximum_warps_per_active_cycle_pct": 100
        * outcome.resident
        * program.warps
        / gpu.max_warps,
        "sm__cycles_elapsed.avg.per_second": gpu.clock_hz,
        "smsp__cycles_elapsed.avg.per_second": gpu.clock_hz,
        "lts__cycles_elapsed.avg.per_second": gpu.clock_hz,
        "l1tex__cycles_elapsed.avg.per_second": gpu.clock_hz,
        "gpc__cycles_elapsed.avg.per_second": gpu.clock_hz,
        "gpc__cycles_elapsed.max": outcome.cycles,
    }


def _count_light(outcome: Outcome) -> dict[str, float]:
    """Throughputs, % of each unit's peak."""
    busy = {unit: 100 * share for unit, share in outcome.busy.items()}
    l1 = max(busy["l1"], busy["shared"])
    e = "avg.pct_of_peak_sustained_elapsed"
    return {
        f"sm__throughput.{e}": max(busy["issue"], busy["fma"]),
        f"gpu__compute_memory_throughput.{e}": max(l1, busy["l2"], busy["dram"]),
        "l1tex__throughput.avg.pct_of_peak_sustained_active": l1,
        f"lts__throughput.{e}": busy["l2"],
        f"gpu__dram_throughput.{e}": busy["dram"],
        f"sm__pipe_fma_cycles_active.{e}": busy["fma"],
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": busy["fma"],
        f"sm__inst_issued.{e}": busy["issue"],
    }


def _count_memory(outcome: Outcome) -> dict[str, float]:
    found: dict[str, float] = {}
    for space in ("global", "local"):
        for op in ("ld", "st"):
            sectors = outcome.count(space, op, "sectors")
            stem = f"pipe_lsu_mem_{space}_op_{op}"
            found[f"l1tex__t_sectors_{stem}.sum"] = sectors
            found[f"l1tex__t_requests_{stem}.sum"] = outcome.count(space, op, "instructions")
            if space == "global" and sectors:
                used = _sum_accesses(outcome, space, op, lambda a: len(set(a.addresses)) * a.size)
                name = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"
                found[name] = used / sectors
        held = _sum_accesses(outcome, space, "ld", lambda a: a.sectors * a.in_l1)
        loads = outcome.count(space, "ld", "sectors")
        if loads:
            name = f"l1tex__t_sector_pipe_lsu_mem_{space}_op_ld_hit_rate.pct"
            found[name] = 100 * held / loads
    held = sum(
        _sum_accesses(outcome, space, "ld", lambda a: a.sectors * a.in_l1)
        for space in ("global", "local")
    )
    if looked := sum(outcome.count(space, "ld", "sectors") for space in ("global", "local")):
        found["l1tex__t_sector_hit_rate.pct"] = 100 * held / looked
    for op in ("ld", "st"):
        waves = outcome.count("shared", op, "wavefronts")
        times = outcome.count("shared", op, "instructions")
        found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] = waves
        found[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] = waves - times
        found[f"smsp__inst_executed_op_shared_{op}.sum"] = times
    beyond = {op: _beyond(outcome, op) for op in ("ld", "st")}
    dram = {op: _beyond(outcome, op, dram=True) * SECTOR for op in ("ld", "st")}
    seconds = outcome.ns / 1e9
    for name, value in (
        ("dram__bytes_read.sum", dram["ld"]),
        ("dram__bytes_write.sum", dram["st"]),
        ("dram__bytes.sum", sum(dram.values())),
        ("lts__t_sectors.sum", sum(beyond.values())),
        ("l1tex__m_xbar2l1tex_read_bytes.sum", beyond["ld"] * SECTOR),
    ):
        found[name] = value
        found[f"{name}.per_second"] = value / seconds
    if sum(beyond.values()):
        share = sum(dram.values()) / SECTOR / sum(beyond.values())
        found["lts__t_sector_hit_rate.pct"] = 100 * (1 - share)
    ops = ("ld", "st")
    name = "memory_l2_theoretical_sectors_global"
    found[name] = sum(outcome.count("global", op, "sectors") for op in ops)
    found[f"{name}_ideal"] = sum(outcome.count("global", op, "ideal_sectors") for op in ops)
    waves = sum(outcome.count("shared", op, "wavefronts") for op in ops)
    found["memory_l1_wavefronts_shared"] = waves
    found["memory_l1_wavefronts_shared_ideal"] = sum(
        outcome.count("shared", op, "instructions") for op in ops
    )
    return found


def _sum_accesses(
    outcome: Outcome, space: str, op: str, measure: Callable[[Access], float]
) -> float:
    return outcome.warps * sum(
        a.count * measure(a) for a in outcome.program.accesses if (a.space, a.op) == (space, op)
    )


def _beyond(outcome: Outcome, op: str, *, dram: bool = False) -> float:
    """Sectors that the L1 does not hold, and (`dram`) neither does the L2."""

    def measure(access: Access) -> float:
        return access.sectors * (1 - access.in_l1) * ((1 - access.in_l2) if dram else 1)

    return sum(_sum_accesses(outcome, space, op, measure) for space in ("global", "local"))


def _count_warps(outcome: Outcome) -> dict[str, float]:
    """Instructions, threads that took part in them, and what warps waited for."""
    program, gpu = outcome.program, outcome.gpu
    issued = program.instructions
    issue = outcome.busy["issue"]  # instructions per cycle and scheduler
    active = outcome.active_warps / gpu.schedulers
    latency = active / issue  # cycles between two instructions of a warp
    whole = sum(outcome.waits.values())
    threads = (
        sum(
            p.count * (p.threads if isinstance(p, Math) else len(p.addresses))
            for p in program.parts
        )
        + program.barriers * WARP
    ) / issued
    found = {
        "smsp__inst_executed.sum": outcome.warps * issued,
        "smsp__issue_active.avg.per_cycle_active": issue,
        "smsp__warps_active.avg.per_cycle_active": active,
        "smsp__warps_eligible.avg.per_cycle_active": active
        * (outcome.waits["selected"] + outcome.waits.get("not_selected", 0.0))
        / whole,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 100
        * outcome.active_warps
        / gpu.max_warps,
        "smsp__average_warp_latency_per_inst_issued.ratio": latency,
        "smsp__thread_inst_executed_per_inst_executed.ratio": threads,
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": threads,
    }
    for reason in STALLS:
        cycles = latency * outcome.waits.get(reason, 0.0) / whole
        found[f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"] = cycles
    for op in ("add", "mul", "fma"):
        done = sum(
            p.count * p.threads for p in program.parts if isinstance(p, Math) and p.kind == op
        )
        found[f"smsp__sass_thread_inst_executed_op_f{op}_pred_on.sum"] = outcome.warps * done
    return found
