"""The optimizer steps from parameter to parameter.

Symptom
    Optimizer.step takes much of a step, in hundreds of small operators.

Why it hurts
    Each parameter costs ten calls; fused, one call works through all of them and reads each
    parameter once.

Evidence
    The main thread's time inside Optimizer.step and zero_grad, and how many operators it calls a
    step. The gain is a bound: all of that time; the fused step takes the rest. A single call of a
    tenth of it, and twenty times as long as is usual, is left out, and said.

Threshold
    Over 10 % of the window (ours: as for loading), and 50 operators a step or more (a foreach or
    fused step is a dozen).

Fix
    torch.optim.AdamW(..., fused=True), also for SGD, Adam and Adagrad on the CPU since PyTorch
    2.4; else foreach=True.

False positives
    None known.

References
    PyTorch documentation of torch.optim: for-loop, foreach and fused implementations.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._shared import (
    Share,
    list_names,
    report_share,
    take_part,
    take_share,
)
from sightline.timeline.host_parts import OPTIMIZE, has_only_host

RULE = Rule("host-optimizer", "An optimizer step of many small operators", explains_lateness=True)

OPTIMIZER_PCT = 10.0
LEAST_OPERATORS = 50
# ATen's fused steps (native_functions.yaml: _fused_adamw_, ...): what is advised is done.
_FUSED = r"^aten::_fused_"


# A call that takes a tenth of the part, and twenty times as long as its operator usually does, is
# none of the many small ones: a first use, or a wait (ours).
_LONG_PCT, _TIMES = 10.0, 20
_LEAST_CALLS = 20  # of an operator, to say what is usual


def _find_outliers(operators: pl.DataFrame) -> pl.DataFrame:
    """Single calls that took most unusually long: host_op_id, name, ns and what is `usual`, ns."""
    calls = operators.group_by("host_op_id", "name").agg(ns=pl.col("own_ns").sum())
    usual = pl.col("ns").median().over("name")
    is_long = (100 * pl.col("ns") >= _LONG_PCT * sum_column(calls, "ns")) & (
        pl.col("ns") >= _TIMES * usual
    )
    many = pl.len().over("name") >= _LEAST_CALLS
    return calls.with_columns(usual=usual).filter(is_long & many).sort("ns", descending=True)


def _count_steps(share: Share) -> int:
    steps = share.segments.filter(pl.col("name").str.starts_with("Optimizer.step#"))
    return steps.get_column("host_op_id").n_unique()


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    share = take_part(run, OPTIMIZE)
    operators = share.segments.filter(pl.col("layer") == "op")
    outliers = _find_outliers(operators)
    if outliers.height:
        alone = pl.col("host_op_id").is_in(outliers.get_column("host_op_id").implode())
        share = take_share(run, share.segments.filter(~alone.fill_null(value=False)))
        operators = share.segments.filter(pl.col("layer") == "op")
    calls = operators.get_column("host_op_id").n_unique() // max(_count_steps(share), 1)
    is_fused = bool(match_names(operators, _FUSED).any())
    if share.pct < OPTIMIZER_PCT or calls < LEAST_OPERATORS or is_fused:
        return
    yield report_share(
        RULE,
        share,
        f"The optimizer takes {format_pct(share.pct)} of the main thread's time, in "
        f"{format_several(calls, 'operator')} a step.",
        [*list_names(operators), *_describe_outliers(outliers)],
        Advice(
            fix="pass fused=True to the optimizer (on the CPU since PyTorch 2.4), else "
            "foreach=True",
            verify="sightline stats host_breakdown AFTER: window_pct of the optimizer",
        ),
    )


def _describe_outliers(outliers: pl.DataFrame) -> list[str]:
    return [
        f"not in it: {format_ns(ns)} in one call of {name}, which usually takes "
        f"{format_ns(int(usual))}: a first use, or a wait for the device"
        for _, name, ns, usual in outliers.rows()
    ]
