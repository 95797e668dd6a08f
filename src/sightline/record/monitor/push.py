"""Readings pushed as line protocol, as ClusterCockpit's collectors push theirs.

To `sightline cluster serve` (POST /write), cc-backend (/api/write) or InfluxDB (/api/v2/write). The
metrics that jobs are judged by have ClusterCockpit's names and units (core/job_metrics.py), others
their own; `unit` is a tag, since a name does not say it. Each reading is sent once: what could not
be sent is sent with the next ones, an hour's worth at most.
"""

from __future__ import annotations

import gzip
import re
import socket
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from http.client import HTTPException
from urllib.parse import urlsplit, urlunsplit

from sightline.core.job_metrics import METRICS as JOB_METRICS
from sightline.core.job_metrics import SUM, find_job_metric
from sightline.core.line_protocol import write_line
from sightline.core.watched_metrics import METRICS
from sightline.errors import RequestError
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.notices import StayHere, take_credentials
from sightline.record.monitor.readings import GPU, HOST, LINK

PERIOD_S = 10.0  # cc-metric-collector's interval
_TIMEOUT_S = 10.0
_KEPT = 360  # batches: an hour of them
# Of the sources `cpu` and `rapl`.
_PART = re.compile(
    r"CPU (?P<cpu>\d{1,5})|socket (?P<socket>\d{1,3})|package-(?P<package>\d{1,3})(?P<dram> dram)?"
)
_LETTERS = {1e9: "G", 1e6: "M"}
_BASES = {"bytes": "B", "bytes/s": "B/s", "flop/s": "F/s"}


def list_lines(latest: Latest, host: str, now_s: int) -> Iterator[str]:
    """A line of each metric of the host and of each GPU that has a value now."""
    for entity in latest.list_entities(GPU):
        tags = {"hostname": host, "type": "accelerator", "type-id": str(entity.device_id)}
        for name, value in latest.values(entity).items():
            yield _write(name, tags, value, now_s)
    node = {"hostname": host, "type": "node"}
    for entity in latest.list_entities(HOST):
        kind, number, power = _place(entity.source)
        if not kind:
            continue
        tags = node if kind == "node" else {"hostname": host, "type": kind, "type-id": number}
        for name, value in latest.values(entity).items():
            if not power:
                yield _write(name, tags, value, now_s)
            elif name == "power":  # its energy is the integral of it
                yield write_line(power, {**tags, "unit": "W"}, float(value), now_s)
    sums: dict[str, float] = {}
    for entity in latest.list_entities(LINK):
        for name, value in latest.values(entity).items():
            ours = find_job_metric(METRICS[name].plain) if name in METRICS else name
            if ours in JOB_METRICS and JOB_METRICS[ours].adds == SUM:
                sums[name] = sums.get(name, 0.0) + value
    for name, value in sums.items():
        yield _write(name, node, value, now_s)


def _place(source: str | None) -> tuple[str, str, str]:
    """ClusterCockpit's type and number of a part of the host; of RAPL's, what its power is called.

    Empty where it has none: parts of a package (core, uncore), and the whole of a machine (psys).
    """
    if source is None:
        return "node", "", ""
    match = _PART.fullmatch(source)
    if match is None:
        return "", "", ""
    if match["cpu"]:
        return "hwthread", match["cpu"], ""
    if match["socket"]:
        return "socket", match["socket"], ""
    return "socket", match["package"], "mem_power" if match["dram"] else "cpu_power"


def _write(name: str, tags: dict[str, str], value: float, now_s: int) -> str:
    metric = METRICS.get(name)
    plain = metric.plain if metric is not None else name
    ours = find_job_metric(plain)
    unit = metric.unit if metric is not None else ""
    known = JOB_METRICS.get(ours)
    if known is None or known.unit != unit or unit not in _BASES:
        return write_line(ours, {**tags, "unit": unit}, float(value), now_s)
    letter = _LETTERS.get(known.per, "")
    word = letter + _BASES[unit]
    per = known.per if letter else 1.0
    return write_line(ours, {**tags, "unit": word}, value / per, now_s)


def read_address(url: str, token: str | None) -> tuple[str, dict[str, str]]:
    """Where to push, and with which headers. Raises RequestError for what is not an address."""
    if not url.startswith(("http://", "https://")):
        raise RequestError(
            f"{url} is not an address to push to",
            why="it begins with http:// or https://",
            hint="--push http://cluster:8270",
        )
    address, headers = take_credentials(url)
    parts = urlsplit(address)
    if parts.path in ("", "/"):
        address = urlunsplit(parts._replace(path="/write"))
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return address, {"Content-Type": "text/plain", "Content-Encoding": "gzip", **headers}


class LinePusher:
    """Pushes what is known each ten seconds, by a thread of its own, until `close`."""

    def __init__(
        self,
        url: str,
        token: str | None,
        latest: Latest,
        failed: Callable[[str], None],
        host: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address, self._headers = read_address(url, token)
        self._latest, self._failed, self._clock = latest, failed, clock
        self._host = host or socket.gethostname().split(".")[0]
        self._opener = urllib.request.build_opener(StayHere)
        self._waiting: deque[bytes] = deque(maxlen=_KEPT)
        self._is_failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-push")
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self.push()

    def push(self) -> None:
        """Push once, and what waits; that it fails is said once, and that it works again, too."""
        lines = list(list_lines(self._latest, self._host, int(self._clock())))
        if lines:
            self._waiting.append("\n".join(lines).encode())
        while self._waiting:
            body = gzip.compress(self._waiting[0], compresslevel=1, mtime=0)
            request = urllib.request.Request(self._address, body, self._headers)  # noqa: S310
            try:
                with self._opener.open(request, timeout=_TIMEOUT_S):
                    pass
            except (OSError, HTTPException) as error:
                if not self._is_failing:
                    self._failed(f"Push: the receiver does not accept readings ({error}); retrying")
                self._is_failing = True
                return
            self._waiting.popleft()
            if self._is_failing:
                self._failed("Push: the receiver accepts readings again")
            self._is_failing = False

    def close(self) -> None:
        """Push what is known last."""
        self._ended.set()
        self._thread.join(_TIMEOUT_S + 1)
        self.push()
