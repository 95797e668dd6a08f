"""Points of a batch of lines: which series each is of, when, and its value in our units."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sightline.cluster.names import SCOPES, Series, is_cluster, is_element, is_host, is_metric
from sightline.core.job_metrics import METRICS, name_job_metric, split_unit
from sightline.core.line_protocol import (
    PRECISIONS,
    read_fields,
    read_head,
    read_time_ns,
    split_line,
)

HOUR_NS = 3600 * 10**9
_REASONS = 5  # of lines that are refused, as many are said
_CACHED = 1_000_000
CACHED_BYTES = 256 << 20
# Of a request, ours: one of cc-metric-collector has some thousand, 64 MiB of its lines 800,000.
MOST_POINTS = 1_000_000
# No metric of a node is larger; sums and ratios of such values are finite.
_LARGEST, _LEAST = 1e30, 1e-30


@dataclass
class Batch:
    """Points of one request: series, times in ns since 1970, values; and what was refused."""

    series: list[Series] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        """Count a line that is not a point."""
        self.refused += 1
        if reason in self.reasons or len(self.reasons) < _REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Times (int64 ns) and values (float64)."""
        return np.array(self.times, np.int64), np.array(self.values, np.float64)


class PointReader:
    """Reads batches. What a metric with its tags is of is looked up once.

    `units` says what a site's collectors count a metric in where a line does not (a tag `unit`):
    {"mem_used": "GB"}; else it is what ClusterCockpit's rules count in (core/job_metrics.py).
    """

    def __init__(self, units: Mapping[str, str] | None = None) -> None:
        self._units = dict(units or {})
        self._known: dict[tuple[str, bytes, str], tuple[Series, float]] = {}
        self._held = 0  # bytes of heads

    def read(
        self,
        data: bytes,
        cluster: str | None = None,
        precision: str | None = None,
        now_ns: int | None = None,
        oldest_ns: int = 0,
    ) -> Batch:
        """The points of a batch. `cluster` is that of lines which do not say theirs.

        What lies before `oldest_ns` or an hour ahead of now is refused. Raises ValueError for a
        precision that is none, and for more than a million points.
        """
        if precision is not None and precision not in PRECISIONS:
            raise ValueError("the precision is s, ms, us or ns")
        scale = PRECISIONS[precision] if precision else None
        now = time.time_ns() if now_ns is None else now_ns
        batch = Batch()
        for line in data.split(b"\n"):
            text = line.strip(b" \r\t")
            if not text or text.startswith(b"#"):
                continue
            try:
                head, fields, moment = split_line(text)
                at = read_time_ns(moment, scale, now)
                if not oldest_ns <= at <= now + HOUR_NS:
                    raise ValueError("a time is outside the span that is kept")
                for name, value in read_fields(fields):
                    series, factor = self._find(cluster or "", head, name)
                    number = check_size(value * factor)
                    batch.series.append(series)
                    batch.times.append(at)
                    batch.values.append(number)
            except ValueError as error:
                batch.refuse(str(error))
            if len(batch.series) > MOST_POINTS:
                raise ValueError(f"a request has {MOST_POINTS:,} points at most")
        return batch

    def _find(self, cluster: str, head: bytes, name: str) -> tuple[Series, float]:
        key = (cluster, head, name)
        known = self._known.get(key)
        if known is None:
            known = self._name(cluster, head, name)
            if len(self._known) >= _CACHED or self._held > CACHED_BYTES:
                self._known.clear()
                self._held = 0
            self._known[key] = known
            self._held += len(head)
        return known

    def _name(self, given: str, head: bytes, name: str) -> tuple[Series, float]:
        metric, tags = read_head(head)
        if name != "value":
            metric = f"{metric}_{name}"
        cluster = given or tags.get("cluster", "")
        if given and tags.get("cluster", given) != given:
            raise ValueError("a line belongs to another cluster")
        host = tags.get("hostname") or tags.get("host") or ""
        scope = tags.get("type", "node")
        element = tags.get("type-id", "")
        if "stype" in tags:
            element = f"{element}/{tags['stype']}{tags.get('stype-id', '')}"
        if not is_cluster(cluster):
            raise ValueError("a line has no cluster, or one whose name cannot be used")
        if not is_host(host):
            raise ValueError("a line has no hostname, or one that cannot be used")
        if scope not in SCOPES or not is_element(element) or not is_metric(metric):
            raise ValueError("a metric or part of a node has a name that cannot be used")
        unit = tags.get("unit") or self._units.get(metric)
        ours, written, factor = name_job_metric(metric, *split_unit(unit or ""))
        if not unit and ours in METRICS:
            factor = METRICS[ours].per
        written = written if is_element(written.replace("%", "")) else ""
        part = "" if scope == "node" else element
        if ours.startswith("acc_") and scope == "node" and element:
            scope, part = "accelerator", element
        return Series(cluster, host, ours, scope, part, written), factor


def check_size(value: float) -> float:
    """The value, 0 where it is next to nothing. Raises ValueError for what no metric can be."""
    size = abs(value)
    if not size <= _LARGEST:
        raise ValueError("a value is larger than any metric's")
    return value if size >= _LEAST else 0.0
