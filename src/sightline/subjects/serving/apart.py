"""Prefill and decode on servers of their own: which request was where, by order alone.

The client's log says when each request was sent and answered. The prefill server computes prompts
in the order of sending: a request is done with the step by which as many prompt tokens were
computed as all requests up to it have. Its keys and values come to the decode server in that
order. There each step says how many requests it continues: what it has more than were left of the
step before are new ones, in that order, and each leaves after as many steps as it has tokens.

Clocks: the client's counts. A decode server's is moved so that the requests leave it when the
client has their last tokens (median); a prefill server's so far that no prompt is done before it
was sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.errors import MissingDataError
from sightline.subjects.serving.transfers import list_transfers

_HINT = (
    "Open both servers' traces and the client's log of the same requests:  "
    "sightline stats request_story PREFILL DECODE client.json"
)


class Story(NamedTuple):
    """The moments of each request (ns on the client's clock), and how far clocks were moved."""

    frame: pl.DataFrame
    prefill_rank: int
    decode_rank: int
    prefill_offset_ns: int
    decode_offset_ns: int


def tell_story(run: Run) -> Story:
    """Columns request_id, sent_ns, prefilled_ns, moved_ns, left_ns, end_ns of each request.

    Raises MissingDataError where the run is not of a server that prefills and one that decodes, or
    their requests are not the client's.
    """
    steps = run.ask("engine_steps")
    sums = steps.group_by("rank").agg(pl.col("prefill_tokens").sum(), pl.col("decode_tokens").sum())
    prefills = sums.filter(pl.col("prefill_tokens") > pl.col("decode_tokens"))
    decodes = sums.filter(pl.col("prefill_tokens") <= pl.col("decode_tokens"))
    if prefills.height != 1 or decodes.height != 1:
        raise MissingDataError(
            "prefill and decode are not apart",
            why=(
                f"{format_several(prefills.height, 'rank')} mostly prefill, and {decodes.height} "
                "mostly decode"
            ),
            hint=_HINT,
        )
    prefill, decode = int(prefills.item(0, "rank")), int(decodes.item(0, "rank"))
    asked = run.table("served_requests").drop_nulls(["start_ns", "end_ns", "prompt_tokens"])
    asked = asked.sort("start_ns", "request_id")
    done = _find_prefilled(steps.filter(pl.col("rank") == prefill), asked)
    tokens = asked["output_tokens"].fill_null(0).to_list()
    left = _find_left(steps.filter(pl.col("rank") == decode), tokens)
    moves = list_transfers(run).filter((pl.col("rank") == decode) & pl.col("is_in"))
    moved = moves.sort("end_ns").get_column("end_ns").to_numpy()
    counts = {"prompts done": len(done), "transfers": len(moved), "requests that left": len(left)}
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
    sent, end = asked["start_ns"].to_numpy(), asked["end_ns"].to_numpy()
    decode_offset = int(np.median(end - left))
    prefill_offset = max(int(np.max(sent - done)), 0)
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
    return Story(frame, prefill, decode, prefill_offset, decode_offset)


def _find_prefilled(steps: pl.DataFrame, asked: pl.DataFrame) -> np.ndarray:
    """When each prompt was computed, ns: the end of the step that reaches its last token."""
    ordered = steps.filter(pl.col("prefill_tokens") > 0).sort("start_ns")
    computed = ordered["prefill_tokens"].cum_sum().to_numpy()
    wanted = asked["prompt_tokens"].cum_sum().to_numpy()
    at = np.searchsorted(computed, wanted)
    reached = at < len(computed)
    ends: np.ndarray = ordered["end_ns"].to_numpy()[at[reached]]
    return ends


def _find_left(steps: pl.DataFrame, tokens: list[int]) -> np.ndarray:
    """When each request had its last token, ns; `tokens` of each, in the order in which they join.

    The decode server makes all of a request's tokens, or all but the first; empty where the steps'
    numbers of requests fit neither.
    """
    ordered = steps.filter(pl.col("decode_requests") > 0).sort("start_ns")
    sizes, ends = ordered["decode_requests"].to_list(), ordered["end_ns"].to_list()
    for first in (0, 1):
        left = _walk_steps(sizes, ends, [count - first for count in tokens])
        if left is not None:
            return left
    return np.array([], dtype=np.int64)


def _walk_steps(sizes: list[int], ends: list[int], tokens: list[int]) -> np.ndarray | None:
    left = np.zeros(len(tokens), dtype=np.int64)
    last: list[int] = []  # the step after which each running request leaves
    joined = 0
    for step, size in enumerate(sizes):
        last = [one for one in last if one >= step]
        new = size - len(last)
        if new < 0 or joined + new > len(tokens):
            return None
        for _ in range(new):
            until = step + tokens[joined] - 1
            if not step <= until < len(ends):
                return None
            left[joined] = ends[until]
            last.append(until)
            joined += 1
    return left if joined == len(tokens) else None
