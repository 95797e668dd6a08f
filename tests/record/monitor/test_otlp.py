"""Metrics pushed as OTLP: what a collector is sent, and what is said when it does not take it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sightline.errors import RequestError
from sightline.record.monitor.exporter import OTEL, Collector
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.otlp import Pusher, encode, read_address
from sightline.record.monitor.readings import GPU, Device, Entity, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.pods import Pods


def make_collector(tmp_path: Path) -> Collector:
    latest = Latest({0: Device(0, "nvidia", "H100", "GPU-0")})
    values = {"power": 300.0, "energy": 5.0, "GPU utilization": 50.0}
    latest.put(Round(1, 1, [Reading(Entity(GPU, 0), 1, values)]))
    return Collector(latest, OTEL, "n", Pods(tmp_path))


def test_gauges_and_sums_are_as_the_protocol_has_them(tmp_path: Path) -> None:
    document = encode(make_collector(tmp_path).list_samples(), 7 * 10**18, "n")
    (group,) = document["resourceMetrics"]
    assert {"key": "host.name", "value": {"stringValue": "n"}} in group["resource"]["attributes"]
    metrics = {m["name"]: m for m in group["scopeMetrics"][0]["metrics"]}
    (point,) = metrics["hw_power_watts"]["gauge"]["dataPoints"]
    assert (point["asDouble"], point["timeUnixNano"]) == (300.0, "7000000000000000000")
    assert {"key": "hw_id", "value": {"stringValue": "GPU-0"}} in point["attributes"]
    energy = metrics["hw_energy_joules_total"]["sum"]
    assert energy["isMonotonic"] is True and energy["aggregationTemporality"] == 2
    assert energy["dataPoints"][0]["asDouble"] == 5.0


def test_an_address_gets_its_path_and_headers() -> None:
    told = read_address("http://ada:secret@c:4318", {"OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c,d=e"})
    assert told[0] == "http://c:4318/v1/metrics"
    assert told[1]["a"] == "b c" and told[1]["d"] == "e"
    assert told[1]["Authorization"].startswith("Basic ")
    assert read_address("https://c/otlp/v1/metrics", {})[0] == "https://c/otlp/v1/metrics"
    with pytest.raises(RequestError, match="not an address for OTLP"):
        read_address("c:4317", {})


def test_a_push_arrives_and_failures_are_said_once(tmp_path: Path) -> None:
    taken: list[tuple[str, dict[str, object]]] = []
    status = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.path, json.loads(body)))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    said: list[str] = []
    address = f"http://127.0.0.1:{server.server_port}"
    pusher = Pusher(address, make_collector(tmp_path), said.append, "n")
    pusher.push()
    status[0] = 503
    pusher.push()
    pusher.push()
    status[0] = 200
    pusher.close()
    server.shutdown()
    server.server_close()
    assert [path for path, _ in taken] == ["/v1/metrics"] * 4
    assert "resourceMetrics" in taken[0][1]
    assert [text.split(" (")[0] for text in said] == [
        "OTLP: the receiver does not accept metrics", "OTLP: the receiver accepts metrics again",
    ]  # fmt: skip
