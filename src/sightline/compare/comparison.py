"""Two sides against each other, as data: what every view of a comparison shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import polars as pl

from sightline.compare.common_steps import take_common_steps
from sightline.compare.comparability import (
    Check,
    check_matched,
    check_sides,
    find_clock,
    is_same_model,
)
from sightline.compare.facts import METRICS
from sightline.compare.fingerprint import reduce_sample
from sightline.compare.host import compare_host
from sightline.compare.launch_shapes import compare_shapes
from sightline.compare.matching import ALONE, FUSED, list_pairs, match_leaves
from sightline.compare.recorder import bring_to_one_pace
from sightline.compare.sample import CPU_PARTS, GPU_PARTS, KEY, Sample, measure_groups
from sightline.compare.statistics import (
    Difference,
    Floor,
    Spread,
    adjust_p_values,
    compare_runs,
    guess_floor,
)
from sightline.compare.verdict import reach_verdict
from sightline.compare.waterfall import average_leaves
from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import label_kernels
from sightline.timeline.classes import UNKNOWN

SCHEMA = "sightline-compare/1"
# Costs that moved: what one operation lost another under the same operator won, but for a fifth
# (ours); worth a word from one percent of the step on.
SHIFT_REST, SHIFT_SHARE = 0.2, 0.01
# The checks that say whether both sides do the same work.
_OF_WORKLOAD = ("shapes", "operations")


def compare_samples(
    before: Sequence[Sample],
    after: Sequence[Sample],
    floor: Floor | None = None,
    *,
    same_workload: bool = False,
) -> dict[str, Any]:
    """The whole comparison as plain data; times are int64 ns of the mean step.

    `waterfall` and `pairs` sum to the steps' difference to the nanosecond. `floor` says how runs
    of one program differ on this machine; `same_workload` that both sides do the same work,
    whatever their operators' shapes say.
    """
    if any(sample.run is None for sample in (*before, *after)):
        before, after = ([reduce_sample(s) for s in side] for side in (before, after))
    before, after = take_common_steps(before, after)
    before, after, recorder = bring_to_one_pace(before, after)
    sides = [average_leaves(side) for side in (before, after)]
    matched = match_leaves(*sides)
    pairs = list_pairs(matched)
    steps = tuple(int(leaves.get_column("ns").sum()) for leaves in sides)
    assert pairs.get_column("delta_ns").sum() == steps[1] - steps[0], "pairs must sum to the steps"
    checks = [
        *check_sides(before, after),
        _check_matched(pairs, before, after),
        *([recorder] if recorder else []),
    ]
    if same_workload:
        checks = [replace(c, effect="limits") if c.check in _OF_WORKLOAD else c for c in checks]
    runs = ([s.length for s in before], [s.length for s in after])
    guess = None if floor or len(before) + len(after) > 2 else guess_floor(_measure_idle(sides))
    difference = compare_runs(*runs, floor, guess)
    tests = _test_pairs(pairs, matched, (before, after))
    return {
        "schema": SCHEMA,
        "verdict": asdict(reach_verdict(checks, difference, runs, floor or guess)),
        "step": {"before_ns": steps[0], "after_ns": steps[1], "delta_ns": steps[1] - steps[0]}
        | asdict(difference),
        "sides": {
            "before": [_describe(sample) for sample in before],
            "after": [_describe(sample) for sample in after],
        },
        "checks": [asdict(check) for check in checks],
        "equal_clock": _at_equal_clock(before, after, pairs, steps),
        "waterfall": _sum_parts(pairs, _list_parts((*before, *after))),
        "pairs": _describe_pairs(pairs, tests, compare_shapes(before, after, matched)),
        "shifts": find_shifts(pairs, steps[0]),
        "host": compare_host(before, after),
        "metrics": _compare_metrics(before, after),
    }


def _measure_idle(sides: Sequence[pl.DataFrame]) -> list[float]:
    """The share of each side's step in which no device works; of a CPU's step, all of it."""
    shares = []
    for leaves in sides:
        busy = leaves.filter(~pl.col("part").is_in(["idle", *CPU_PARTS]))
        shares.append(1 - sum_column(busy, "ns") / max(sum_column(leaves, "ns"), 1))
    return shares


def _check_matched(pairs: pl.DataFrame, before: Sequence[Sample], after: Sequence[Sample]) -> Check:
    busy = pairs.filter(~pl.col("part").is_in(["idle", "other"]))
    known = busy.filter(pl.col("grade") != ALONE)
    sums = [int(f.get_column(c).sum()) for f in (known, busy) for c in ("before_ns", "after_ns")]
    same = is_same_model(before, after)
    return check_matched(sums[0], sums[1], (sums[2], sums[3]), is_same_model=same)


def _describe(sample: Sample) -> dict[str, Any]:
    return {
        "name": sample.name,
        "steps": sample.length.count,
        "source": sample.source,
        "confidence": sample.confidence,
        "has_device": sample.has_device,
        "devices": sample.devices,
        "step_ns": sample.step_ns,
        "step_lengths_ns": list(sample.steps),
    }


def _list_parts(samples: Sequence[Sample]) -> list[str]:
    """The parts that these runs' steps have: of a device, of the CPU, or one side's of each."""
    kinds = [(True, GPU_PARTS), (False, CPU_PARTS)]
    present = {sample.has_device for sample in samples}
    return [part for kind, parts in kinds if kind in present for part in parts]


def _sum_parts(pairs: pl.DataFrame, parts: Sequence[str]) -> list[dict[str, Any]]:
    """The waterfall: one row a part, in the order in which it is shown.

    All of them, but what no device ran that nobody knows.
    """
    sums = pairs.group_by("part").agg(pl.col("before_ns", "after_ns", "delta_ns").sum())
    whole = pl.DataFrame({"part": parts}).join(sums, on="part", how="left", maintain_order="left")
    known = whole.filter((pl.col("part") != UNKNOWN) | pl.col("before_ns").is_not_null())
    return known.with_columns(pl.exclude("part").fill_null(0)).to_dicts()


def _test_pairs(
    pairs: pl.DataFrame, matched: pl.DataFrame, sides: tuple[Sequence[Sample], Sequence[Sample]]
) -> list[Difference]:
    """For each pair, in order, whether its own time per step changed: the same test as the step's.

    A pair that a step does not have takes no time in it.
    """
    spreads = [
        [_measure_pairs(sample, matched.filter(pl.col("side") == side)) for sample in samples]
        for side, samples in enumerate(sides)
    ]
    answer = []
    for pair in pairs.get_column("pair"):
        runs = [[run[pair] for run in side if pair in run] for side in spreads]
        whole = all(len(known) == len(side) for known, side in zip(runs, spreads, strict=True))
        answer.append(compare_runs(runs[0], runs[1]) if whole else Difference(None))
    return answer


def _measure_pairs(sample: Sample, matched: pl.DataFrame) -> dict[int, Spread]:
    pairs = matched.select(*KEY, group="pair")
    return measure_groups(
        sample, sample.leaves.join(pairs, on=KEY, nulls_equal=True).select("leaf", "group")
    )


def _describe_pairs(
    pairs: pl.DataFrame, tests: Sequence[Difference], shapes: dict[int, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Pairs with labels, what kind of change each is, and how sure: false discovery rates.

    `shapes` are the launch shapes of those pairs that have several.
    """
    rates = adjust_p_values([test.p_value for test in tests])
    names = pairs.filter(~pl.col("part").is_in(["idle"])).select(
        pl.col("before_names").list.concat("after_names").alias("name")
    )
    labels = label_kernels(names.get_column("name").explode().drop_nulls().unique().sort())
    rows = []
    for row, test, rate in zip(pairs.iter_rows(named=True), tests, rates, strict=True):
        shown = [[labels.get(n, n) for n in row[f"{side}_names"]] for side in ("before", "after")]
        rows.append(
            {
                **row,
                "label": (shown[1] or shown[0])[0],
                "before_labels": shown[0],
                "after_labels": shown[1],
                "kind": name_change(row),
                **_split_change(row),
                "low": test.low,
                "high": test.high,
                "p_value": test.p_value,
                "false_discovery_rate": rate,
                "level": test.level,
                "shapes": shapes.get(row["pair"], []),
            }
        )
    return rows


