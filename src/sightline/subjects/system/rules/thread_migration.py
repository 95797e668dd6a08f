"""The thread that launches work moves from one CPU core to another all the time.

Symptom
    The launching thread runs on many cores.

Why it hurts
    Its data is in the old core's caches, and on a machine with several sockets in the old socket's
    memory: after each move it runs slower for a while.

Evidence
    Context switches: how often the launching thread was put on another core than before
    (`sightline stats thread_migrations`). What a move costs is not recorded, so the finding is a
    remark without a cost.

Threshold
    So many moves that, at 0.5 ms each, they would be over 5 % of the thread's time. For 0.5 ms
    after it ran the kernel takes a thread's caches for warm, and a move for too expensive
    (sched_migration_cost_ns, kernel/sched/fair.c).

Fix
    Pin the process to the cores next to its GPU: numactl --cpunodebind, srun --cpu-bind=cores,
    nvidia-smi topo -m shows which they are.

False positives
    Moves between two threads of one core, which share all caches.

References
    Linux, kernel/sched/fair.c: sysctl_sched_migration_cost; numactl(8).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.subjects.system.rules._blame import list_spans, name_thread
from sightline.timeline.launching import list_helpers

RULE = Rule("thread-migration", "The launching thread changes cores")
_WARM_NS = 500_000
# Of a handful nothing is to be said (ours: as many as operations make a pattern in ranking.py).
_LEAST = 10


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: of the launching thread that moves most."""
    if not run.rows("sched_events") or not run.rows("device_ops"):
        return
    # A helper that launched once is not the thread that the GPU waits for.
    helpers = list_helpers(run).get_column("tid")
    launching = list_spans(run).get_column("tid").unique()
    launching = launching.filter(~launching.is_in(helpers.implode()))
    moved = run.ask("thread_migrations").filter(
        pl.col("tid").is_in(launching.implode()),
        100 * _WARM_NS * pl.col("migrations") >= NOTABLE_PCT * pl.col("running_ns"),
    )
    # A few moves at a program's start are how it is placed.
    moved = moved.filter(pl.col("migrations") >= _LEAST)
    if moved.is_empty():
        return
    worst = moved.row(0, named=True)
    yield make_finding(
        run,
        RULE,
        f"{name_thread(run, worst['tid'])}, which launches the GPU's work, moved to another CPU "
        f"core {format_count(worst['migrations'])} times in {format_ns(worst['running_ns'])}.",
        Loss(cost_ns=0, bound_ns=0),
        Evidence(
            [
                f"it ran on {format_count(worst['cpus'])} CPU cores",
                "what a move costs is not recorded",
            ],
            rows=moved.select("rank", "tid", "migrations", "cpus").to_dicts(),
            where={"ranks": moved.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="pin the process to the cores next to its GPU: numactl --cpunodebind, or srun "
            "--cpu-bind=cores",
            verify="sightline stats thread_migrations AFTER: migrations of the thread",
            cause="nothing binds the thread to a core",
            sources=("Linux, kernel/sched/fair.c: sysctl_sched_migration_cost",),
        ),
        confidence="low",
    )
