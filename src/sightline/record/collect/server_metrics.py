"""Asks an inference server for its metrics, again and again, within bounds of time and size.

vLLM and SGLang (with --enable-metrics) answer at /metrics; TensorRT-LLM at /prometheus/metrics,
and at /metrics with a list of iterations (trtllm-serve's documentation).
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sightline.errors import InputError
from sightline.record.collect.server_api import split_url
from sightline.subjects.serving.live.reading import (
    Interval,
    Reading,
    compare_readings,
    read_metrics,
)

PLACES = ("metrics", "metrics/", "prometheus/metrics", "prometheus/metrics/")
ANSWER_S = 5.0
# vLLM's metrics of one engine have 55 kB (own_vllm_cpu); a server with hundreds stays within that.
MOST_BYTES = 32 << 20
_PIECE = 1 << 16
_NO_METRICS = (
    "vLLM serves them unless it was started with --disable-log-stats; SGLang needs "
    "--enable-metrics; trtllm-serve serves /prometheus/metrics with return_perf_metrics: true"
)


@dataclass(frozen=True)
class Bounds:
    """How long an answer may take, s, and how large it may be, bytes."""

    seconds: float = ANSWER_S
    most_bytes: int = MOST_BYTES


def fetch_reading(url: str, bounds: Bounds | None = None) -> Reading:
    """What the server says now. Raises RequestError for no address, InputError for no metrics."""
    bounds = bounds or Bounds()
    end = time.monotonic() + bounds.seconds
    seen = []
    for place in PLACES:
        status, text = _fetch(url, place, end, bounds)
        seen.append(f"/{place}: HTTP {status}")
        if status != 200:
            continue
        reading = read_metrics(text, time.monotonic())
        if reading is not None:
            return reading
        seen[-1] = f"/{place}: no metric of vLLM, SGLang or TensorRT-LLM"
    raise InputError(f"{url} serves no metrics of an engine", why="; ".join(seen), hint=_NO_METRICS)


def _fetch(url: str, place: str, end: float, bounds: Bounds) -> tuple[int, str]:
    """Status and text of one place. What lasts longer is cut off, and what is larger refused."""
    parts = split_url(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    left = end - time.monotonic()
    connection = kind(parts.hostname or "", parts.port, timeout=max(left, 0.01))
    late = threading.Event()
    timer = threading.Timer(max(left, 0.01), late.set)
    try:
        connection.connect()
        # Held here: http.client gives it away as soon as the answer begins.
        timer = threading.Timer(max(end - time.monotonic(), 0.01), _cut, (connection.sock, late))
        timer.daemon = True
        timer.start()
        connection.request("GET", f"{parts.path.rstrip('/')}/{place}")
        with connection.getresponse() as answer:
            text = _read_bounded(answer, url, place, bounds)
        if late.is_set():  # what was cut off looks like an end
            raise TimeoutError
        return answer.status, text
    except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
        why = str(error) or type(error).__name__
        if late.is_set() or isinstance(error, TimeoutError):
            why = f"no whole answer within {bounds.seconds:g} s"
        raise InputError(
            f"{url} does not answer",
            why=why,
            hint="Check the address, and that the server has started.",
        ) from error
    finally:
        timer.cancel()
        connection.close()


def _cut(sock: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _read_bounded(answer: http.client.HTTPResponse, url: str, place: str, bounds: Bounds) -> str:
    pieces, size = [], 0
    while piece := answer.read1(_PIECE):
        size += len(piece)
        if size > bounds.most_bytes:
            raise InputError(
                f"{url}/{place} is larger than {bounds.most_bytes >> 20} MiB",
                why="no engine's metrics are that large",
                hint="Is it an inference server?",
            )
        pieces.append(piece)
    if answer.length:  # of the length that it announced, so much is missing
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces).decode("utf-8", errors="replace")


def watch_server(
    url: str,
    interval_s: float,
    wait: Callable[[float], bool],
    say: Callable[[str], None],
    bounds: Bounds | None = None,
) -> Iterator[Interval]:
    """What the server did in each interval, until `wait` says that it is over.

    `wait(seconds)` sleeps and returns whether to go on. A server that stops answering is said once,
    and waited for; the first reading must succeed: RequestError or InputError else.
    """
    before = fetch_reading(url, bounds)
    lost = False
    while wait(interval_s):
        try:
            after = fetch_reading(url, bounds)
        except InputError as error:
            if not lost:
                say(f"{error.what}: {error.why}; asking again every {interval_s:g} s")
            lost = True
            continue
        if lost:
            say("it answers again")
            lost = False
        yield compare_readings(before, after)
        before = after
