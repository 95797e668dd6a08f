"""Points of Prometheus' remote write: what a server, an agent or vmagent sends of what it scraped.

https://prometheus.io/docs/specs/prw/remote_write_spec/ (1.0): a WriteRequest of protobuf, packed
by snappy. A server sends all that it has; of it are kept the metrics of jobs, called as exporters
call them (`EXPORTED`) or, made by recording rules, by our own names in base units. Series of one
job on a node (`jobid`) are no figures of the node. Histograms and exemplars are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from sightline.cluster.names import Series, is_cluster, is_element, is_host
from sightline.cluster.points import HOUR_NS, MOST_POINTS, Batch, check_size
from sightline.core.job_metrics import EXPORTED, METRICS
from sightline.core.protobuf import (
    DamagedMessageError,
    declare_messages,
    decode_text,
    parse_message,
    read_messages,
)
from sightline.subjects.jobs.job import GPU, NODE
from sightline.subjects.jobs.prometheus import name_place

_MESSAGES = declare_messages(
    """\
Label: 1 name text, 2 value text
Sample: 1 value double, 2 timestamp int
Series: 1 labels []Label, 2 samples []Sample
"""
)
_SERIES = 1  # WriteRequest.timeseries
# Ours: a queue of Prometheus sends 2,000 samples at a time (queue_config), of 16 bytes each.
_MOST_BYTES = 1 << 20
_MOST_SERIES = 1_000_000
_MILLISECOND = 10**6
# Labels of series that are of a part of a node's work, and not of the node.
_OF_JOBS = ("jobid", "slurm_job_id")


def read_points(data: bytes, cluster: str, now_ns: int, oldest_ns: int = 0) -> Batch:
    """The points of an unpacked request. `cluster` is ours: what another one sent is refused.

    Raises ValueError for what is no such request, and for more than a million points or series.
    """
    batch = Batch()
    try:
        for count, message in enumerate(_list_series(data)):
            if count == _MOST_SERIES or len(batch.series) > MOST_POINTS:
                raise ValueError(f"a request has {MOST_POINTS:,} points at most")
            _add_series(batch, message, cluster, (oldest_ns, now_ns + HOUR_NS))
    except DamagedMessageError as error:
        raise ValueError(f"the request is not remote write 1.0: {error}") from error
    return batch


def _list_series(data: bytes) -> Iterator[Any]:
    for part in read_messages(BytesIO(data), _SERIES):
        if len(part) > _MOST_BYTES:
            raise ValueError(f"a series has over {_MOST_BYTES:,} bytes")
        yield parse_message(_MESSAGES["Series"], part)


def _add_series(batch: Batch, message: Any, cluster: str, span: tuple[int, int]) -> None:
    labels = {decode_text(one.name): decode_text(one.value) for one in message.labels}
    known = find_metric(labels.get("__name__", ""))
    if known is None or any(labels.get(name) for name in _OF_JOBS):
        return
    try:
        series = _name_series(known[0], labels, cluster)
    except ValueError as error:
        batch.refuse(str(error))
        return
    for sample in message.samples:
        if math.isnan(sample.value):  # a series that ended is marked by one
            continue
        at = sample.timestamp * _MILLISECOND
        try:
            if not span[0] <= at <= span[1]:
                raise ValueError("a time is outside the span that is kept")
            value = check_size(sample.value * known[1])
        except ValueError as error:
            batch.refuse(str(error))
            continue
        batch.series.append(series)
        batch.times.append(at)
        batch.values.append(value)


def find_metric(name: str) -> tuple[str, float] | None:
    """Our metric and what its numbers are multiplied by; None of one that is not kept."""
    return EXPORTED.get(name) or ((name, 1.0) if name in METRICS else None)


def _name_series(metric: str, labels: Mapping[str, str], cluster: str) -> Series:
    """Raises ValueError for names that cannot be used."""
    scope = GPU if metric.startswith("acc_") else NODE
    host, element = name_place(labels, scope)
    if scope == GPU and labels.get("GPU_I_ID"):
        element = f"{element}/{labels['GPU_I_ID']}"  # a MIG instance
    if not is_cluster(cluster) or labels.get("cluster", cluster) != cluster:
        raise ValueError("a series belongs to another cluster")
    if host is None or not is_host(host):
        raise ValueError("a series has no instance, or one that cannot be used")
    if (scope == GPU and not element) or not is_element(element or ""):
        raise ValueError("a GPU has a name that cannot be used, or none")
    return Series(cluster, host, metric, scope, element or "", METRICS[metric].unit)
