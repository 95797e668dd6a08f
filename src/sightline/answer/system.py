"""What a tracer of the whole system saw: threads and interrupts, and calls where no GPU worked."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run

_MOST = 6


# Layers of calls that recordings without a GPU's work may be all about.
_CALLS = ("runtime", "driver", "os", "mpi", "library", "openmp", "openacc", "annotation", "other")


def summarize_system(run: Run, *, has_ops: bool) -> dict[str, list[dict[str, Any]]]:
    """The first rows of threads and interrupts, where wake-ups tell who waited for a CPU.

    Of calls, only where nothing else says where the time went: no device work and no operators.
    """
    has_waits = run.rows("wakeups") and run.rows("sched_events")
    has_calls = not has_ops and not run.rows("device_ops") and run.rows("host_ops")
    return {
        "threads": _head(run, "thread_states") if has_waits else [],
        "interrupts": _head(run, "interrupt_times") if run.rows("interrupts") else [],
        "calls": _sum_calls(run) if has_calls else _list_sums(run) if not has_ops else [],
    }


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


def _list_sums(run: Run) -> list[dict[str, Any]]:
    """The longest rows of a recording that only has sums: `layer` is device for work of devices."""
    if run.rows("device_ops") or run.rows("host_ops") or not run.rows("call_sums"):
        return []
    on_device = pl.col("kind") == "device"
    return (
        run.table("call_sums")
        .filter(pl.col("duration_ns").is_not_null())
        .select(
            pl.when(on_device).then(pl.lit("device")).otherwise("layer").alias("layer"),
            "name",
            count="calls",
            total_ns="duration_ns",
            max_ns="longest_duration_ns",
        )
        .sort("total_ns", "name", descending=[True, False])
        .head(_MOST)
        .to_dicts()
    )
