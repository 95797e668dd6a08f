"""TTFT, ITL and throughput at other settings, from one recording of a server and its clients.

The recording's own requests are played at its own settings first: what the model then lacks is
time of every step that no step shows (`overhead`), and the way to the engine (`delivery`). Both
are kept for the prediction, and what the replay gives stands beside what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.subjects.serving.planning.scheduler import Asked, Played, Settings, play_requests
from sightline.subjects.serving.planning.step_costs import StepCosts, fit_costs, list_batches

if TYPE_CHECKING:
    import numpy as np

# A client's next request follows an end within this share of the median latency (ours: Python's
# clients take 1 to 3 ms, of answers of seconds), and so do this share of all requests.
PROMPTLY, MOSTLY = 0.02, 0.9
# A limit is seen where so many steps reach it (ours).
SEEN_STEPS = 3


@dataclass(frozen=True)
class Times:
    """What clients saw: ms, tokens and requests a second."""

    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    itl_mean_ms: float
    itl_p50_ms: float
    itl_p99_ms: float
    tokens_per_s: float
    requests_per_s: float


@dataclass(frozen=True)
class Prediction:
    """What was measured, the same by the model, and what the model predicts.

    `recorded` are the settings that the recording shows, `clients` the size of a closed loop (None:
    requests come by themselves). `beyond` says what of the prediction no step of the recording
    shows.
    """

    measured: Times
    replayed: Times
    predicted: Times
    recorded: Settings
    settings: Settings
    clients: int | None
    predicted_clients: int | None
    requests: int
    steps: int
    overhead_ns: float
    delivery_ns: float
    beyond: tuple[str, ...]


def predict(
    run: Run,
    *,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    load: float = 1.0,
    clients: int | None = None,
) -> Prediction:
    """What the recording's requests would see at other settings; what is None stays as recorded.

    `load` is how many times as fast requests come, or as many clients there are. Raises
    MissingDataError where steps or requests lack, RequestError for settings that cannot be.
    """
    given = (max_num_seqs, max_num_batched_tokens, clients)
    if load <= 0 or any(one is not None and one < 1 for one in given):
        raise RequestError("settings are above 0", hint="For example --max-num-seqs 64 --load 2")
    batches = list_batches(run)
    costs = fit_costs(batches)
    asked, served = list_asked(run)
    found = find_clients(served)
    recorded = find_settings(batches, served)
    measured = measure_served(served)
    overhead, delivery = _calibrate(asked, costs, recorded, found, measured)
    words = {"overhead_ns": overhead, "delivery_ns": delivery}
    replayed = play_requests(asked, costs, recorded, clients=found, **words)
    settings = Settings(
        max_num_seqs or recorded.max_num_seqs,
        max_num_batched_tokens or recorded.max_num_batched_tokens,
    )
    many = clients or (None if found is None else max(round(found * load), 1))
    if many is None:
        first = min(one.sent_ns for one in asked)
        asked = [replace(one, sent_ns=first + (one.sent_ns - first) / load) for one in asked]
    played = play_requests(asked, costs, settings, clients=many, **words)
    return Prediction(
        measured, summarize_played(replayed), summarize_played(played), recorded, settings, found,
        many, len(asked), batches.height, overhead, delivery,
        tuple(_name_beyond(batches, played, settings, costs)),
    )  # fmt: skip


def list_asked(run: Run) -> tuple[list[Asked], pl.DataFrame]:
    """The requests that were answered, as asked and as served. Raises MissingDataError."""
    needed = ["start_ns", "end_ns", "ttft_ns", "prompt_tokens", "output_tokens"]
    table = run.table("served_requests", [*needed, "itl_ns", "status"])
    served = table.filter(pl.col("status").fill_null("") != "failed").drop_nulls(needed)
    served = served.filter(pl.col("output_tokens") > 0).sort("start_ns")
    if served.height < 2:
        raise MissingDataError(
            "what the clients asked is unknown",
            why="no request is there with the tokens of its prompt and of its answer",
            hint="Open the client's log with it, or record both:  sightline run --server vllm URL "
            "--requests 64",
        )
    rows = served.select("start_ns", "prompt_tokens", "output_tokens").rows()
    return [Asked(float(at), max(prompt, 1), output) for at, prompt, output in rows], served


def find_clients(served: pl.DataFrame) -> int | None:
    """How many clients sent the requests, each the next when one ended; None where they did not."""
    import numpy as np

    starts, ends = served["start_ns"].to_numpy(), np.sort(served["end_ns"].to_numpy())
    begun = np.arange(1, len(starts) + 1)
    most = int(np.max(begun - np.searchsorted(ends, starts, side="right")))
    later = starts[most:]
    if most >= len(starts):
        return None
    last = ends[np.maximum(np.searchsorted(ends, later, side="right") - 1, 0)]
    latency = float((served["end_ns"] - served["start_ns"]).median() or 0)  # type: ignore[arg-type]
    promptly = (later - last >= 0) & (later - last <= PROMPTLY * latency)
    return most if promptly.mean() >= MOSTLY else None


def find_settings(batches: pl.DataFrame, served: pl.DataFrame) -> Settings:
    """The limits that the recording's steps ran into; None where they ran into none.

    That of requests is seen where more were on their way than any step had, that of tokens where
    several steps with prompts have the most.
    """
    import numpy as np

    requests = batches["prompts"] + batches["decodes"]
    most = int(requests.max() or 1)  # type: ignore[arg-type]
    starts, ends = served["start_ns"].to_numpy(), np.sort(served["end_ns"].to_numpy())
    begun = np.arange(1, len(starts) + 1)
    there = int(np.max(begun - np.searchsorted(ends, starts, side="right")))
    tokens = (batches["prompt_tokens"] + batches["decodes"]).filter(batches["prompt_tokens"] > 0)
    largest = int(tokens.max() or 1)  # type: ignore[arg-type]
    full = int((tokens == largest).sum())
    return Settings(most if there > most else None, largest if full >= SEEN_STEPS else None)


def measure_served(served: pl.DataFrame) -> Times:
    """What the clients of the requests of `list_asked` saw."""
    ttft = served["ttft_ns"].cast(pl.Float64).to_numpy() / 1e6
    itl = served["itl_ns"].explode().drop_nulls().cast(pl.Float64).to_numpy() / 1e6
    length = (int(served["end_ns"].max()) - int(served["start_ns"].min())) / 1e9  # type: ignore[arg-type]
    return _summarize(ttft, itl, int(served["output_tokens"].sum()), served.height, length)


def summarize_played(played: Sequence[Played]) -> Times:
    """What the clients of a replay saw."""
    import numpy as np

    ttft = np.array([one.tokens_ns[0] - one.sent_ns for one in played]) / 1e6
    itl = np.concatenate([np.diff(one.tokens_ns) for one in played]) / 1e6
    length = max(one.tokens_ns[-1] for one in played) - min(one.sent_ns for one in played)
    tokens = sum(len(one.tokens_ns) for one in played)
    return _summarize(ttft, itl, tokens, len(played), length / 1e9)


def _summarize(
    ttft: np.ndarray, itl: np.ndarray, tokens: int, requests: int, seconds: float
) -> Times:
    import numpy as np

    spread = itl if len(itl) else np.zeros(1)
    first_p50, first_p99 = map(float, np.percentile(ttft, [50, 99]))
    next_p50, next_p99 = map(float, np.percentile(spread, [50, 99]))
    length = max(seconds, 1e-9)
    return Times(
        float(ttft.mean()), first_p50, first_p99, float(spread.mean()), next_p50, next_p99,
        tokens / length, requests / length,
    )  # fmt: skip


def _calibrate(
    asked: list[Asked],
    costs: StepCosts,
    settings: Settings,
    clients: int | None,
    measured: Times,
) -> tuple[float, float]:
    """Time of each step that none shows, and the way to the engine, ns; neither is negative.

    With the first, the mean time between tokens is as measured; with the second, the median time
    to the first token.
    """
    overhead = delivery = 0.0
    for _ in range(3):  # each hardly moves the other
        low, high = 0.0, 4e6 * measured.itl_mean_ms
        for _ in range(30):
            overhead = (low + high) / 2
            played = play_requests(
                asked, costs, settings, clients=clients, overhead_ns=overhead, delivery_ns=delivery
            )
            if summarize_played(played).itl_mean_ms < measured.itl_mean_ms:
                low = overhead
            else:
                high = overhead
        overhead = low
        played = play_requests(
            asked, costs, settings, clients=clients, overhead_ns=overhead, delivery_ns=delivery
        )
        lacking = measured.ttft_p50_ms - summarize_played(played).ttft_p50_ms
        delivery = max(delivery + 1e6 * lacking, 0.0)
    return overhead, delivery


def _name_beyond(
    batches: pl.DataFrame, played: Sequence[Played], settings: Settings, costs: StepCosts
) -> list[str]:
    """What the prediction takes from no step of the recording."""
    found = []
    seen = int(batches["decodes"].max() or 0)  # type: ignore[arg-type]
    there = min(_count_most(played), settings.max_num_seqs or 1 << 60)
    if there > seen:
        found.append(f"steps of {there} requests: the recording has none of more than {seen}")
    if len(costs.sizes) < 2 and there != costs.sizes[0]:
        found.append("what one request more adds to a step: all steps of decode had as many")
    return found


def _count_most(played: Sequence[Played]) -> int:
    import numpy as np

    starts = np.sort([one.sent_ns for one in played])
    ends = np.sort([one.tokens_ns[-1] for one in played])
    begun = np.arange(1, len(starts) + 1)
    return int(np.max(begun - np.searchsorted(ends, starts, side="right")))
