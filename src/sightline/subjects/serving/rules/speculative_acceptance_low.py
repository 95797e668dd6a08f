"""Drafted tokens are rejected: speculation costs more than it saves.

Symptom
    With speculative decoding tokens come more slowly than without it.

Why it hurts
    A draft and the check of all its tokens are paid for in each step, and only the tokens that are
    accepted come sooner.

Evidence
    Tokens that each step of verification brings (the client's tokens, or the server's count of
    accepted ones) and what the draft takes in it, by the engine's own range. A step without the
    draft stands for a plain step of decode, as both read all weights once.

Threshold
    5 % of the window (TraceLens agent, 2026-08). From the server's counts alone: less than 29 % of
    the drafted tokens are accepted, where four tokens a draft at a tenth of the model's cost break
    even (Leviathan et al. 2023, theorem 3.8).

Fix
    Fewer tokens a draft, a better one, or none.

False positives
    At large batches checking several tokens is no longer free: the loss is then larger.

References
    Leviathan et al. 2023, Fast Inference from Transformers via Speculative Decoding. vLLM,
    Speculative Decoding.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.serving.findings import list_steps, report_loss
from sightline.subjects.serving.flags import name_flag
from sightline.subjects.serving.load import find_worst
from sightline.subjects.serving.speculation import measure_drafts, measure_gained

RULE = Rule("speculative-acceptance-low", "Drafted tokens are rejected")

BREAK_EVEN_PCT = 29.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    verifies = None if steps is None else measure_drafts(run, steps)
    gained = None if verifies is None else measure_gained(run, verifies)
    if verifies is None or gained is None:
        yield from _judge_counts(run)
        return
    drafted = int((verifies["decode_tokens"] - verifies["decode_requests"]).sum())
    requests = int(verifies["decode_requests"].sum())
    accepted = max((gained - 1) * requests, 0.0)
    # Without speculation the same tokens take so many steps without a draft.
    lost = pl.col("cycle_ns") - gained * (pl.col("cycle_ns") - pl.col("draft_ns"))
    losses = verifies.with_columns(cost_ns=lost.round().cast(pl.Int64))
    if int(losses["cost_ns"].sum()) <= 0:
        return
    drafting, all_ns = int(verifies["draft_ns"].sum()), int(verifies["cycle_ns"].sum())
    share = format_pct(100 * drafting / max(all_ns, 1))
    yield from report_loss(
        run,
        RULE,
        losses.with_columns(gain_ns="cost_ns"),
        f"{format_pct(100 * accepted / max(drafted, 1))} of the drafted tokens are accepted: fewer "
        "than pay for the draft.",
        [
            f"{format_several(drafted, 'token')} drafted, {accepted:,.0f} accepted: {gained:.2f} "
            "tokens a step and request",
            f"the draft takes {share} of a step",
        ],
        verify="sightline stats engine_steps AFTER: fewer steps, or none that verify",
        method="the same tokens by steps without the draft",
        confidence="medium",
    )


def _judge_counts(run: Run) -> Iterator[Finding]:
    """A remark by the server's own counts."""
    drafted = find_worst(run, "drafted", "total") or 0.0
    accepted = find_worst(run, "accepted", "total") or 0.0
    if not drafted or 100 * accepted / drafted >= BREAK_EVEN_PCT:
        return
    flag = name_flag(run, RULE.name)
    yield build_finding(
        RULE,
        f"{format_pct(100 * accepted / drafted)} of the drafted tokens are accepted.",
        Evidence(
            [
                f"{drafted:,.0f} tokens drafted, {accepted:,.0f} accepted, by the server's count",
                f"below {BREAK_EVEN_PCT:g} % even a draft at a tenth of the model's cost does not "
                "pay",
            ]
        ),
        Advice(
            fix=flag.fix,
            verify="sightline stats serving_load AFTER: accepted over drafted",
            sources=(flag.source,),
        ),
        severity="warning",
        confidence="medium",
    )
