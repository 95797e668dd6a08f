"""/metrics for Prometheus: DCGM's names for NVIDIA GPUs, or names after OpenTelemetry.

`dcgm` has the names and labels of dcgm-exporter, so that dashboards and alerts that were written
for it work as they are: `Hostname` and `hostname` (it changed in 2026) are both there. What DCGM
has no name for, processes, and other vendors' GPUs, are `sightline_*` with Prometheus' units.
`otel` has hw.* of OpenTelemetry's semantic conventions in Prometheus' spelling, and `sightline_*`
for the rest. In Kubernetes processes have the labels of their pod, and so has a GPU that one pod
alone uses; under Slurm `hpc_job`, dcgm-exporter's label, is the number of the job.

Only current values are there: a metric without a reading has no line, and never a zero.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric as Family

from sightline.core.bounded_server import BoundedHandler, BoundedServer, is_own_host
from sightline.core.watched_metrics import COUNTER, METRICS, Metric
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import (
    GPU,
    HOST,
    INSTANCE,
    LINK,
    PROCESS,
    Device,
    Entity,
    read_pid,
)
from sightline.record.pods import Pod, Pods
from sightline.record.slurm_jobs import SlurmJobs

DCGM, OTEL = "dcgm", "otel"
# Our unit: Prometheus' (https://prometheus.io/docs/practices/naming/#base-units), its factor.
_UNITS = {
    "W": ("_watts", 1.0), "J": ("_joules", 1.0), "MHz": ("_hertz", 1e6), "bytes": ("_bytes", 1.0),
    "%": ("_ratio", 0.01), "C": ("_celsius", 1.0), "ns": ("_seconds", 1e-9),
    "bytes/s": ("_bytes_per_second", 1.0), "flop/s": ("_flop_per_second", 1.0),
}  # fmt: skip
_KINDS = {GPU: "gpu", INSTANCE: "gpu", PROCESS: "process", HOST: "host", LINK: "link"}
_INSTANCE = re.compile(r"^MIG (\d+)(?: \((.*)\))?$")
# OpenTelemetry's names in Prometheus' spelling: unit as a suffix, _total for what only grows.
_OTEL_UNITS = {"hw.power": "_watts", "hw.energy": "_joules", "hw.gpu.memory.usage": "_bytes",
               "hw.gpu.memory.limit": "_bytes", "hw.gpu.utilization": "_ratio",
               "system.cpu.utilization": "_ratio"}  # fmt: skip

Sample = tuple[str, str, str, dict[str, str], float]  # name, help, type, labels, value


class Collector:
    """What Prometheus is told, made anew for each scrape."""

    def __init__(
        self,
        latest: Latest,
        names: str = DCGM,
        host: str | None = None,
        pods: Pods | None = None,
        jobs: SlurmJobs | None = None,
    ) -> None:
        self._latest, self._names = latest, names
        self._pods = Pods() if pods is None else pods
        self._jobs = SlurmJobs() if jobs is None else jobs
        self._host = socket.gethostname() if host is None else host

    def describe(self) -> Iterable[Family]:
        """Nothing is known before it is read."""
        return ()

    def collect(self) -> Iterator[Family]:
        """A family for each name, with a sample for each thing that has a value."""
        families: dict[str, Family] = {}
        for name, text, kind, labels, value in self.list_samples():
            # The library ends a counter's name with _total; DCGM's names have no such end.
            family = families.setdefault(name, Family(name.removesuffix("_total"), text, kind))
            family.add_sample(name, labels, value)
        yield from families.values()

    def list_samples(self) -> Iterator[Sample]:
        """Name, help, type, labels and value of each thing that has one now."""
        latest = self._latest
        owners = self._find_owners()
        for kind in _KINDS:
            for entity in latest.list_entities(kind):
                device = latest.devices.get(-1 if entity.device_id is None else entity.device_id)
                for metric_name, value in latest.values(entity).items():
                    metric = METRICS.get(metric_name)
                    if metric is not None:
                        name, text, kind_, labels, value_ = self._name_sample(
                            metric, entity, device, value
                        )
                        yield name, text, kind_, labels | owners.get(entity, {}), value_
        text = "time that one round of readings took"
        yield "sightline_watch_round_seconds", text, "gauge", {}, latest.cost_ns / 1e9

    def _find_owners(self) -> dict[Entity, dict[str, str]]:
        """Labels of the pod or job of processes, and of GPUs whose processes are all of one."""
        owners: dict[Entity, dict[str, str]] = {}
        on_gpu: dict[int | None, list[int]] = {}
        for entity in self._latest.list_entities(PROCESS):
            pid = read_pid(entity)
            on_gpu.setdefault(entity.device_id, []).append(pid)
            labels = _label_owner(self._pods.find(pid), self._jobs.find(pid))
            owners[entity] = {"pid": str(pid)} | labels
        for device_id, pids in on_gpu.items():
            labels = _label_owner(self._pods.find_all(pids), self._jobs.find_all(pids))
            if labels:
                owners[Entity(GPU, device_id)] = labels
        return owners

    def _name_sample(
        self, metric: Metric, entity: Entity, device: Device | None, value: float
    ) -> Sample:
        # DCGM's and OpenTelemetry's names are of whole GPUs: a process has names of its own.
        is_process = entity.kind == PROCESS
        is_nvidia = device is not None and device.vendor == "nvidia" and not is_process
        if self._names == DCGM and is_nvidia and metric.dcgm is not None:
            labels = self._label_as_dcgm(entity, device)
            kind = "unknown" if metric.kind == COUNTER else "gauge"
            return f"DCGM_FI_{metric.dcgm}", metric.help, kind, labels, value * metric.dcgm_scale
        if self._names == OTEL and metric.otel is not None and not is_process:
            name = metric.otel.replace(".", "_") + _OTEL_UNITS.get(metric.otel, "")
            name += "_total" if metric.kind == COUNTER else ""
            labels = self._label(entity, device, "hw_id") | {
                key.replace(".", "_"): text for key, text in metric.otel_labels
            }
            return name, metric.help, metric.kind, labels, value * metric.otel_scale
        suffix, scale = _UNITS.get(metric.unit, ("", 1.0))
        words = re.sub(r"[^a-z0-9]+", "_", metric.name.lower()).strip("_")
        prefix = _KINDS[entity.kind]
        words = words.removeprefix(f"{prefix}_")
        name = f"sightline_{prefix}_{words}{suffix}" + ("_total" if metric.kind == COUNTER else "")
        return name, metric.help, metric.kind, self._label(entity, device, "gpu"), value * scale

    def _label_as_dcgm(self, entity: Entity, device: Device | None) -> dict[str, str]:
        assert device is not None
        labels = {
            "gpu": str(device.device_id),
            "UUID": device.uuid,
            "pci_bus_id": device.pci_bus_id,
            "device": f"nvidia{device.device_id}",
            "modelName": device.name,
            "Hostname": self._host,
            "hostname": self._host,
            "DCGM_FI_DRIVER_VERSION": device.driver,
        }
        found = _INSTANCE.match(entity.source or "")
        if found is not None:
            labels |= {"GPU_I_ID": found[1], "GPU_I_PROFILE": found[2] or ""}
        return labels

    def _label(self, entity: Entity, device: Device | None, key: str) -> dict[str, str]:
        labels = {"host": self._host}
        if device is not None:
            labels |= {key: device.uuid or str(device.device_id), "model": device.name}
            labels |= {"hw_type": "gpu"} if key == "hw_id" else {}
        if entity.source is not None and entity.kind != PROCESS:
            labels["part"] = entity.source
        return labels


def _label_owner(pod: Pod | None, job: str | None) -> dict[str, str]:
    return ({} if pod is None else pod.label()) | ({} if job is None else {"hpc_job": job})


class _Server(BoundedServer, WSGIServer):
    """Prometheus' application behind an address."""


