"""Metrics pushed to a collector of OpenTelemetry: OTLP over HTTP, as JSON.

opentelemetry-proto, docs/specification.md ("OTLP/HTTP", JSON Protobuf Encoding): POST to
/v1/metrics; 64-bit times are strings. Headers come from OTEL_EXPORTER_OTLP_HEADERS, or the
address' user and password. A push that fails is said once and tried again with newer values; what
only grows is a cumulative sum.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from sightline.errors import RequestError
from sightline.record.monitor.exporter import Collector, Sample
from sightline.record.monitor.notices import StayHere, take_credentials

PERIOD_S = 15.0  # as often as Prometheus scrapes by many a configuration
_TIMEOUT_S = 10.0
_PATH = "/v1/metrics"
_CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def encode(samples: Iterable[Sample], now_ns: int, host: str) -> dict[str, Any]:
    """One request: a metric for each name, with a point for each thing that has a value."""
    metrics: dict[str, dict[str, Any]] = {}
    for name, text, kind, labels, value in samples:
        metric = metrics.setdefault(name, _begin(name, text, kind))
        body = metric.get("sum") or metric["gauge"]
        body["dataPoints"].append(
            {
                "attributes": _list_attributes(labels),
                "timeUnixNano": str(now_ns),
                "asDouble": value,
            }
        )
    resource = {"attributes": _list_attributes({"service.name": "sightline", "host.name": host})}
    scope = {"scope": {"name": "sightline.watch"}, "metrics": list(metrics.values())}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}


def _begin(name: str, text: str, kind: str) -> dict[str, Any]:
    points: dict[str, Any] = {"dataPoints": []}
    if kind == "counter":
        points |= {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
        return {"name": name, "description": text, "sum": points}
    return {"name": name, "description": text, "gauge": points}


def _list_attributes(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in labels.items()]


def read_address(url: str, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Where to push, and with which headers. Raises RequestError for what is not an address."""
    if not url.startswith(("http://", "https://")):
        raise RequestError(
            f"{url} is not an address for OTLP",
            why="it begins with http:// or https://",
            hint="--otlp http://127.0.0.1:4318",
        )
    address, headers = take_credentials(url)
    parts = urlsplit(address)
    if parts.path in ("", "/"):
        address = urlunsplit(parts._replace(path=_PATH))
    for pair in filter(None, environment.get(_HEADERS, "").split(",")):
        name, _, value = pair.partition("=")
        headers[name.strip()] = unquote(value.strip())
    return address, {"Content-Type": "application/json", **headers}


class Pusher:
    """Pushes what is known now and then, by a thread of its own, until `close`."""

    def __init__(
        self, url: str, collector: Collector, failed: Callable[[str], None], host: str
    ) -> None:
        self._address, self._headers = read_address(url, os.environ)
        self._collector, self._failed, self._host = collector, failed, host
        self._opener = urllib.request.build_opener(StayHere)
        self._is_failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-otlp")
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self.push()

    def push(self) -> None:
        """Push once; that it fails is said once, and that it works again, too."""
        document = encode(self._collector.list_samples(), time.time_ns(), self._host)
        request = urllib.request.Request(  # noqa: S310  # read_address lets HTTP through only
            self._address, json.dumps(document).encode(), self._headers
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S):
                pass
        except (OSError, HTTPException) as error:
            if not self._is_failing:
                self._failed(f"OTLP: the receiver does not accept metrics ({error}); retrying")
            self._is_failing = True
        else:
            if self._is_failing:
                self._failed("OTLP: the receiver accepts metrics again")
            self._is_failing = False

    def close(self) -> None:
        """Push what is known last."""
        self._ended.set()
        self._thread.join(_TIMEOUT_S + 1)
        self.push()
