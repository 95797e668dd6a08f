"""What the steps of an engine would take with room for every request, by the scheduler's model.

That is without a limit of requests, and with a KV cache for all of them. A full cache costs more
than what is computed twice: who is preempted or waits is missing in the batch, and each step of
decode reads all weights for fewer. The client's requests are played with what the recording's own
steps cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.subjects.serving.planning.prediction import (
    SEEN_STEPS,
    find_clients,
    find_settings,
    list_asked,
)
from sightline.subjects.serving.planning.scheduler import Settings, play_requests
from sightline.subjects.serving.planning.step_costs import (
    StepCosts,
    fit_costs,
    list_batches,
    list_usual,
)
from sightline.timeline.engine_gaps import are_apart, list_request_spans
from sightline.timeline.engine_steps import list_engine_steps


@dataclass(frozen=True)
class _Spent(StepCosts):
    """Costs that remember what was paid."""

    paid: list[float] = field(default_factory=list)

    def price(self, prompt_tokens: int, decodes: int) -> float:
        """What a step takes, ns."""
        ns = super().price(prompt_tokens, decodes)
        self.paid.append(ns)
        return ns


class _Elsewhere(_Spent):
    """The same where prompts come computed: a step takes what its running requests do."""

    def price(self, prompt_tokens: int, decodes: int) -> float:
        """What a step takes, ns."""
        return super().price(0, decodes) if decodes else 0.0


def measure_room(run: Run) -> int | None:
    """How much less the steps take, ns, if each request is admitted as it comes; None: unknown.

    Prompts keep the limit of a step's tokens that the recording shows.
    """
    return _measure_relief(run, _Spent, lambda batches, _: Settings(None, _find_limit(batches)))


def measure_elsewhere(run: Run) -> int | None:
    """How much less the steps take, ns, if prompts are computed on other servers; None: unknown.

    Who waited for a prompt decodes sooner, and with more others: its steps are fewer.
    """

    def find_limits(batches: pl.DataFrame, served: pl.DataFrame) -> Settings:
        return Settings(find_settings(batches, served).max_num_seqs, None)

    return _measure_relief(run, _Elsewhere, find_limits)


def _measure_relief(
    run: Run,
    costs: type[_Spent],
    find_limits: Callable[[pl.DataFrame, pl.DataFrame], Settings],
) -> int | None:
    """What the recorded steps take more than a replay of the client's requests without a cause."""
    if list_request_spans(run).is_empty() or are_apart(list_engine_steps(run)):
        return None
    try:
        batches = list_batches(run)
        asked, served = list_asked(run)
        spent = costs(**fit_costs(batches).__dict__)
        play_requests(asked, spent, find_limits(batches, served), clients=find_clients(served))
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


def _find_limit(batches: pl.DataFrame) -> int | None:
    """The most tokens of a step with prompts, where several have as many."""
    tokens = (batches["prompt_tokens"] + batches["decodes"]).filter(batches["prompt_tokens"] > 0)
    largest = int(tokens.max() or 1)  # type: ignore[arg-type]
    return largest if int((tokens == largest).sum()) >= SEEN_STEPS else None
