"""All hosts of a job are slow: no rank is late, each waits for its own host.

Symptom
    Every device idles for much of the time, and no one rank holds the others: what is found on
    single ranks gains little.

Why it hurts
    The ranks meet in collectives, so each waits for the slowest host of the moment. Mending one
    rank moves the wait to the next.

Evidence
    A replay in which the calls of all hosts, and the time between them, take nothing, on all ranks
    at once (`sightline stats limits`).

Threshold
    Two ranks or more, over 10 % of the window gained (XProf calls a program input-bound from 10 %
    of the step on), and twice what the host of any one rank gains when it alone is free (ours):
    else that rank is late, and straggler-rank says so.

Fix
    What every host does in each step: fewer and larger kernels, CUDA graphs, compiled steps, larger
    batches; then look at single ranks.

False positives
    None known: it is a bound, and what the recorder cost the hosts is in it where that is not
    known.

References
    HolisticTraceAnalysis, what-if analysis on the critical path.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import polars as pl

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.replay.gains import replay_gain
from sightline.replay.host_changes import free_hosts

RULE = Rule("hosts-bind-job", "The hosts bind the whole job")

_MAJOR_PCT = 10.0
# The hosts bind the job together where that is twice what any one of them does (ours); of very many
# ranks these are asked.
_TOGETHER, _ASKED = 2, 16


def check(run: Run) -> Iterator[Finding]:
    """At most one remark about all ranks together."""
    ranks = run.columns("device_ops", ("rank",)).get_column("rank").n_unique()
    if ranks < 2 or not run.rows("host_ops"):
        return
    breakdown = run.ask("breakdown")
    if breakdown.get_column("idle_pct").max() < NOTABLE_PCT:  # type: ignore[operator]
        return
    limits = run.ask("limits")
    host = limits.filter(pl.col("free") == "host").to_dicts()
    if not host or host[0]["gain_pct"] < _MAJOR_PCT:
        return
    free, gain = host[0]["window_ns"], host[0]["gain_ns"]
    if gain < _TOGETHER * _find_largest_alone(run):
        return
    lines = [
        f"{row['free']}: {format_ns(row['window_ns'])}  ({format_pct(row['gain_pct'])} shorter)"
        for row in limits.sort("gain_ns", descending=True).iter_rows(named=True)
    ]
    yield build_finding(
        RULE,
        f"{'Both' if ranks == 2 else f'All {ranks}'} ranks wait for their hosts: if no host took "
        "any time, the job would take "
        f"{format_ns(free)} instead of {format_ns(free + gain)}.",
        Evidence(lines),
        Advice(
            fix="reduce the host's work in each step on every rank: fewer and larger kernels, "
            "CUDA graphs, a compiled step, larger batches",
            verify="sightline stats limits AFTER: gain_pct of host",
            cause="the hosts launch more slowly than the GPUs work, on all ranks",
        ),
        price=(Price(gain, "ns", host[0]["gain_pct"]), None),
        severity="warning",
        states_limit=True,
    )


def _find_largest_alone(run: Run) -> int:
    """The most that the host of one rank gains when it alone takes no time, ns."""
    ranks = run.columns("device_ops", ("rank",)).get_column("rank").unique().sort()
    asked = ranks.gather_every(max(1, ranks.len() // _ASKED)).to_list()
    return max(replay_gain(run, partial(free_hosts, run, rank=rank)).ns for rank in asked)
