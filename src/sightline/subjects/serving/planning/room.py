"""What the steps of an engine would take with room for every request, by the scheduler's model.

That is without a limit of requests, and with a KV cache for all of them. A full cache costs more
than what is computed twice: who is preempted or waits is missing in the batch, and each step of
decode reads all weights for fewer. The client's requests are played with what the recording's own
steps cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.subjects.serving.planning.prediction import find_clients, list_asked
from sightline.subjects.serving.planning.scheduler import Settings, play_requests
from sightline.subjects.serving.planning.step_costs import (
    StepCosts,
    fit_costs,
    list_batches,
    list_usual,
)
from sightline.timeline.engine_gaps import list_request_spans


@dataclass(frozen=True)
class _Spent(StepCosts):
    """Costs that remember what was paid."""

    paid: list[float] = field(default_factory=list)

    def price(self, prompt_tokens: int, decodes: int) -> float:
        """What a step takes, ns."""
        ns = super().price(prompt_tokens, decodes)
        self.paid.append(ns)
        return ns


def measure_room(run: Run) -> int | None:
    """How much less the steps take, ns, if each request is admitted as it comes; None: unknown.

    Prompts keep the limit of a step's tokens that the recording shows.
    """
    if list_request_spans(run).is_empty():
        return None
    try:
        batches = list_batches(run)
        costs = fit_costs(batches)
        asked, served = list_asked(run)
        spent = _Spent(**costs.__dict__)
        play_requests(asked, spent, _find_limit(batches), clients=find_clients(served))
    except (MissingDataError, RequestError):
        return None
    took = float(list_usual(batches).get_column("ns").sum())
    return max(round(took - sum(spent.paid)), 0)


def count_recomputed(run: Run, steps: pl.DataFrame) -> tuple[int, int]:
    """Prompt tokens that one rank's rows of `engine_steps` computed, and how many of them again.

    None again where the client's requests are not those of the steps.
    """
    computed = int(steps["prefill_tokens"].sum())
    if list_request_spans(run).is_empty():
        return computed, 0
    sent = int(run.table("served_requests")["prompt_tokens"].sum() or 0)
    return computed, max(computed - sent, 0) if sent else 0


def _find_limit(batches: pl.DataFrame) -> Settings:
    """The most tokens of a step with prompts, where several have as many."""
    tokens = (batches["prompt_tokens"] + batches["decodes"]).filter(batches["prompt_tokens"] > 0)
    largest = int(tokens.max() or 1)  # type: ignore[arg-type]
    several = int((tokens == largest).sum()) >= 3
    return Settings(None, largest if several else None)
