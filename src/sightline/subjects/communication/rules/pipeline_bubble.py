"""A pipeline stage waits for the stage before or behind it.

Symptom
    Send and receive kernels with no compute beside them.

Why it hurts
    A stage that waits does nothing: with m micro-batches and p stages, (p - 1) of every
    (m + p - 1) slots are empty.

Evidence
    Exposed time of send and receive kernels (`sightline stats comm_exposure`) that were launched
    from a send or receive; an all-to-all runs the same kernel and is left to
    exposed-communication. How much of it is
    transfer and how much waiting the recording does not show. The gain is a replay without them:
    what a pipeline without bubbles could give at most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: exposed communication).

Fix
    More micro-batches, interleaved stages (1F1B, virtual stages, zero-bubble schedules), stages
    of equal cost.

False positives
    Send and receive that are not pipelines, such as expert exchange or halo exchange.

References
    Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters" (2021).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.replay.replay import remove_ops
from sightline.subjects.communication.rules._parts import find_exposed_part

RULE = Rule("pipeline-bubble", "Pipeline bubble", general=4)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_part(
        run,
        RULE,
        "pipeline",
        "exposed send and receive",
        remove_ops,
        cause="a stage has no work until its neighbor finishes",
        fix="use more micro-batches, interleaved stages, or stages of equal cost",
        source="Narayanan et al. (2021): bubble (p - 1) / (m + p - 1)",
    )
