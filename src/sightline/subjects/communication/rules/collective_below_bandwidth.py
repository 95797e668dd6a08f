"""Some collectives transfer far slower than their own group does at the same size.

Symptom
    Collectives of one kind, size and group take unequal time, after all ranks have arrived.

Why it hurts
    The ranks wait for the link. A transfer far below what the same ranks reach at other times means
    that something shares the link or holds up the communication kernels.

Evidence
    Bus bandwidth as nccl-tests defines it: size over transfer time, times 2(n-1)/n for all-reduce,
    (n-1)/n for all-gather, reduce-scatter and all-to-all, 1 for others. Transfer time runs from the
    last rank's start to the end, so waiting for a late rank is not part of it. Compared with the
    best tenth of the same group, kind and power of two of size, of at least five instances. The
    gain is a replay in which the slow ones are as fast as those.
    No recording holds the link's own peak: a group that is slow throughout is not found.

Threshold
    An instance is slow below half of its group's best (ours: well outside the usual spread); their
    excess costs over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    Look at what runs beside the slow ones: copies over the same PCIe switch, other jobs on the
    network, kernels that leave no SM to the communication (NCCL_MIN_CTAS, priority of its stream);
    NCCL_DEBUG=INFO says which transport and channels a group uses.

False positives
    Kernels beside the collective that need it to be slow; clocks of ranks that disagree by less
    than a transfer.

References
    NVIDIA/nccl-tests, doc/PERFORMANCE.md (bus bandwidth).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_note, format_ns, format_pct
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    abstain,
    make_finding,
)
from sightline.replay.gains import sum_windows
from sightline.replay.replay import scale_ops
from sightline.timeline.communication import list_communication

RULE = Rule("collective-below-bandwidth", "Collectives below their bandwidth")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not sum_column(run.ask("breakdown"), "exposed_comm_ns"):
        return
    parts = run.ask("comm_exposure")
    comm = list_communication(run)
    slow = comm.filter(pl.col("part") == "slow")
    if slow.is_empty():
        yield from _not_judged(run, comm, parts)
        return
    length = pl.col("end_ns") - pl.col("last")
    excess = slow.select((length * (1 - pl.col("factor"))).sum() / length.sum()).item()
    cost = round(sum_column(parts, "slow_ns") * excess)
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return
    factors = slow.select(ref_id="device_op_id", factor="factor")

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return scale_ops(nodes, factors)

    each = slow.unique("meeting", keep="first", maintain_order=True)
    yield make_finding(
        run,
        RULE,
        f"{format_pct(pct)} of the window is what {format_note(each.height, 'collectives take')} "
        "longer than the same group needs for the same size at its best.",
        Loss(cost_ns=cost, bound_ns=round(find_largest(parts, "slow_ns") * excess), change=without),
        Evidence(
            [_line(row) for row in each.sort("factor", "start_ns").head(3).to_dicts()],
            rows=slow.head(MAX_ROWS)
            .select("device_op_id", "rank", "device_id", "start_ns", "end_ns", "name")
            .to_dicts(),
            where={"ranks": slow.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="check what runs at the same time (copies, other jobs, kernels that hold all SMs); "
            "NCCL_DEBUG=INFO names the transport",
            verify="sightline stats comm_exposure AFTER: slow_ns "
            f"(now {format_ns(find_largest(parts, 'slow_ns'))} at most)",
            cause="the recording shows the slow transfers, not what shares their link",
            sources=("NVIDIA/nccl-tests: bus bandwidth",),
        ),
        confidence="medium",
    )


def _line(row: dict[str, object]) -> str:
    """'allreduce of 8.39 MB over 3 ranks: 13.1 GB/s, at best 392 GB/s'."""
    return (
        f"{row['op']} of {format_bytes(row['size'])} over {row['group_size']} ranks: bus bandwidth "  # type: ignore[arg-type]
        f"{row['bus']:.1f} GB/s, at best {row['best']:.1f} GB/s"
    )


def _not_judged(run: Run, comm: pl.DataFrame, parts: pl.DataFrame) -> Iterator[Finding]:
    """Where transfers matter, and the recording lacks what a bandwidth is made of."""
    if 100 * sum_column(parts, "transfer_ns") < NOTABLE_PCT * sum_windows(run):
        return
    if comm.get_column("size").null_count() == comm.height:
        yield abstain(
            RULE,
            "sizes and groups of collectives are not recorded with them, as newer versions "
            "of PyTorch's profiler do",
        )
    elif comm.get_column("meeting").null_count() == comm.height:
        yield abstain(
            RULE,
            "waiting and transfer cannot be told apart in one rank's recording: open those "
            "of all ranks together",
        )
