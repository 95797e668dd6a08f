"""The device has nothing to do for a notable part of the window.

Symptom
    Gaps on the device's timeline in which no kernel and no copy runs.

Why it hurts
    Idle time is paid for and does nothing; it is often the cheapest time to win back.

Evidence
    Idle time by cause (`sightline stats idle`): each gap is traced to why the operation that
    ends it did not start earlier (`sightline stats idle_gaps`).

Threshold
    A cause that takes over 5 % of the window, where idle is over 15 % of it in all (TraceLens
    agent, 2026-08: idle flagged above 15 %), or data loading over 10 % of it (XProf's input-bound
    threshold: infeed at or above 10 %).

Fix
    By cause: overlap loading with compute, remove synchronisation from the step, allocate once,
    move host work off the launching thread.

False positives
    A window that holds warm-up, checkpoints or evaluation; choose one with --window.

References
    TraceLens analysis agent (AMD-AGI/TraceLens, 2026-08); XProf overview page (openxla/xprof).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.algebra.scalars import total
from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.units import format_count, format_ns, format_pct

RULE = Rule("gpu-idle", "The device waits")

IDLE_PCT = 15.0
CAUSE_PCT = 5.0
LOADING_PCT = 10.0

# cause: what happens, what to change
_ADVICE = {
    "data_loading": (
        "it waits for the next batch: the launching thread is inside the DataLoader",
        "raise num_workers, set pin_memory=True and persistent_workers=True, prefetch to the GPU "
        "on a side stream, or move decoding out of __getitem__",
    ),
    "host_sync": (
        "the host waited for the GPU, so that nothing was queued when it finished",
        "take .item(), .cpu(), print(loss) and synchronize() out of the step; read values back "
        "one step later, with non_blocking=True",
    ),
    "host_late": (
        "the host was busy with other things and launched the next work late",
        "look at what the host was in (host_op of sightline stats idle_gaps), move it to another "
        "thread or process, or out of the step",
    ),
    "alloc_or_load": (
        "the host was allocating, freeing or loading code",
        "allocate once before the step, warm up before measuring; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against churn",
    ),
    "profiler_overhead": (
        "the profiler itself was working",
        "record fewer steps or without stacks; do not optimise this away",
    ),
    "launch_latency": (
        "a launch was on its way to an idle GPU",
        "queue work earlier: launch before synchronising, or use CUDA graphs",
    ),
    "dependency_wait": (
        "queued work waited for an event of another stream or device",
        "look at the event waits of the stream; overlap independent work",
    ),
    "in_graph": (
        "nodes of one graph leave gaps between them",
        "let independent nodes run side by side when capturing, or fuse small nodes",
    ),
    "micro_gap": (
        "many short gaps between queued kernels",
        "fuse small kernels (torch.compile) or capture a graph",
    ),
    "unknown": (
        "the recording does not say why",
        "record CPU activity too, from before the work is launched",
    ),
}


def check(run: Run) -> Iterator[Finding]:
    """One finding per cause, over all devices."""
    if not run.rows("device_ops"):
        return
    breakdown = run.ask("breakdown")
    windows = max(total(breakdown, "window_ns"), 1)
    idle_pct = 100 * total(breakdown, "idle_ns") / windows
    causes = run.ask("idle")
    if run.rows("host_ops"):
        # Late launches of a launch-bound device are that rule's finding.
        claimed = run.ask("launch_pressure").filter("launch_bound").select("rank", "device_id")
        launch = pl.col("cause").is_in(["host_late", "launch_latency"])
        causes = pl.concat(
            [
                causes.filter(~launch),
                causes.filter(launch).join(claimed, on=["rank", "device_id"], how="anti"),
            ]
        )
    by_cause = (
        causes.sort("total_ns", descending=True)
        .group_by("cause", maintain_order=True)
        .agg(
            pl.col("total_ns").sum(),
            pl.col("gaps").sum(),
            worst_ns=pl.col("total_ns").max(),
            longest_ns=pl.col("longest_ns").max(),
            host_op=pl.col("host_op").first(),
            ranks=pl.col("rank").filter(pl.col("total_ns") > 0),
        )
        .sort("total_ns", descending=True)
    )
    for row in by_cause.iter_rows(named=True):
        pct = 100 * row["total_ns"] / windows
        loading = row["cause"] == "data_loading" and pct >= LOADING_PCT
        if loading or (idle_pct > IDLE_PCT and pct > CAUSE_PCT):
            yield _finding(row, pct)


def _finding(row: dict[str, Any], pct: float) -> Finding:
    happens, fix = _ADVICE[row["cause"]]
    evidence = [
        f"{format_count(row['gaps'])} gaps, {format_ns(row['total_ns'])} in all, the longest "
        f"{format_ns(row['longest_ns'])}"
    ]
    if row["host_op"]:
        evidence.append(f"the host was mostly in  {row['host_op']}")
    unknown = row["cause"] == "unknown"
    return Finding(
        rule=RULE.name,
        title=f"{RULE.name}: {row['cause'].replace('_', ' ')}",
        severity="critical" if pct >= 30 else "warning",
        summary=f"For {format_pct(pct)} of the window {happens}.",
        cost_ns=row["total_ns"],
        cost_pct=pct,
        gain_ns=row["worst_ns"],
        confidence="low" if unknown else "high" if row["gaps"] >= 5 else "medium",
        evidence=tuple(evidence),
        where={"cause": row["cause"], "ranks": sorted(set(row["ranks"]))},
        fix=fix,
        verify=f"sightline stats idle AFTER: total_ns of {row['cause']}",
    )
