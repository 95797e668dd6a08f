"""What a tracer of the whole system saw: threads and interrupts, and calls where no GPU worked."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.sums import select_sums

_MOST = 6
_LATER = {"os": 2, "annotation": 1}  # layers of sums behind the others


# Layers of calls that recordings without a GPU's work may be all about.
_CALLS = ("runtime", "driver", "os", "mpi", "library", "openmp", "openacc", "annotation", "other")


def summarize_system(run: Run, *, has_ops: bool) -> dict[str, list[dict[str, Any]]]:
    """The first rows of threads and interrupts, where wake-ups tell who waited for a CPU.

    Of jobs of MPI one row in `mpi`, and who waited for whom in `mpi_waits`.

    Of calls, only where nothing else says where the time went: no device work and no operators.
    Of runs, only where several stand in one text.
    """
    has_waits = run.rows("wakeups") and run.rows("sched_events")
    has_calls = not has_ops and not run.rows("device_ops") and run.rows("host_ops")
    return {
        "mpi": _sum_mpi(run),
        "mpi_waits": run.ask("mpi_waits").head(_MOST).to_dicts() if run.rows("mpi_events") else [],
        "threads": _head(run, "thread_states") if has_waits else [],
        "interrupts": _head(run, "interrupt_times") if run.rows("interrupts") else [],
        "calls": _sum_calls(run) if has_calls else _list_sums(run) if not has_ops else [],
        "runs": _list_runs(run),
    }


def _sum_mpi(run: Run) -> list[dict[str, Any]]:
    """How many ranks there are, and what share of their time calls of MPI took.

    Without MPI_Init and MPI_Finalize, which come once and are not part of the work.
    """
    if not run.rows("mpi_events"):
        return []
    place = ["rank", "recording_id", "pid"]
    used = [*place, "host_op_id", "parent_id", "layer", "name", "start_ns", "end_ns"]
    host = run.table("host_ops", used)
    length = pl.col("end_ns") - pl.col("start_ns")
    is_once = (pl.col("layer") == "mpi") & pl.col("name").str.contains(r"(?i)^mpi_(init|finalize)")
    once = host.filter(is_once).select(length.sum()).item() or 0
    spans = host.group_by(place).agg(ns=pl.col("end_ns").max() - pl.col("start_ns").min())
    calls = host.filter((pl.col("layer") == "mpi") & ~is_once)
    # A call that MPI makes within another one is part of it.
    outer = calls.join(
        calls.select(parent_id="host_op_id"), on="parent_id", how="anti", nulls_equal=False
    )
    ranks = run.table("mpi_events", ["mpi_rank"]).get_column("mpi_rank").drop_nulls().n_unique()
    return [
        {
            "ranks": ranks or spans.height,
            "calls": outer.height,
            "mpi_ns": outer.select(length.sum()).item(),
            "span_ns": spans.get_column("ns").sum() - once,
        }
    ]


def _head(run: Run, analysis: str) -> list[dict[str, Any]]:
    return run.ask(analysis).head(_MOST).to_dicts()


def _sum_calls(run: Run) -> list[dict[str, Any]]:
    """Calls by layer and name, the longest together first. Marks take no time and are left out."""
    length = pl.col("end_ns") - pl.col("start_ns")
    used = ("layer", "name", "range_kind", "start_ns", "end_ns")
    calls = run.table("host_ops", used).filter(
        pl.col("layer").is_in(_CALLS) & (pl.col("range_kind").fill_null("") != "mark")
    )
    summed = calls.group_by("layer", "name").agg(
        count=pl.len(), total_ns=length.sum(), max_ns=length.max()
    )
    return (
        summed.sort("layer", "name")
        .sort("total_ns", descending=True, maintain_order=True)
        .head(_MOST)
        .to_dicts()
    )


def _list_runs(run: Run) -> list[dict[str, Any]]:
    """The runs that stand in one text, where there are several."""
    if not run.rows("call_sums"):
        return []
    runs = run.ask("summed_runs").filter(pl.col("part").is_not_null())
    return runs.to_dicts() if runs.height > 1 else []


def _list_sums(run: Run) -> list[dict[str, Any]]:
    """The longest rows of a recording that only has sums.

    `layer` is device for work of devices, and wait for what only waits there.
    """
    if run.rows("device_ops") or run.rows("host_ops") or not run.rows("call_sums"):
        return []
    on_device = pl.col("kind") == "device"
    return (
        select_sums(run)
        .filter(pl.col("duration_ns").is_not_null())
        .select(
            pl.when(on_device & pl.col("category").is_null())
            .then(pl.lit("wait"))
            .when(on_device)
            .then(pl.lit("device"))
            .otherwise("layer")
            .alias("layer"),
            "name",
            count="calls",
            total_ns="duration_ns",
            max_ns="longest_duration_ns",
        )
        # Waits of idle threads (poll) are the longest of all, and say least.
        .sort(
            pl.col("layer").cast(pl.String).replace_strict(_LATER, default=0),
            -pl.col("total_ns"),
            "name",
        )
        .head(_MOST)
        .to_dicts()
    )
