"""Whether jobs on more and more ranks are of one program: what they do most, by name."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import RequestError

# Ours. More ranks bring other communication and other tiles of the same product, so a part of the
# names differs; two programs share little but what their framework always calls.
_LEAST_SHARED = 0.2
_LEAST_NAMES = 3
_MOST_NAMES = 50  # those that take most of the time


def list_work(run: Run) -> set[str]:
    """Names of the kernels that take most of a run's time; without a device, of its host ranges."""
    kernels = run.table("device_ops", ["kind", "name", "start_ns", "end_ns"]).filter(
        pl.col("kind") == "kernel"
    )
    rows = kernels if kernels.height else run.table("host_ops", ["name", "start_ns", "end_ns"])
    took = (pl.col("end_ns") - pl.col("start_ns")).sum()
    by_time = rows.group_by(pl.col("name").cast(pl.String)).agg(ns=took)
    most = by_time.drop_nulls("name").sort("ns", "name", descending=[True, False])
    return set(most.head(_MOST_NAMES).get_column("name"))


def check_same_program(jobs: Mapping[str, set[str]]) -> None:
    """Raise RequestError unless all jobs do what the first does; of few names nothing is known."""
    (first, names), *others = jobs.items()
    for job, its in others:
        fewer = min(len(names), len(its))
        if fewer >= _LEAST_NAMES and len(names & its) < _LEAST_SHARED * fewer:
            raise RequestError(
                f"{first} and {job} are recordings of different programs",
                why=f"of the {fewer} operations that take most of the time they share "
                f"{len(names & its)}",
                hint="Give one program on more and more ranks, or say that it is one: "
                " --same-program",
            )