class _Handler(BoundedHandler, WSGIRequestHandler):
    timeout = 10  # s: a client that connects and says nothing holds no thread for ever

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""


def make_exporter(
    collector: Collector, host: str, port: int, token: str | None = None
) -> WSGIServer:
    """A server of /metrics, not started yet; with a token it answers to no one without. OSError.

    On a loopback address it answers no page of the web, whose Host is a name that somebody made
    resolve to this machine; on another one Prometheus calls it by whatever name it has.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    metrics = make_wsgi_app(registry)

    loopback_only = _is_loopback(host)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        named = str(environ.get("HTTP_HOST", "localhost"))
        if loopback_only and not is_own_host(named, loopback_only=True):
            start("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"The request names another host.\n"]
        if environ.get("PATH_INFO") not in ("/metrics", "/"):
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"Metrics are at /metrics.\n"]
        given = str(environ.get("HTTP_AUTHORIZATION", ""))
        if token is not None and not hmac.compare_digest(
            given.encode(), f"Bearer {token}".encode()
        ):
            start("401 Unauthorized", [("WWW-Authenticate", "Bearer")])
            return [b"A token is asked for: Authorization: Bearer TOKEN\n"]
        return metrics(environ, start)  # type: ignore[no-any-return]

    return make_server(host, port, answer, server_class=_Server, handler_class=_Handler)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
