"""What a daemon is asked to record: read from JSON that somebody sent, within bounds."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from sightline.errors import RequestError
from sightline.record.collect.frameworks import MAX_TORCH_S

MOST_BYTES = 65_536  # of a request's body: a handful of names
WANTED = ("shapes", "memory", "stacks")
_ID = re.compile(r"[0-9a-f]{16}")
_MOST_STEPS, _MOST_ALIGN, _MOST_LEAD_S = 1000, 1_000_000, 600.0
_MOST_RANKS = 4096


@dataclass(frozen=True)
class CaptureRequest:
    """One capture. `start_ms` is of the epoch, on the clock of the daemon that is asked.

    `id`: 16 hex digits that no other capture has, so that a request that comes twice is one
    capture. `job` None: all that listen. `ranks` and `pids` empty: all of the job.
    """

    id: str
    start_ms: int
    seconds: float
    warm_up_s: float
    job: str | None = None
    ranks: tuple[int, ...] = ()
    steps: int = 0
    align: int = 100
    wanted: tuple[str, ...] = ("shapes",)
    pids: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode()


def decode_request(body: bytes) -> CaptureRequest:
    """The request in a body. Raises RequestError for all that is not a whole one."""
    try:
        told = json.loads(body)
        request = CaptureRequest(
            id=_take(told, "id", str),
            start_ms=_take(told, "start_ms", int),
            seconds=float(_take(told, "seconds", (int, float))),
            warm_up_s=float(_take(told, "warm_up_s", (int, float))),
            job=None if told.get("job") is None else _take(told, "job", str)[:200],
            ranks=tuple(_check(rank, int) for rank in told.get("ranks", ())[:_MOST_RANKS]),
            steps=_take(told, "steps", int),
            align=_take(told, "align", int),
            wanted=tuple(_check(word, str) for word in told.get("wanted", ())[:8]),
            pids=tuple(_check(pid, int) for pid in told.get("pids", ())[:_MOST_RANKS]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RequestError("this is not a request for a capture", why=str(error)[:200]) from error
    problem = find_problem(request)
    if problem is not None:
        raise RequestError("this capture is not valid", why=problem)
    return request


def find_problem(request: CaptureRequest) -> str | None:
    """Why no daemon would take it, whatever its clock says; None where it may."""
    if not _ID.fullmatch(request.id):
        return "its id is not 16 hex digits"
    if not 0 <= request.steps <= _MOST_STEPS or not 1 <= request.align <= _MOST_ALIGN:
        return f"steps are 1 to {_MOST_STEPS:,}, from a multiple of 1 to {_MOST_ALIGN:,} on"
    if not request.steps and not 0.1 <= request.seconds <= MAX_TORCH_S:
        return f"a profiler keeps what it sees in memory: 100ms to {MAX_TORCH_S:g}s"
    if not 0 <= request.warm_up_s <= 60:
        return "a profiler warms up for 0 to 60 s"
    if not set(request.wanted) <= set(WANTED):
        return f"what is wanted must be one of {', '.join(WANTED)}"
    return None


def find_bad_start(start_ms: int, now_s: float) -> str | None:
    """Why a start is refused, as a request that was sent again has it; None where it is not."""
    lead = start_ms / 1000 - now_s
    if lead <= 0:
        return f"its start was {-lead:.1f} s ago"
    if lead > _MOST_LEAD_S:
        return f"its start is in {lead:.0f} s: {_MOST_LEAD_S:.0f} s at most"
    return None


def _take(told: Any, name: str, kind: Any) -> Any:
    return _check(told[name], kind)


def _check(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]!r} has the wrong type")
    return value