def name_change(row: dict[str, Any]) -> str:
    """What happened to a pair: appeared, vanished, fused, split, replaced, or changed."""
    if row["grade"] == ALONE:
        return "appeared" if not row["before_names"] else "vanished"
    if row["before_names"] == row["after_names"] or row["part"] == "idle":
        return "changed"
    launches = row["before_instances"], row["after_instances"]
    # Rounded: a mean over steps in which a kernel was cut off is no whole number.
    if round(launches[1]) < round(launches[0]):
        return "fused" if row["grade"] == FUSED or len(row["after_names"]) == 1 else "replaced"
    if round(launches[1]) > round(launches[0]) and len(row["before_names"]) == 1:
        return "split" if len(row["after_names"]) > 1 else "replaced"
    return "replaced"


def _split_change(row: dict[str, Any]) -> dict[str, float | None]:
    """How much of a change is more launches, and how much longer ones; null where one has none."""
    if not row["before_instances"] or not row["after_instances"]:
        return {"count_ns": None, "rate_ns": None}
    more = row["after_instances"] - row["before_instances"]
    count_ns = more * row["before_ns"] / row["before_instances"]
    return {"count_ns": count_ns, "rate_ns": row["delta_ns"] - count_ns}


def _at_equal_clock(
    before: Sequence[Sample], after: Sequence[Sample], pairs: pl.DataFrame, steps: tuple[int, ...]
) -> dict[str, float] | None:
    """What the step after would take at the clock of before, if all compute follows the clock."""
    clocks = find_clock(before), find_clock(after)
    if clocks[0] is None or clocks[1] is None or not steps[0]:
        return None
    compute = int(pairs.filter(pl.col("part") == "compute").get_column("after_ns").sum())
    scaled = steps[1] - compute + compute * clocks[1] / clocks[0]
    return {
        "before_mhz": clocks[0],
        "after_mhz": clocks[1],
        "after_ns": scaled,
        "ratio": scaled / steps[0],
    }


