"""The part of the terminal report about profiled kernels: 80 columns, plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.model.run import Run
from sightline.roofline.chart import short_name
from sightline.units import format_count, format_ns, format_pct

WIDTH = 80
TOP_KERNELS = 10
TOP_MESSAGES = 3
MESSAGE_LINES = 4
ALL_MESSAGES = 'sightline sql REPORT "FROM vendor_rules"'
_SHARES = ("sm_pct", "memory_pct", "tensor_pct", "theoretical_pct", "achieved_pct")
_SPEAKING = ("warning", "optimization", "error")


def kernel_report(run: Run) -> str:
    """Profiled kernels and what the vendor's own rules say of them; empty if there are none."""
    if not run.rows("profiled_kernels"):
        return ""
    return "\n".join([*_table(run), *_vendor(run)]) + "\n"


def kernel_rows(run: Run) -> list[dict[str, Any]]:
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
            duration_ns=pl.col("duration_ns").sum(),
            verdict=pl.col("verdict").drop_nulls().mode(maintain_order=True).first(),
            limiter=pl.col("limiter").first(),
        )
        .with_columns(pl.col(_SHARES).fill_nan(None))
        .sort("duration_ns", descending=True, nulls_last=True, maintain_order=True)
    )
    return rows.to_dicts()


def _weighted(share: str) -> pl.Expr:
    """The mean of a name's executions, weighed with their time."""
    time = pl.col("duration_ns")
    known = time.filter(pl.col(share).is_not_null()).sum()
    return ((pl.col(share) * time).sum() / known).alias(share)


def _table(run: Run) -> Iterator[str]:
    rows = kernel_rows(run)
    total = sum(r["duration_ns"] or 0 for r in rows)
    count = sum(r["n"] for r in rows)
    yield (
        f"{format_count(count)} profiled kernel{'s' * (count != 1)} · {format_ns(total)} under the "
        "profiler, not the program's time"
    )
    yield ""
    # tensor only where some kernel uses it, so that names have room.
    tensor = any(r["tensor_pct"] for r in rows)
    room = 23 if tensor else 31
    head = f"{'SM':>5}{'memory':>8}" + f"{'tensor':>8}" * tensor
    yield f"{'Kernel':<{room}}{'n':>4}{'time':>10}{head}{'occupancy':>10}  bound"
    for r in rows[:TOP_KERNELS]:
        shares = f"{_pct(r['sm_pct']):>5}{_pct(r['memory_pct']):>8}"
        shares += f"{_pct(r['tensor_pct']):>8}" * tensor
        both = f"{_pct(r['achieved_pct'])}/{_pct(r['theoretical_pct'])}"
        yield (
            f"{_clip(short_name(r['name']), room - 1):<{room}}{r['n']:>4}"
            f"{format_ns(r['duration_ns']):>10}{shares}{both:>10}  "
            f"{(r['verdict'] or '—').replace('_', ' ')}"
        )
    if len(rows) > TOP_KERNELS:
        yield f"… and {len(rows) - TOP_KERNELS} more: sightline stats speed_of_light"
    yield "SM, memory, tensor: % of peak · occupancy: achieved / theoretical %"


def _vendor(run: Run) -> Iterator[str]:
    """The vendor's messages on the longest kernels, as theirs."""
    said = run.table("vendor_rules").filter(pl.col("severity").is_in(_SPEAKING))
    if said.is_empty():
        return
    order = run.table("profiled_kernels").select("kernel_id", "duration_ns", kernel="name")
    top = (
        said.join(order, on="kernel_id", how="left")
        .sort("duration_ns", "message_id", descending=[True, False], nulls_last=True)
        .unique(["kernel", "rule"], keep="first", maintain_order=True)
    )
    yield ""
    yield f"{said['source'][0]} itself says (its rules, not ours):"
    for row in top.head(TOP_MESSAGES).iter_rows(named=True):
        gain = row["speedup_pct"]
        note = f" [{row['speedup_type']} {format_pct(gain)}]" if gain else ""
        head = f"{row['rule']}{note}, {_clip(short_name(row['kernel']), 36)}:"
        yield from _whole_sentences(f"{head} {plain(row['text'] or '')}")
    if top.height > TOP_MESSAGES:
        yield f"  … and {top.height - TOP_MESSAGES} more: {ALL_MESSAGES}"


def _whole_sentences(text: str) -> list[str]:
    """A message as far as its sentences fit; one that is too long by itself is cut."""
    kept = ""
    for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z])", text):
        longer = f"{kept} {sentence}".lstrip()
        if kept and len(_message(longer)) > MESSAGE_LINES:
            break
        kept = longer
    return _message(kept, max_lines=MESSAGE_LINES)


def _message(text: str, max_lines: int | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        max_lines=max_lines,
        placeholder=" …",
    )


def plain(message: str) -> str:
    """A vendor's message without its link marks.

    They are @section:Id:Text@, @url:Text:address@ and @source:address:0xaddress@.
    """
    text = re.sub(r"@(?:section|source):[^:@]*:([^@]*)@", r"\1", message)
    text = re.sub(r"@url:([^:@]*):[^@]*@", r"\1", text)
    return " ".join(text.split())


def _pct(value: float | None) -> str:
    return "—" if value is None else f"{value:.0f}"


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
