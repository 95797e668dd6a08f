"""What the time of a window, or of a part of it, went to: lines for start-up's remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sightline.core import registry
from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns
from sightline.diagnosis.build import NOTABLE_PCT

MOST_LINES = 4
_COPIES = "in copies"
# Of the partition of a device's time what is no idle time.
_PARTS = {
    "compute_ns": "computing",
    "exposed_comm_ns": "in communication",
    "exposed_copy_ns": _COPIES,
    "unknown_ns": "in operations that only wait",
}


def ask_rules(part: Run) -> dict[str, list[Finding]]:
    """What each rule that speaks for idle time of this part finds with a cost."""
    rules = sorted(part.ask("idle_rules").get_column("rule").unique())
    return {
        rule: [f for f in load_rule(rule).check(part) if f.cost_ns and not f.abstained]
        for rule in rules
    }


def list_parts(
    part: Run, found: Mapping[str, list[Finding]], copy: Mapping[str, Any] | None
) -> Iterator[str]:
    """What the time of all devices went to, the largest first."""
    breakdown = part.ask("breakdown")
    rows = [
        (sum_column(breakdown, column), word + (_describe_copy(copy) if word == _COPIES else ""))
        for column, word in _PARTS.items()
    ]
    is_unknown = (pl.col("cause") == "not_recorded").alias("is_unknown")
    gaps = part.ask("idle_rules").with_columns(is_unknown)
    for (rule, unknown), mine in gaps.group_by("rule", "is_unknown", maintain_order=True):
        ns, longest = sum_column(mine, "duration_ns"), find_largest(mine, "duration_ns")
        hosts = mine.group_by("host_op").agg(ns=pl.col("duration_ns").sum())
        name = hosts.filter(2 * pl.col("ns") > ns).get_column("host_op").drop_nulls()
        inside = f", mostly in {name[0]}" if name.len() else ""
        what = "not recorded" if unknown else f"idle: {_name_cause(part, str(rule), ns, found)}"
        rows.append((ns, f"{what}{inside}, at most {format_ns(longest)} at once"))
    rows.sort(key=lambda row: -row[0])
    for ns, text in rows[:MOST_LINES]:
        if ns:
            yield f"{format_ns(ns)}  {text}"


def _name_cause(part: Run, rule: str, ns: int, found: Mapping[str, list[Finding]]) -> str:
    """The title of what the rule finds in this part, where the time is much of it: who compiles."""
    usual: str = load_rule(rule).RULE.title
    if 100 * ns < NOTABLE_PCT * sum_column(part.ask("breakdown"), "window_ns"):
        return usual
    return max(found[rule], key=take_cost).title if found[rule] else usual


def find_largest_copy(part: Run) -> dict[str, Any] | None:
    """The copy or fill that takes a tenth of the time or more."""
    window = part.ask("windows").row(0, named=True)
    used = ["kind", "copy_kind", "src_kind", "dst_kind", "start_ns", "end_ns", "bytes"]
    copies = part.table("device_ops", used).filter(
        pl.col("kind").is_in(["memcpy", "memset"])
        & pl.col("start_ns").is_between(window["window_start_ns"], window["window_end_ns"])
    )
    length = pl.col("end_ns") - pl.col("start_ns")
    largest = copies.with_columns(ns=length).top_k(1, by="ns").to_dicts()
    whole = window["window_end_ns"] - window["window_start_ns"]
    return next((row for row in largest if 10 * row["ns"] >= whole), None)


def _describe_copy(copy: Mapping[str, Any] | None) -> str:
    """', the largest: DtoH device → pageable, 805.3 MB in 271.3 ms (2.97 GB/s)'."""
    if copy is None:
        return ""
    kinds = [copy[end] for end in ("src_kind", "dst_kind")]
    way = f" {kinds[0]} → {kinds[1]}" if all(kinds) else ""
    size = copy["bytes"]
    moved = f", {format_bytes(size)} in" if size else ","
    rate = f" ({size / copy['ns']:.3g} GB/s)" if size and copy["ns"] else ""
    name = "fill" if copy["kind"] == "memset" else copy["copy_kind"] or "copy"
    if name == "fill":
        way = ""
    return f", the largest: {name}{way}{moved} {format_ns(copy['ns'])}{rate}"


def take_cost(found: Finding) -> int:
    return found.cost_ns or 0


def load_rule(name: str) -> Any:
    return registry.load("rules", name.replace("-", "_"))
