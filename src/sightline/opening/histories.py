"""A history of `sightline watch` beside traces of the same host: joined on time and device.

Both carry the wall clock. Of a history that goes on for weeks the part counts in which the traces'
GPUs worked, with some readings on either side: a meter covers the first and the last step, and
shows what an idle GPU draws.
Where the two do not overlap, or it is not clear whose devices are whose, nothing is joined, and the
run says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.run import Run
from sightline.core.model.store import Part, Watched
from sightline.core.model.tables import load_table
from sightline.timeline.use_thresholds import IDLE_PCT

HISTORY = "watch_history"
# Times below this are no dates but counted from some start: 1 January 2001.
_EPOCH_NS = 978_307_200_000_000_000
_READINGS = 8  # two for the ends of the meter, two away from the work, the others for idle power
_USES = ("SM active", "GPU utilization")
_NOTHING = Watched((0, -1), ())


class _Traced(NamedTuple):
    """What traces tell of the job: its places (rank, device), and from when to when they worked."""

    places: list[tuple[int, int]]
    start_ns: int
    end_ns: int


def join_histories(run: Run) -> Run:
    """The run with each history cut to what belongs to the traces, under their ranks and devices.

    A run without both is given back as it is.
    """
    histories = [part for part in run.parts if part.facts.get("format") == HISTORY]
    if not histories or not run.rows("device_ops"):
        return run
    span = (
        run.scan("device_ops")
        .group_by("rank", "device_id")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("rank", "device_id")
        .collect()
    )
    first, last = span.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    traced = _Traced(span.select("rank", "device_id").rows(), first, last)
    uuids = _read_uuids([part for part in run.parts if part not in histories])
    parts = [_join(part, traced, uuids) if part in histories else part for part in run.parts]
    return Run(parts)


def _join(part: Part, traced: _Traced, uuids: dict[tuple[int, int], str]) -> Part:
    counters = part.scan(load_table("counters"))
    times = pl.Series(dtype=pl.Int64)
    if counters is not None:
        times = counters.select(pl.col("time_ns").unique().sort()).collect().to_series()
    if times.is_empty() or times[0] > traced.end_ns or times[-1] < traced.start_ns:
        return _refuse(part, _explain_apart(times, traced))
    begin = max(int(times.search_sorted(traced.start_ns, "left")) - _READINGS, 0)
    end = min(int(times.search_sorted(traced.end_ns, "right")) + _READINGS, times.len()) - 1
    assert counters is not None
    uses = _average_use(counters, traced)
    numbers = sorted(uses)
    found = _match_by_uuid(part, traced, uuids)
    how = "by UUID"
    if not found:
        found, how = _match_by_number(numbers, traced)
    if not found:
        return _refuse(part, f"{how}, so nothing of it is joined to the trace")
    idle = [n for n, *_ in found if (use := uses.get(n)) is not None and use <= IDLE_PCT]
    busy = [
        n for n, use in uses.items() if use and use > IDLE_PCT and n not in {f[0] for f in found}
    ]
    if idle and busy and how != "by UUID":
        text = (
            f"GPU {idle[0]} of the history was idle while the traced GPU worked, and GPU {busy[0]} "
            "was not: the trace may number its GPUs from CUDA_VISIBLE_DEVICES, so nothing is joined"
        )
        return _refuse(part, text)
    names = ", ".join(f"GPU {device} of rank {rank} = GPU {n}" for n, rank, device in found[:4])
    more = f", and {len(found) - 4} more" if len(found) > 4 else ""
    note = Quality(
        "history_joined", "info", f"joined with the history on time; {how}: {names}{more}"
    )
    watched = Watched((times[begin], times[end]), tuple(found))
    return replace(_note(part, note), watched=watched)


def _read_uuids(parts: Sequence[Part]) -> dict[tuple[int, int], str]:
    """UUIDs of the traces' devices, where they are kept."""
    found: dict[tuple[int, int], str] = {}
    for part in parts:
        devices = part.scan(load_table("devices"))
        if devices is not None:
            rows = devices.select("rank", "device_id", "uuid").drop_nulls().collect().rows()
            found |= {(rank, device): _plain(uuid) for rank, device, uuid in rows}
    return found


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-")


def _match_by_uuid(
    part: Part, traced: _Traced, uuids: dict[tuple[int, int], str]
) -> list[tuple[int, int, int]]:
    mine = {uuid: device for (_, device), uuid in _read_uuids([part]).items()}
    known = [(mine.get(uuids.get(place, "")), place) for place in traced.places]
    return [(number, *place) for number, place in known if number is not None]


def _match_by_number(numbers: list[int], traced: _Traced) -> tuple[list[tuple[int, int, int]], str]:
    """Devices of the same number; of ranks that all use one number, devices in order of rank."""
    used = [device for _, device in traced.places]
    if len(set(used)) == len(used) and set(used) <= set(numbers):
        return [(device, rank, device) for rank, device in traced.places], "by number"
    if len(set(used)) == 1 and len(used) == len(numbers):
        pairs = zip(numbers, traced.places, strict=True)
        return [(number, *place) for number, place in pairs], "by order of ranks"
    return [], "which GPUs of the history the traced ones are is not clear"


def _average_use(counters: pl.LazyFrame, traced: _Traced) -> dict[int, float | None]:
    """Each device of a history with the mean of its use while the traced GPUs worked."""
    inside = pl.col("time_ns").is_between(traced.start_ns, traced.end_ns)
    use = pl.col("value").filter(inside, pl.col("metric").is_in(_USES))
    rows = (
        counters.filter(pl.col("device_id").is_not_null(), pl.col("source").is_null())
        .group_by("device_id")
        .agg(use=use.mean())
        .collect()
    )
    return dict(rows.rows())


def _explain_apart(times: pl.Series, traced: _Traced) -> str:
    if times.is_empty():
        return "the history has no readings to join to the trace"
    if traced.start_ns < _EPOCH_NS:
        return "the trace's times are not dates, so nothing of the history is joined to it"
    return (
        f"the history covers {_date(times[0])} to {_date(times[-1])}, and the trace "
        f"{_date(traced.start_ns)} to {_date(traced.end_ns)} (UTC): nothing is joined"
    )


def _date(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}"


def _refuse(part: Part, text: str) -> Part:
    remedy = "Give recordings of one host and one time, or look at each by itself."
    note = Quality("history_not_joined", "warning", text, None, remedy)
    return replace(_note(part, note), watched=_NOTHING)


def _note(part: Part, note: Quality) -> Part:
    quality = [*part.facts.get("quality", ()), vars(note)]
    return replace(part, facts={**part.facts, "quality": quality})
