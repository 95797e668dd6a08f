"""What a probe counts, for Prometheus: under the names of Grafana Beyla and OpenTelemetry's OBI.

Their names (open-telemetry/opentelemetry-ebpf-instrumentation, internal/test/integration/
gpu_cuda_test.go and pkg/export/attributes/metric.go) are gpu_cuda_*; what they have no name for is
sightline_probe_*. Grids and blocks are products of x, y and z, as there. Kernels by name are the
most frequent ones only, and the rest together: a program may launch thousands of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from sightline.core.cxx_names import demangle
from sightline.record.pods import Pod, Pods
from sightline.record.probe.backend import BLOCK_SIZE, COPY_SIZE, GRID_SIZE, SUM, Backend, Size
from sightline.record.probe.session import Session

MOST_KERNELS = 50
# OBI's values of cuda.memcpy.kind; 5 is ours, for calls that name two devices.
_COPIES = {
    0: "MemcpyHostToHost", 1: "MemcpyHostToDevice", 2: "MemcpyDeviceToHost",
    3: "MemcpyDeviceToDevice", 4: "Default", 5: "MemcpyPeerToPeer",
}  # fmt: skip
_WHO = ["process_pid", "service_name"]
# Of programs in Kubernetes, as OBI has them.
_POD = ["k8s_namespace_name", "k8s_pod_name", "k8s_container_name"]
# Sums of a kind of function: OBI's name without _total, its help, the kind or name, what is added.
_SUMS = (
    ("gpu_cuda_graph_launch_calls", "CUDA graph launches", "graph", "entered"),
    ("gpu_cuda_memory_allocations_bytes", "bytes allocated", "allocate", "bytes"),
    ("gpu_cuda_memset_bytes", "bytes set", "fill", "bytes"),
    ("gpu_cuda_stream_synchronize_calls", "waits for a stream", "StreamSynchronize", "entered"),
    ("gpu_cuda_device_synchronize_calls", "waits for a device", "DeviceSynchronize", "entered"),
    ("gpu_cuda_event_synchronize_calls", "waits for an event", "EventSynchronize", "entered"),
)
_Who = tuple[str, ...]


class ProbeCollector:
    """What Prometheus is told, made anew for each scrape."""

    def __init__(
        self, session: Session, backend: Backend, call_cost_ns: float, pods: Pods | None = None
    ) -> None:
        self._session, self._backend, self._cost_ns = session, backend, call_cost_ns
        self._pods = Pods() if pods is None else pods
        self._who = _WHO
        self._reading = Lock()
        self._closed = False

    def close(self) -> None:
        """Wait for a scrape that reads now; none reads afterwards, when the backend is closed."""
        with self._reading:
            self._closed = True

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before it is read."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families that have a value."""
        with self._reading:
            return iter([] if self._closed else list(self._list_families()))

    def _list_families(self) -> Iterator[Metric]:
        pods = map(self._pods.find, self._session.processes)
        self._who = [*_WHO, *_POD] if any(pods) else _WHO
        launches = Counter[_Who]()
        kernels = Counter[tuple[_Who, str]]()
        for (pid, name), count in self._session.count_kernels().items():
            launches[self._name_process(pid)] += count
            kernels[self._name_process(pid), demangle(name)] += count
        family = CounterMetricFamily(
            "gpu_cuda_kernel_launch_calls", "kernel launches", labels=self._who
        )
        for who, count in launches.items():
            family.add_metric(who, count)
        yield family
        yield from self._sum_totals()
        yield from self._list_sizes(self._backend.read_sizes())
        yield _list_kernels(kernels, self._who)
        yield GaugeMetricFamily(
            "sightline_probe_call_cost_seconds",
            "how much longer a probed call takes, measured when the probe began",
            self._cost_ns / 1e9,
        )

    def _name_process(self, pid: int) -> _Who:
        process = self._session.processes.get(pid)
        own = str(pid), process.name if process is not None else ""
        return own if self._who is _WHO else (*own, *(self._pods.find(pid) or Pod("", "")))

    def _sum_totals(self) -> Iterator[Metric]:
        functions = self._session.functions
        totals = {
            (pid, functions[number]): sums
            for (pid, number), sums in self._backend.read_totals().items()
            if number < len(functions)
        }
        for name, text, of, what in _SUMS:
            found = Counter[_Who]()
            for (pid, function), sums in totals.items():
                # Of the runtime only, where it is there: what it asks of the driver is the same.
                is_meant = function.kind == of or function.name.endswith(of)
                if is_meant and function.layer == "runtime":
                    found[self._name_process(pid)] += sums[what]
            family = CounterMetricFamily(name, text, labels=self._who)
            for who, value in found.items():
                family.add_metric(who, value)
            yield family
        for name, text, what, scale in (
            ("sightline_probe_calls", "calls", "entered", 1.0),
            ("sightline_probe_call_seconds", "time in calls that returned", "duration_ns", 1e-9),
            ("sightline_probe_call_errors", "calls that did not return 0", "failed", 1.0),
            ("sightline_probe_lost_calls", "calls without a row in the file", "lost", 1.0),
        ):
            family = CounterMetricFamily(name, text, labels=[*self._who, "function"])
            for (pid, function), sums in totals.items():
                family.add_metric((*self._name_process(pid), function.name), sums[what] * scale)
            yield family

    def _list_sizes(self, sizes: list[Size]) -> Iterator[Metric]:
        for name, text, first, last in (
            ("gpu_cuda_kernel_grid_size", "blocks of a launch", GRID_SIZE, GRID_SIZE),
            ("gpu_cuda_kernel_block_size", "threads of a block", BLOCK_SIZE, BLOCK_SIZE),
            ("gpu_cuda_memory_copies_bytes", "bytes of a copy", COPY_SIZE, COPY_SIZE + 7),
        ):
            labels = self._who if first == last else [*self._who, "cuda_memcpy_kind"]
            family = HistogramMetricFamily(name, text, labels=labels)
            mine = [size for size in sizes if first <= size.what <= last]
            for pid, what in dict.fromkeys((size.pid, size.what) for size in mine):
                counts = {s.bucket: s.amount for s in mine if (s.pid, s.what) == (pid, what)}
                total = counts.pop(SUM, 0)
                buckets, below = [], 0
                for bucket in range(max(counts, default=0) + 1):
                    below += counts.get(bucket, 0)
                    buckets.append((str(float(1 << bucket)), below))
                who: tuple[str, ...] = self._name_process(pid)
                if first != last:
                    who = (*who, _COPIES.get(what - first, "Default"))
                family.add_metric(who, [*buckets, ("+Inf", below)], total)
            yield family


def _list_kernels(kernels: Counter[tuple[_Who, str]], who_labels: list[str]) -> Metric:
    family = CounterMetricFamily(
        "sightline_probe_kernel_launches",
        f"launches of the {MOST_KERNELS} most frequent kernels, and of all others together",
        labels=[*who_labels, "kernel"],
    )
    others = Counter[_Who]()
    for place, ((who, name), count) in enumerate(kernels.most_common()):
        if place < MOST_KERNELS:
            family.add_metric((*who, name), count)
        else:
            others[who] += count
    for who, count in others.items():
        family.add_metric((*who, "other kernels"), count)
    return family