def find_shifts(pairs: pl.DataFrame, step_ns: int) -> list[dict[str, Any]]:
    """Costs that only moved: under one operator some operations lost what others won.

    FBDetect (SOSP 2024) calls it cost shift: neither is a gain nor a regression.
    """
    size = pl.col("delta_ns").abs().sum()
    where = pl.coalesce("outer_operator", "place")
    moved = (
        pairs.with_columns(where=where)
        .drop_nulls("where")
        .group_by("where")
        .agg(
            lost_ns=-pl.col("delta_ns").filter(pl.col("delta_ns") < 0).sum(),
            won_ns=pl.col("delta_ns").filter(pl.col("delta_ns") > 0).sum(),
            net_ns=pl.col("delta_ns").sum(),
            gross_ns=size,
            pairs=pl.col("pair"),
        )
        .filter(
            (pl.col("net_ns").abs() <= SHIFT_REST * pl.col("gross_ns"))
            & (pl.col("lost_ns") > 0)
            & (pl.col("won_ns") > 0)
            & (pl.col("gross_ns") >= SHIFT_SHARE * step_ns)
        )
        .sort("gross_ns", "where", descending=[True, False])
    )
    return moved.to_dicts()


def _compare_metrics(before: Sequence[Sample], after: Sequence[Sample]) -> list[dict[str, Any]]:
    """Other figures of a step, where both sides have them: means over the runs."""
    found = []
    for name, unit in METRICS.items():
        sides = [
            [s.facts.metrics[name] for s in side if name in s.facts.metrics]
            for side in (before, after)
        ]
        if all(sides):
            one, other = (math.fsum(side) / len(side) for side in sides)
            found.append({"metric": name, "unit": unit, "before": one, "after": other})
    return found
