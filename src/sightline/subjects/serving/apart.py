"""Prefill and decode on servers of their own: which request was where, by order and numbers alone.

The client's log says when each request was sent and answered. The prefill server says how many
prompts and tokens each of its steps computed: of the prompts that were sent, the earliest that have
as many. The decode server says how many requests each step has: what it has more than were left of
the step before are new ones, and each leaves after as many steps as it has tokens. They join in the
order in which the client has their first tokens, or, where those come from the prefill server, in
the order of sending: whichever fits the times at which the client has their last ones.

When keys and values had come is told by the connector's ranges: one for each request, or those
inside the step that took it; without any, by the step that took it.

Clocks: the client's counts. Where no event lies before its cause, none is moved: they are of one
machine, or kept in time. Else a decode server's is moved so that the client has a last token at
once where it has one fastest, and a prefill server's so far that no prompt is done before it was
sent or behind its transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.latest import find_latest
from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.errors import MissingDataError
from sightline.subjects.serving.transfers import list_transfers

TRANSFER, IN_STEP, STEP = "transfer", "transfers in the step", "step that took it"
_HINT = (
    "Open both servers' traces and the client's log of the same requests:  "
    "sightline stats request_story PREFILL DECODE client.json"
)
# vLLM's ranges of what follows a step's forward (v1/worker/gpu_model_runner.py).
_SAMPLES = r"^gpu_model_runner: (?:sample|bookkeep|ModelRunnerOutput)$"
_NEVER_NS = 1 << 62
# Prompts that overtake others on their way to the server, and how many choices are looked at (ours:
# a proxy's threads swap two that come within a millisecond).
_OVERTAKE, _MOST_CHOICES = 4, 10_000


class Story(NamedTuple):
    """The moments of each request (ns on the client's clock), and how far clocks were moved.

    `moved_by` says how it is known when keys and values had come.
    """

    frame: pl.DataFrame
    prefill_rank: int
    decode_rank: int
    prefill_offset_ns: int
    decode_offset_ns: int
    moved_by: str


class _Decoded(NamedTuple):
    """The rows of the steps in which each request joins the decode server, and leaves it."""

    joins: np.ndarray
    leaves: np.ndarray


def tell_story(run: Run) -> Story:
    """Columns request_id, sent_ns, prefilled_ns, moved_ns, left_ns, end_ns of each request.

    Raises MissingDataError where the run is not of a server that prefills and one that decodes, or
    their requests are not the client's.
    """
    steps = _end_with_sampling(run, run.ask("engine_steps"))
    prefill, decode = _find_servers(steps)
    asked = run.table("served_requests").drop_nulls(["start_ns", "end_ns", "prompt_tokens"])
    asked = asked.sort("start_ns", "request_id")
    done = _find_prefilled(steps.filter(pl.col("rank") == prefill), asked)
    decodes = steps.filter(pl.col("rank") == decode).sort("start_ns")
    decoded = _find_decoded(decodes, asked)
    counts = {"prompts done": len(done), "requests that left": len(decoded.leaves)}
    wrong = [f"{number} {what}" for what, number in counts.items() if number != asked.height]
    if not asked.height or wrong:
        raise MissingDataError(
            "the servers' requests are not the client's",
            why=(
                f"{', '.join(wrong) or 'no request'} for {format_several(asked.height, 'request')} "
                "of the client"
            ),
            hint=_HINT,
        )
    moves = list_transfers(run).filter((pl.col("rank") == decode) & pl.col("is_in"))
    moved, moved_by = _find_moved(decodes, decoded, moves)
    sent, end = asked["start_ns"].to_numpy(), asked["end_ns"].to_numpy()
    left = decodes["end_ns"].to_numpy()[decoded.leaves]
    prefill_offset, decode_offset = _fit_clocks(sent, done, moved, left, end)
    frame = pl.DataFrame(
        {
            "request_id": asked["request_id"],
            "sent_ns": sent,
            "prefilled_ns": done + prefill_offset,
            "moved_ns": moved + decode_offset,
            "left_ns": left + decode_offset,
            "end_ns": end,
        }
    )
    return Story(frame, prefill, decode, prefill_offset, decode_offset, moved_by)


def _end_with_sampling(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The steps until their tokens are there: without a device vLLM samples behind the range."""
    host = run.table("host_ops", ["rank", "name", "start_ns", "end_ns"])
    samples = host.filter(match_names(host, _SAMPLES)) if host.height else host
    until = pl.col("host_start_ns").shift(-1).over("rank").fill_null(_NEVER_NS) - 1
    ordered = steps.sort("rank", "host_start_ns").with_columns(until=until)
    last = find_latest(ordered, "until", samples, "start_ns", ["rank"]).cast(pl.Int64)
    begin, end = (samples.get_column(name).gather(last) for name in ("start_ns", "end_ns"))
    is_host = pl.col("end_ns") == pl.col("host_end_ns")
    behind = is_host & (pl.lit(begin) >= pl.col("host_end_ns"))
    return ordered.with_columns(end_ns=pl.when(behind).then(pl.lit(end)).otherwise("end_ns")).drop(
        "until"
    )


def _find_servers(steps: pl.DataFrame) -> tuple[int, int]:
    """The ranks of the server that prefills and of that which decodes. Raises MissingDataError.

    The one continues nobody. The other computes the end of each prompt again, which may be more
    tokens than it makes; where both continue requests, what they mostly do tells them apart.
    """
    prefill, decode = pl.col("prefill_tokens"), pl.col("decode_tokens")
    sums = steps.group_by("rank").agg(prefill.sum(), decode.sum())
    only = sums.filter((prefill > 0) & (decode == 0))
    is_prefill = decode == 0 if only.height else prefill > decode
    prefills, decodes = sums.filter(is_prefill), sums.filter(~is_prefill)
    if prefills.height != 1 or decodes.height != 1:
        raise MissingDataError(
            "prefill and decode are not apart",
            why=(
                f"{format_several(prefills.height, 'rank')} mostly prefill, and {decodes.height} "
                "mostly decode"
            ),
            hint=_HINT,
        )
    return int(prefills.item(0, "rank")), int(decodes.item(0, "rank"))


def _find_prefilled(steps: pl.DataFrame, asked: pl.DataFrame) -> np.ndarray:
    """When each prompt was computed, ns: the end of the step that has its last token."""
    ordered = steps.filter(pl.col("prefill_tokens") > 0).sort("start_ns")
    begun = ordered.get_column("prefill_requests")
    if (begun > 0).all() and not begun.has_nulls() and int(begun.sum()) == asked.height:
        return _match_prompts(ordered, asked["prompt_tokens"].to_list())
    # Prompts in pieces: by order alone.
    computed = ordered["prefill_tokens"].cum_sum().to_numpy()
    wanted = asked["prompt_tokens"].cum_sum().to_numpy()
    if not len(computed) or not len(wanted) or computed[-1] != wanted[-1]:
        return np.array([], dtype=np.int64)  # others asked, too, or not all was computed
    ends: np.ndarray = ordered["end_ns"].to_numpy()[np.searchsorted(computed, wanted)]
    return ends


def _match_prompts(steps: pl.DataFrame, prompts: Sequence[int]) -> np.ndarray:
    """When each prompt was computed, of steps that compute each whole: the earliest that fit."""
    done = np.zeros(len(prompts), dtype=np.int64)
    coming, waiting = iter(range(len(prompts))), list[int]()
    for count, tokens, end in steps.select("prefill_requests", "prefill_tokens", "end_ns").rows():
        waiting += islice(coming, count + _OVERTAKE - len(waiting))
        choices = islice(combinations(waiting, count), _MOST_CHOICES // count)
        # Of a prompt whose beginning was cached less is computed: then by order alone.
        fits = (c for c in choices if sum(prompts[n] for n in c) == tokens)
        for number in next(fits, tuple(waiting[:count])):
            done[number] = end
            waiting.remove(number)
    return done


def _find_decoded(steps: pl.DataFrame, asked: pl.DataFrame) -> _Decoded:
    """The steps of each request; none where the steps' numbers of requests fit no order."""
    ends, left_at = asked["end_ns"].to_numpy(), steps["end_ns"].to_numpy()
    found, best = _Decoded(np.array([], np.int64), np.array([], np.int64)), np.inf
    for one in _list_fits(steps, asked):
        late = ends - left_at[one.leaves]
        spread = float(np.abs(late - np.median(late)).sum())
        if spread < best:
            found, best = one, spread
    return found


def _list_fits(steps: pl.DataFrame, asked: pl.DataFrame) -> Iterator[_Decoded]:
    """All ways in which the steps have the requests.

    The decode server makes all tokens, or all but the first; it may compute a prompt's end again,
    which then is a prompt's step of its own.
    """
    first_ns = (asked["start_ns"] + asked["ttft_ns"].fill_null(0)).to_numpy()
    continued = steps["decode_requests"].fill_null(0).to_numpy()
    begun = steps["prefill_requests"].fill_null(0).to_numpy()
    tokens = asked["output_tokens"].fill_null(0).to_numpy()
    for order in (np.argsort(first_ns, kind="stable"), np.arange(asked.height)):
        for sizes in (continued + begun, continued):
            for elsewhere in (0, 1):
                walked = _walk_steps(sizes.tolist(), (tokens[order] - elsewhere).tolist())
                if walked is not None:
                    back = np.empty_like(order)
                    back[order] = np.arange(len(order))
                    yield _Decoded(walked.joins[back], walked.leaves[back])


def _walk_steps(sizes: Sequence[int], tokens: Sequence[int]) -> _Decoded | None:
    """Who joins and leaves where, of requests with so many `tokens`, in the order of joining.

    `sizes` are the steps' numbers of requests; None where they do not fit.
    """
    rows = [row for row, size in enumerate(sizes) if size]
    joins, leaves = (np.zeros(len(tokens), dtype=np.int64) for _ in range(2))
    last: list[int] = []  # the step after which each running request leaves
    joined = 0
    for step, row in enumerate(rows):
        last = [one for one in last if one >= step]
        new = sizes[row] - len(last)
        if new < 0 or joined + new > len(tokens):
            return None
        for _ in range(new):
            until = step + tokens[joined] - 1
            if not step <= until < len(rows):
                return None
            joins[joined], leaves[joined] = row, rows[until]
            last.append(until)
            joined += 1
    return _Decoded(joins, leaves) if joined == len(tokens) else None


def _find_moved(
    steps: pl.DataFrame, decoded: _Decoded, moves: pl.DataFrame
) -> tuple[np.ndarray, str]:
    """When each request's keys and values had come, ns, and how that is known."""
    if moves.height == len(decoded.joins):
        moved = np.zeros(moves.height, dtype=np.int64)
        order = np.argsort(decoded.joins, kind="stable")
        moved[order] = moves["end_ns"].sort().to_numpy()
        return moved, TRANSFER
    took = steps.select(
        start_ns=pl.min_horizontal("start_ns", "host_start_ns"),
        end_ns=pl.max_horizontal("end_ns", "host_end_ns"),
    )
    begun = took["start_ns"].to_numpy()[decoded.joins]
    if moves.is_empty():
        return begun, STEP
    # Layer by layer they come beside the computation: as long as the step was held up by them.
    held = measure_cover_between(took, "start_ns", "end_ns", moves, []).to_numpy()
    return begun + held[decoded.joins], IN_STEP


def _fit_clocks(
    sent: np.ndarray, done: np.ndarray, moved: np.ndarray, left: np.ndarray, end: np.ndarray
) -> tuple[int, int]:
    """By how much the prefill and the decode server's clocks are moved, ns."""
    earliest, fastest = int(np.max(sent - done)), int(np.min(end - left))
    for decode in (0, fastest):
        latest = int(np.min(moved - done)) + decode
        if earliest <= 0 <= latest and decode <= fastest:
            return 0, decode
    return max(earliest, min(latest, 0)), fastest
