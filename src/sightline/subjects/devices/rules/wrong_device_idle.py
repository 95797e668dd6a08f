"""A device is idle while several processes share another.

Symptom
    All processes on GPU 0, and GPU 1 empty.

Why it hurts
    Processes on one device take turns or slow each other; the idle device is paid for too.

Evidence
    In one recording of one machine: operations of several processes on one device at the same time,
    while a device that the recording lists has none. The gain is a bound from the timeline: the
    time in which processes ran at once on the device, less its share if they were spread. Where one
    process uses one device of several, the rule is silent: whether the program could use more is
    not in a recording. Ranks in recordings of their own may be on other machines, and number their
    devices each for itself: then the rule abstains where it looks so.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    torch.cuda.set_device(local_rank) before the first CUDA call, CUDA_VISIBLE_DEVICES per process,
    or the launcher's own binding (torchrun's LOCAL_RANK, srun --gpus-per-task=1 --gpu-bind).

False positives
    Sharing on purpose (MPS, several small servers on one device).

References
    CUDA C++ Programming Guide, "Device Selection"; PyTorch documentation, "Distributed Data
    Parallel" (one process per device).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, Loss, abstain, make_finding
from sightline.replay.gains import sum_windows

RULE = Rule("wrong-device-idle", "One GPU idle while another is shared")
_DEVICE = ["recording_id", "device_id"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all recordings."""
    if not run.rows("device_ops"):
        return
    ops = run.table("device_ops", [*_DEVICE, "rank", "pid", "start_ns", "end_ns"])
    known = run.table("devices").select(_DEVICE).unique()
    empty = known.join(ops.select(_DEVICE).unique(), on=_DEVICE, how="anti")
    if empty.is_empty():
        return
    if ops.get_column("recording_id").n_unique() > 1:
        yield from _count_processes(run, ops)
        return
    shared = _find_shared(ops)
    lost = shared.select((pl.col("busy_ns") * (1 - 1 / pl.col("processes"))).sum()).item() or 0
    pct = 100 * lost / sum_windows(run)
    idle = _name_devices(empty)
    if pct >= NOTABLE_PCT:
        yield _make_finding(run, shared, round(lost), pct, idle)


def _make_finding(run: Run, shared: pl.DataFrame, lost: int, pct: float, idle: str) -> Finding:
    worst = shared.sort("busy_ns", descending=True).row(0, named=True)
    return make_finding(
        run,
        RULE,
        f"Processes share device {worst['device_id']}, which takes {format_pct(pct)} of the "
        f"window more than if they were spread out, while {idle} has no work.",
        Loss(cost_ns=lost, bound_ns=lost),
        Evidence(
            [
                f"device {row['device_id']}: "
                f"{format_several(row['processes'], 'process', 'processes')}"
                for row in shared.iter_rows(named=True)
            ],
            rows=shared.to_dicts(),
            where={"devices": shared.get_column("device_id").to_list()},
        ),
        Advice(
            fix=choose_fix(
                run,
                "choose the device by the rank on this machine before the first call, or "
                "CUDA_VISIBLE_DEVICES per process",
                pytorch="torch.cuda.set_device(local_rank) before the first CUDA call, or "
                "CUDA_VISIBLE_DEVICES per process",
                native="cudaSetDevice(rank on this machine) before the first CUDA call, or "
                "CUDA_VISIBLE_DEVICES per process",
                openmp="omp_set_default_device(rank on this machine), or CUDA_VISIBLE_DEVICES per "
                "process",
            ),
            verify="sightline stats breakdown AFTER: a row for each device",
            cause="the processes chose the same device",
            sources=("CUDA C++ Programming Guide: Device Selection",),
        ),
        confidence="medium",
    )


def _find_shared(ops: pl.DataFrame) -> pl.DataFrame:
    """Devices with several processes: how many, and how long two or more of them ran at once."""
    ops = ops.drop_nulls("pid")
    counts = ops.group_by(_DEVICE).agg(processes=pl.col("pid").n_unique())
    ops = ops.join(counts.filter(pl.col("processes") > 1), on=_DEVICE)
    if ops.is_empty():
        return pl.DataFrame(
            schema={"device_id": pl.Int64, "processes": pl.Int64, "busy_ns": pl.Int64}
        )
    each = measure_cover(ops, [*_DEVICE, "pid"]).group_by(_DEVICE).agg(pl.col("covered_ns").sum())
    whole = measure_cover(ops, _DEVICE).rename({"covered_ns": "whole_ns"})
    # What the processes' own times sum to beyond their union ran at once.
    return (
        counts.join(each, on=_DEVICE)
        .join(whole, on=_DEVICE)
        .select(
            "device_id",
            pl.col("processes").cast(pl.Int64),
            at_once=pl.col("covered_ns") - pl.col("whole_ns"),
        )
        .with_columns(busy_ns=pl.col("at_once") // (pl.col("processes") - 1))
        .drop("at_once")
        .filter(pl.col("busy_ns") > 0)
        .sort("device_id")
    )


def _count_processes(run: Run, ops: pl.DataFrame) -> Iterator[Finding]:
    """Recordings of several ranks: abstain where two name the same device and one is unused."""
    used = ops.select("rank", "device_id").unique()
    ranks = used.get_column("rank").n_unique()
    listed = run.table("devices").group_by("rank").len().get_column("len").min() or 0
    twice = used.group_by("device_id").len().filter(pl.col("len") > 1)
    if twice.height and isinstance(listed, int) and ranks <= listed:
        yield abstain(
            RULE,
            "several ranks use the device of the same number, and one has nothing to do; "
            "the recording does not keep whether they are on one machine: compare hosts "
            "(--keep-identity)",
        )


def _name_devices(rows: pl.DataFrame) -> str:
    """'device 0', 'devices 1 to 7' or 'devices 1, 3'."""
    numbers = rows.get_column("device_id").unique().sort().to_list()
    if len(numbers) == 1:
        return f"device {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"devices {numbers[0]} to {numbers[-1]}"
    return f"devices {', '.join(map(str, numbers))}"
