"""The program writes a checkpoint, and the device waits.

Symptom
    Once in many steps, copies to the host and then a long gap in which the host writes files.

Why it hurts
    Weights and optimizer state are copied, serialized and written while nothing is launched.

Evidence
    Gaps in which the launching thread was in a range that saves, by its name (torch.save,
    torch.distributed.checkpoint, save_pretrained, save_checkpoint and the like), and exposed copies
    to the host that are launched there. The gain is a replay without both.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    torch.distributed.checkpoint.async_save: one copy to pinned memory, and a thread or process that
    writes it while the next steps run; save less often, or only what changes.

False positives
    A window that happens to hold the only checkpoint of an hour: its share of the run is smaller.

References
    PyTorch, torch.distributed.checkpoint (async_save); Mohan et al., "CheckFreq: Frequent,
    Fine-Grained DNN Checkpointing" (FAST 2021).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.host_changes import remove_ranges
from sightline.replay.replay import remove_ops
from sightline.timeline import causes
from sightline.timeline.copies import select_copies
from sightline.timeline.host_ranges import list_saving_ranges

RULE = Rule(
    "checkpoint-in-window",
    "Writing a checkpoint",
    causes=(causes.CHECKPOINT,),
    explains_lateness=True,
    over_time=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or list_saving_ranges(run).is_empty():
        return
    exposed = run.ask("copy_exposure").filter(pl.col("rule") == causes.CHECKPOINT)
    mine = claim_gaps(run, RULE, extra_ns=sum_column(exposed, "total_ns"))
    if mine is None:
        return
    copies = select_copies(run, [causes.CHECKPOINT])
    ids = copies.get_column("device_op_id")

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return remove_ranges(remove_ops(nodes, ids), list_saving_ranges(run))

    yield make_finding(
        run,
        RULE,
        f"The GPU waits for {format_pct(mine.pct)} of the window while the program writes a "
        "checkpoint.",
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns + find_largest(exposed, "total_ns"),
            change=without,
        ),
        Evidence(
            [*(mine.evidence if mine.gaps.height else []), *_describe_copies(copies)],
            rows=mine.rows,
            where=mine.where("checkpoint"),
            calls=mine.calls,
        ),
        Advice(
            fix=choose_fix(
                run,
                "copy to pinned memory once and write it in another thread while the next steps "
                "run; save less often",
                pytorch="torch.distributed.checkpoint.async_save, or copy to pinned memory once "
                "and write it in another thread or process; save less often",
                jax="orbax.checkpoint.AsyncCheckpointer; save less often",
            ),
            verify="sightline stats idle AFTER: total_ns of checkpoint",
            cause="the thread that launches copies, serializes and writes by itself",
            sources=("PyTorch: torch.distributed.checkpoint, async_save",),
        ),
    )


def _describe_copies(copies: pl.DataFrame) -> list[str]:
    """'6 copies to the host, 1.200 GB in 240.0 ms'."""
    if copies.is_empty():
        return []
    ns = sum_column(copies.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    size = format_bytes(sum_column(copies, "bytes"))
    number = format_several(copies.height, "copy", "copies")
    return [f"{number} to the host, {size} in {format_ns(ns)}"]
