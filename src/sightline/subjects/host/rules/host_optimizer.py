"""The optimizer steps from parameter to parameter.

Symptom
    Optimizer.step takes much of a step, in hundreds of small operators.

Why it hurts
    Each parameter costs ten calls; fused, one call works through all of them and reads each
    parameter once.

Evidence
    The main thread's time inside Optimizer.step and zero_grad, and how many operators it calls a
    step. The gain is a bound: all of that time; the fused step takes the rest.

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
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.build import Advice
from sightline.subjects.host.rules._shared import Share, list_names, report_share, take_part
from sightline.timeline.host_parts import OPTIMIZE, has_only_host

RULE = Rule("host-optimizer", "An optimizer step of many small operators")

OPTIMIZER_PCT = 10.0
LEAST_OPERATORS = 50
# ATen's fused steps (native_functions.yaml: _fused_adamw_, ...): what is advised is done.
_FUSED = r"^aten::_fused_"


def _count_steps(share: Share) -> int:
    steps = share.segments.filter(pl.col("name").str.starts_with("Optimizer.step#"))
    return steps.get_column("host_op_id").n_unique()


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    share = take_part(run, OPTIMIZE)
    operators = share.segments.filter(pl.col("layer") == "op")
    calls = operators.get_column("host_op_id").n_unique() // max(_count_steps(share), 1)
    is_fused = bool(match_names(operators, _FUSED).any())
    if share.pct < OPTIMIZER_PCT or calls < LEAST_OPERATORS or is_fused:
        return
    yield report_share(
        RULE,
        share,
        f"The optimizer takes {format_pct(share.pct)} of the main thread's time, in "
        f"{format_count(calls)} operators a step.",
        list_names(operators),
        Advice(
            fix="pass fused=True to the optimizer (on the CPU since PyTorch 2.4), else "
            "foreach=True",
            verify="sightline stats host_breakdown AFTER: window_pct of the optimizer",
        ),
    )
