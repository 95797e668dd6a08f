"""Starts and ends of jobs as cc-slurm-adapter and ClusterCockpit's REST say them, in JSON.

POST /api/jobs/start_job/ has a job's meta.json without its statistics; stop_job its number,
cluster, start, stopTime and jobState (cc-backend, internal/api/job.go). What is kept is a row of
the table `jobs`, its nodes, and which parts of them it has; never its script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.cluster.names import is_cluster, is_element, is_host
from sightline.core.model.tables import load_table
from sightline.core.text import make_printable
from sightline.core.units import INT64_MAX
from sightline.errors import RequestError
from sightline.formats.cluster._cockpit import add_meta, is_meta
from sightline.formats.cluster._jobs import JobTables

# cc-lib, schema.JobState: what a job may end as.
END_STATES = (
    "boot_fail", "cancelled", "completed", "deadline", "failed", "node_fail", "out_of_memory",
    "preempted", "timeout",
)  # fmt: skip
_KEY = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,150})/([A-Za-z0-9_.+\[\]-]{1,64})/(\d{1,12})")
_SECOND = 10**9
_LAST_S = (
    7_258_118_400  # 2200: what comes later is not a time, and 2262 the last that int64 has in ns
)
_COLUMNS = tuple(column.name for column in load_table("jobs").stored)
_NODES = ("host", "cpus", "gpus", "memory_bytes")


@dataclass(frozen=True)
class Known:
    """A job that runs or ended: its row of `jobs`, its nodes, and which parts of these it has."""

    key: str
    row: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]]
    # Of each node that is shared: the GPUs and hardware threads that are the job's, if said.
    parts: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return split_key(self.key)[0]

    @property
    def hosts(self) -> list[str]:
        """Its nodes by name."""
        return [str(node["host"]) for node in self.nodes]

    def encode(self) -> bytes:
        """As JSON, for the log."""
        held = {"key": self.key, "row": self.row, "nodes": self.nodes, "parts": self.parts}
        return json.dumps(held, separators=(",", ":")).encode()


def add_cluster(document: Any, cluster: str) -> Any:
    """What a sender says of a job, with the cluster that it is of where it does not say."""
    if isinstance(document, dict) and "cluster" not in document:
        return {**document, "cluster": cluster}
    return document


def decode_known(data: bytes) -> Known:
    """Of `Known.encode`."""
    return Known(**json.loads(data))


def make_key(cluster: str, job_id: str, start_ns: int) -> str:
    """What one job is called here, on all clusters and for all time: CLUSTER/NUMBER/START."""
    return f"{cluster}/{job_id}/{start_ns // _SECOND}"


def is_key(text: str) -> bool:
    """Whether a text may be such a key."""
    match = _KEY.fullmatch(text)
    return match is not None and is_cluster(match[1])


def split_key(key: str) -> tuple[str, str, int]:
    """Cluster, number, start in ns. Raises RequestError for what is not a key."""
    match = _KEY.fullmatch(key)
    if match is None or not is_cluster(match[1]):
        raise RequestError("there is no such job")
    return match[1], match[2], int(match[3]) * _SECOND


def complete_row(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `jobs` with all of its columns."""
    return {"rank": 0, "recording_id": 0, **{name: facts.get(name) for name in _COLUMNS}}


def read_start(document: Any) -> Known:
    """A job that began. Raises RequestError, and says what is wrong."""
    if not is_meta(document):
        raise RequestError("a job has a jobId and a cluster")
    cluster, start = document["cluster"], _read_time(document.get("startTime"), "startTime")
    if not isinstance(cluster, str) or not is_cluster(cluster):
        raise RequestError("the cluster has a name that cannot be used")
    if not _is_text(document.get("user")):
        raise RequestError("a job has a user")
    resources = document.get("resources")
    if not isinstance(resources, list) or not 1 <= len(resources) <= 100_000:
        raise RequestError("a job has resources: a list of its nodes")
    parts: dict[str, dict[str, list[str]]] = {}
    for one in resources:
        host = one.get("hostname") if isinstance(one, dict) else None
        if not isinstance(host, str) or not is_host(host):
            raise RequestError("a node has a hostname that cannot be used")
        parts[host] = {
            ours: found
            for ours, theirs in (("accelerator", "accelerators"), ("hwthread", "hwthreads"))
            if (found := _list_elements(one.get(theirs)))
        }
    tables = JobTables(keep_identity=True)
    add_meta(tables, {**document, "jobState": "running", "duration": None, "statistics": None})
    row = complete_row(tables.rows["jobs"][0])
    row = {k: make_printable(v)[:300] if isinstance(v, str) else v for k, v in row.items()}
    number = row["raw_job_id"]
    if number is None or number < 0:
        raise RequestError("a jobId is a whole number")
    if any(isinstance(v, int) and abs(v) > INT64_MAX for v in row.values()):
        raise RequestError("a job has a number that is too large")
    row |= {"job_row_id": 0, "start_ns": start, "end_ns": None, "duration_ns": None}
    nodes = [{key: node.get(key) for key in _NODES} for node in tables.rows["job_nodes"]]
    return Known(make_key(cluster, str(number), start), row, nodes, parts)


def read_stop(document: Any) -> tuple[str | None, str, int | None, int, str]:
    """Cluster (None where not said), number, start and end in ns, state. Raises RequestError."""
    if not isinstance(document, dict):
        raise RequestError("the end of a job is an object")
    number, cluster = document.get("jobId"), document.get("cluster")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= INT64_MAX:
        raise RequestError("a jobId is a whole number")
    if cluster is not None and not (isinstance(cluster, str) and is_cluster(cluster)):
        raise RequestError("the cluster has a name that cannot be used")
    state = document.get("jobState")
    if state not in END_STATES:
        raise RequestError("a job ends as one of these", why=", ".join(END_STATES))
    start = document.get("startTime")
    began = None if start is None else _read_time(start, "startTime")
    return cluster, str(number), began, _read_time(document.get("stopTime"), "stopTime"), state


def _read_time(value: Any, name: str) -> int:
    """Seconds since 1970, as ns."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LAST_S:
        raise RequestError(f"{name} is a time in seconds since 1970")
    return round(value) * _SECOND


def _list_elements(value: Any) -> list[str]:
    """Names of parts of a node; those that cannot be one are left out."""
    found = [str(one) for one in value[:4096]] if isinstance(value, list) else []
    return [one for one in found if is_element(one)]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()
