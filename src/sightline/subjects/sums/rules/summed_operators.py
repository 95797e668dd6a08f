"""Which operator most of the time belongs to, by the table that PyTorch's profiler prints.

Symptom
    A row of `key_averages().table()` with most of "Self CUDA"; or, where nothing of a device is in
    the table, of "Self CPU".

Why it hurts
    It need not hurt: it says where to begin. Where the host's own work takes longer than the
    device's, faster kernels gain nothing.

Evidence
    The table's rows and its totals (`sightline stats sums`). An operator's time on the device is
    the kernels' that it launched; a range's time is left out, since it is not work of its own.

Threshold
    A tenth of the total. The device sets the pace where its work takes nine tenths of the host's
    time, waits included (ours: what is left is start and end); the host where the device works for
    less than half of it: it cannot have waited for the device for longer than that.

Fix
    That operator's kernels; or, where the host sets the pace, fewer and larger operators.

False positives
    A table without kernels says nothing of who sets the pace: it may be of the profiler before
    PyTorch 1.8.1, which measured from one event to the next, with the idle time between. Host times
    of several threads are added up: they may be longer than what passed.

References
    PyTorch documentation, torch.autograd.profiler.profile: key_averages, self_cpu_time_total.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.timeline.sums import select_sums

RULE = Rule(
    "summed-operators", "One operator takes more than any other", explains=("summed-kernel",)
)

LEAST, BUSY, IDLE = 0.1, 0.9, 0.5
_WAITS = r"(?i)Synchronize$"
# What PyTorch calls the wait for the next batch (torch/utils/data/dataloader.py, __next__).
_LOADER = "enumerate(DataLoader)"


@dataclass(frozen=True)
class _Table:
    """Operators of one table, the longest first, and what the totals are, ns."""

    on_device: pl.DataFrame  # name, calls, ns
    on_host: pl.DataFrame
    device_ns: int
    host_ns: int
    wait_ns: int
    unknown_ns: int  # of the host's, in rows that were not printed
    kernel: str | None  # the longest


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    table = _read(run)
    if table is None:
        return
    if table.device_ns:
        yield from _judge_device(table)
    else:
        yield from _judge_host(table)


def _read(run: Run) -> _Table | None:
    if not run.rows("call_sums") or run.rows("device_ops"):
        return None
    sums = select_sums(run).with_columns(
        pl.col("kind", "layer", "category", "name").cast(pl.String)
    )
    host = sums.filter(kind="host")
    operators = host.filter(layer="op")
    if operators.is_empty():
        return None
    device = sums.filter(pl.col("kind") == "device", pl.col("category").is_null())
    kernels = _add_up(sums.filter(kind="device", category="kernel")).get_column("name")
    return _Table(
        on_device=_add_up(device),
        on_host=_add_up(operators),
        device_ns=sum_column(device, "duration_ns"),
        host_ns=sum_column(host, "duration_ns"),
        wait_ns=sum_column(host.filter(pl.col("name").str.contains(_WAITS)), "duration_ns"),
        unknown_ns=sum_column(host.filter(pl.col("calls").is_null()), "duration_ns"),
        kernel=kernels.item(0) if kernels.len() else None,
    )


def _add_up(rows: pl.DataFrame) -> pl.DataFrame:
    named = rows.filter(pl.col("calls").is_not_null())
    added = named.group_by("name").agg(pl.col("calls").sum(), ns=pl.col("duration_ns").sum())
    return added.sort("ns", "name", descending=[True, False])


def _judge_device(table: _Table) -> Iterator[Finding]:
    top = next(iter(table.on_device.rows(named=True)), None)
    if top is None or top["ns"] < LEAST * table.device_ns:
        return
    share = format_pct(100 * top["ns"] / table.device_ns)
    text = (
        f"{share} of the device's {format_ns(table.device_ns)} are of `{top['name']}`: "
        f"{format_several(top['calls'], 'call')}."
    )
    of_host = table.device_ns / table.host_ns if table.host_ns else 1.0
    # Without a kernel it is of the profiler before 1.8.1, which measured from event to event.
    knows_work = table.kernel is not None
    is_host = knows_work and of_host < IDLE
    is_device = knows_work and of_host >= BUSY
    if is_host:
        text = (
            f"The device works for {format_ns(table.device_ns)}, {format_pct(100 * of_host)} of "
            f"the {format_ns(table.host_ns)} that the host takes: it cannot have waited longer "
            f"than that for it. {text}"
        )
    elif is_device:
        text = f"The device works as long as the host takes, waits included. {text}"
    title = RULE.title
    if is_host:
        title = "The host takes longer than the device"
    elif is_device:
        title = "The device sets the pace"
    yield build_finding(
        RULE,
        text,
        Evidence(list(_list_evidence(table, is_host=is_host)), where={"operator": top["name"]}),
        Advice(
            fix=_advise_host(table)
            if is_host
            else f"begin with what `{top['name']}` launches{_name_kernel(table)}. A trace says in "
            "which order, and what waits:  prof.export_chrome_trace(FILE)",
            verify="sightline stats sums AFTER: total_ns of this operator",
        ),
        price=(make_price(top["ns"], "ns", 100 * top["ns"] / table.device_ns), None),
        title=title,
        severity="info",
        states_limit=True,
    )


def _name_kernel(table: _Table) -> str:
    if table.kernel is None:
        return ""
    return f"; the longest of all kernels is {shorten_kernel_name(table.kernel)}"


def _advise_host(table: _Table) -> str:
    trace = "A trace says what the host does:  prof.export_chrome_trace(FILE)"
    top = next(iter(table.on_host.rows(named=True)), None)
    if top is not None and top["name"].startswith(_LOADER):
        return f"num_workers, pin_memory and persistent_workers of the DataLoader. {trace}"
    return (
        "fewer and larger operators: torch.compile, larger batches, fused optimizers, a CUDA "
        f"graph. {trace}"
    )


def _list_evidence(table: _Table, *, is_host: bool) -> Iterator[str]:
    for row in table.on_device.head(3).rows(named=True):
        yield f"{row['name']}: {format_ns(row['ns'])} on the device"
    parts = {"in synchronizing calls": table.wait_ns, "in rows not printed": table.unknown_ns}
    told = "".join(f", {format_ns(ns)} of it {where}" for where, ns in parts.items() if ns)
    yield f"the host takes {format_ns(table.host_ns)} in all{told}"
    if is_host:
        for row in table.on_host.head(2).rows(named=True):
            calls = format_several(row["calls"], "call")
            yield f"{row['name']}: {format_ns(row['ns'])} on the host, {calls}"


def _judge_host(table: _Table) -> Iterator[Finding]:
    top = next(iter(table.on_host.rows(named=True)), None)
    if top is None or top["ns"] < LEAST * table.host_ns:
        return
    yield build_finding(
        RULE,
        f"No time of a device is in the table. {format_pct(100 * top['ns'] / table.host_ns)} of "
        f"the host's {format_ns(table.host_ns)} are of `{top['name']}`: "
        f"{format_several(top['calls'], 'call')}.",
        Evidence(
            [
                f"{row['name']}: {format_ns(row['ns'])} on the host"
                for row in table.on_host.head(3).rows(named=True)
            ],
            where={"operator": top["name"]},
        ),
        Advice(
            fix="if a GPU was to be used, move the model and its inputs there, and record with "
            "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]; on the CPU begin with "
            f"`{top['name']}`: threads, types (bfloat16), memory format",
            verify="sightline stats sums AFTER: total_ns of this operator",
        ),
        price=(make_price(top["ns"], "ns", 100 * top["ns"] / table.host_ns), None),
        title="Only the host was recorded",
        severity="info",
        states_limit=True,
    )
