"""What a step of the engine takes, by how many requests it continues and prompt tokens it computes.

Steps that only decode: the mean by the number of requests, made to rise with it, linear between and
beyond those that were seen. Steps with prompts: what such a step takes at all, plus a time for each
prompt token, by least squares, beside what its running requests add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving.logged_steps import list_logged_steps
from sightline.timeline.engine_steps import list_engine_steps

if TYPE_CHECKING:
    import numpy as np

# A step of so many times the median is a compilation or a pause, not what such steps cost (ours:
# vLLM's first steps on a CPU take 5 to 60 times the median).
OUTLIER = 10.0


@dataclass(frozen=True)
class StepCosts:
    """Times of steps in ns; `sizes` and `decode_ns` are parallel, `sizes` counts up.

    `prompt_base_ns` is a step with prompts apart from its tokens (`token_ns` each) and from what
    each running request adds (`request_ns`).
    """

    sizes: tuple[int, ...]
    decode_ns: tuple[float, ...]
    request_ns: float
    prompt_base_ns: float
    token_ns: float

    def price(self, prompt_tokens: int, decodes: int) -> float:
        """What a step takes, ns."""
        import numpy as np

        if prompt_tokens:
            return self.prompt_base_ns + self.token_ns * prompt_tokens + self.request_ns * decodes
        if decodes <= self.sizes[0]:
            return max(self.decode_ns[0] - self.request_ns * (self.sizes[0] - decodes), 0.0)
        if decodes >= self.sizes[-1]:
            return self.decode_ns[-1] + self.request_ns * (decodes - self.sizes[-1])
        return float(np.interp(decodes, self.sizes, self.decode_ns))


def list_batches(run: Run) -> pl.DataFrame:
    """Each step's prompt_tokens, prompts, decodes, and ns from its begin to the next one's.

    From the engine's steps with the gaps before them in which requests were there; else from the
    iterations in a server's log. Raises MissingDataError where neither says what a step computed.
    """
    if list_engine_steps(run).height:
        steps = run.ask("engine_steps")
        rank = steps.get_column("rank").min()
        known = steps.filter(pl.col("rank") == rank).select(
            pl.col("prefill_tokens").fill_null(0).alias("prompt_tokens"),
            pl.col("prefill_requests").fill_null(0).alias("prompts"),
            pl.col("decode_requests").fill_null(0).alias("decodes"),
            ns=(pl.col("duration_ns") + pl.col("scheduler_ns") + pl.col("in_step_ns")).cast(
                pl.Float64
            ),
        )
    else:
        known = _read_iterations(run)
    known = known.filter(pl.col("prompt_tokens") + pl.col("decodes") > 0)
    if known.is_empty():
        raise MissingDataError(
            "what steps cost is unknown",
            why="no step says how many requests and tokens it computed",
            hint="Record the server (sightline run --server vllm URL --requests 64), or start it "
            "with --enable-logging-iteration-details and open its log with the client's",
        )
    return known


def _read_iterations(run: Run) -> pl.DataFrame:
    """The iterations of a server's log that say what they computed."""
    steps = list_logged_steps(run).drop_nulls("prefill_tokens")
    return steps.select(
        prompt_tokens="prefill_tokens",
        prompts="prefill_requests",
        decodes="decode_requests",
        ns=pl.col("duration_ns").cast(pl.Float64),
    )


def fit_costs(batches: pl.DataFrame) -> StepCosts:
    """The costs that explain `list_batches`. Raises MissingDataError without decode or prompts."""
    import numpy as np

    decodes = _drop_outliers(batches.filter(pl.col("prompt_tokens") == 0))
    prompts = _drop_outliers(batches.filter(pl.col("prompt_tokens") > 0))
    if decodes.is_empty() or prompts.is_empty():
        what = "decodes" if decodes.is_empty() else "computes prompts"
        raise MissingDataError(
            "what steps cost is unknown",
            why=f"no step only {what}" if decodes.is_empty() else f"no step {what}",
            hint="Record longer, with requests that come and go:  sightline run --server vllm URL "
            "--requests 64",
        )
    means = decodes.group_by("decodes").agg(ns=pl.col("ns").mean(), n=pl.len()).sort("decodes")
    sizes, weights = means["decodes"].to_numpy(), means["n"].to_numpy().astype(float)
    times = _rise(means["ns"].to_numpy(), weights)
    request = _fit_slope(sizes, times, weights)
    tokens = prompts["prompt_tokens"].to_numpy().astype(float)
    rest = prompts["ns"].to_numpy() - request * prompts["decodes"].to_numpy()
    token = _fit_slope(tokens, rest, np.ones(len(rest)))
    if len(sizes) == 1:
        # What one request more adds is seen nowhere: no less than one more token of a prompt.
        beyond = max(float(np.mean(rest) - times[0]), 0.0) / max(float(np.mean(tokens)), 1.0)
        request = token = min(token, beyond)
        rest = rest - request * prompts["decodes"].to_numpy()
    base = float(np.mean(rest - token * tokens))
    if base < 0:  # longer prompts are dearer by more than a line
        base, token = 0.0, float(rest.sum() / tokens.sum())
    return StepCosts(tuple(map(int, sizes)), tuple(map(float, times)), request, base, token)


def list_usual(batches: pl.DataFrame) -> pl.DataFrame:
    """The rows of `list_batches` by which steps are priced."""
    sides = (pl.col("prompt_tokens") == 0, pl.col("prompt_tokens") > 0)
    return pl.concat(_drop_outliers(batches.filter(side)) for side in sides)


def _drop_outliers(batches: pl.DataFrame) -> pl.DataFrame:
    return batches.filter(pl.col("ns") <= OUTLIER * pl.col("ns").median())


def _rise(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The nearest values that never fall: a larger batch takes no less, what falls is noise.

    Weighted isotonic regression, by pooling neighbors that violate it.
    """
    import numpy as np

    pools: list[list[float]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights, strict=True):
        pools.append([float(value), float(weight), 1])
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            mean, heavy, count = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * heavy) / (last[1] + heavy)
            last[1], last[2] = last[1] + heavy, last[2] + count
    return np.concatenate([np.full(int(count), mean) for mean, _, count in pools])


def _fit_slope(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The slope of least squares, never negative; 0 where x does not vary."""
    import numpy as np

    center = np.average(x, weights=weight)
    spread = float(np.sum(weight * (x - center) ** 2))
    if not spread:
        return 0.0
    return max(float(np.sum(weight * (x - center) * y)) / spread, 0.0)
