"""Profiled kernels as data: one row a kernel name, and what the vendor's own rules say of them."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sightline.core.model.run import Run

MAX_MESSAGES = 10
_SHARES = ("sm_pct", "memory_pct", "tensor_pct", "theoretical_pct", "achieved_pct")
_SPEAKING = ("warning", "optimization", "error")


def list_kernel_rows(run: Run) -> list[dict[str, Any]]:
    """One row per kernel name, the longest in all first: what the table shows."""
    light = run.ask("speed_of_light")
    occupancy = run.ask("occupancy").drop("name")
    tensor = (
        run.ask("tensor_use")
        .group_by("kernel_id", maintain_order=True)
        .agg(tensor_pct=pl.col("pipe_pct").first())
    )
    joined = light.join(occupancy, on="kernel_id", how="left").join(
        tensor, on="kernel_id", how="left"
    )
    rows = (
        joined.group_by("name", maintain_order=True)
        .agg(
            *(_weighted(s) for s in _SHARES),
            n=pl.len(),
            # Null where no execution's time was collected: a sum would say 0.
            duration_ns=pl.when(pl.col("duration_ns").count() > 0).then(
                pl.col("duration_ns").sum()
            ),
            limiter=pl.col("limiter").first(),
        )
        .join(_judge_most(joined), on="name", how="left", maintain_order="left", nulls_equal=True)
        .with_columns(pl.col(_SHARES).fill_nan(None))
        .sort("duration_ns", descending=True, nulls_last=True, maintain_order=True)
    )
    return rows.to_dicts()


def _judge_most(executions: pl.DataFrame) -> pl.DataFrame:
    """Each name's verdict: what holds for most of its time, or executions where none was timed."""
    time = pl.col("duration_ns").fill_null(0).sum()
    judged = executions.drop_nulls("verdict").group_by("name", "verdict", maintain_order=True)
    return (
        judged.agg(time, n=pl.len())
        .sort("duration_ns", "n", descending=True, maintain_order=True)
        .unique("name", keep="first", maintain_order=True)
        .select("name", "verdict")
    )


def _weighted(share: str) -> pl.Expr:
    """The mean of a name's executions, weighed with their time where that was collected."""
    time = pl.col("duration_ns")
    known = time.filter(pl.col(share).is_not_null()).sum()
    weighted = (pl.col(share) * time).sum() / known
    return pl.when(known > 0).then(weighted).otherwise(pl.col(share).mean()).alias(share)


def list_vendor_messages(run: Run) -> dict[str, Any]:
    """What the vendor's rules say, of each rule and kernel once, the longest kernels first.

    `messages` holds the first MAX_MESSAGES with source, rule, kernel, text, speedup_pct and
    speedup_type; `count` is how many there are.
    """
    spoken = run.table("vendor_rules").filter(pl.col("severity").is_in(_SPEAKING))
    order = run.table("profiled_kernels").select("kernel_id", "duration_ns", kernel="name")
    messages = (
        spoken.join(order, on="kernel_id", how="left")
        .sort("duration_ns", "message_id", descending=[True, False], nulls_last=True)
        .unique(["kernel", "rule"], keep="first", maintain_order=True)
        .select("source", "rule", "kernel", "text", "speedup_pct", "speedup_type")
    )
    shown = messages.head(MAX_MESSAGES).to_dicts()
    return {
        "messages": [{**m, "text": remove_links(m["text"] or "")} for m in shown],
        "count": messages.height,
    }


def remove_links(message: str) -> str:
    """A vendor's message without its link marks.

    They are @section:Id:Text@, @url:Text:address@ and @source:address:0xaddress@.
    """
    text = re.sub(r"@(?:section|source):[^:@]*:([^@]*)@", r"\1", message)
    text = re.sub(r"@url:([^:@]*):[^@]*@", r"\1", text)
    return " ".join(text.split())
