"""A job archive of ClusterCockpit: meta.json and data.json.gz of jobs, cluster.json of clusters.

Version 3 of its layout: CLUSTER/NUMBER/NUMBER/START/. A job without a start, a number or a cluster
has no place in it and is left out; figures that are not known are left out, and never zero: a job
that lacks what the schema requires (cpu_user, cpu_load, mem_used, flops_any, mem_bw) is written,
and cc-backend says so where it validates. cluster.json has the metrics and what is normal of them;
what a node is made of (topology, peak rates) no job says: the site's own file has it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.job_metrics import METRICS
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.jobs.job import Job, Use, list_jobs
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="clustercockpit",
    label="a job archive of ClusterCockpit (version 3)",
    suffix="-archive",
    loses="everything but jobs; steps, exit codes, what accounting says of memory and processors",
)

_PREFIXES = {1e9: "G", 1e6: "M"}
_BASES = {"bytes": "B", "bytes/s": "B/s", "flop/s": "F/s", "Hz": "Hz", "W": "W", "J": "J"}
_STATES = (
    "boot_fail", "cancelled", "completed", "deadline", "failed", "node_fail", "out_of_memory",
    "pending", "preempted", "running", "suspended", "timeout",
)  # fmt: skip
# A name that is one folder, whatever a recording calls a cluster.
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def write(run: Run, target: Path) -> list[Path]:
    """Write the archive; the files that were written. Raises MissingDataError without a job."""
    written: list[Path] = []
    for job in list_jobs(run):
        place = _find_place(job)
        if place is None:
            continue
        folder = target / place
        meta, data = describe_meta(job), describe_data(job)
        written.append(put(folder / "meta.json", _encode(meta)))
        if data:
            packed = gzip.compress(_encode(data), mtime=0)
            written.append(put(folder / "data.json.gz", packed))
    if not written:
        raise MissingDataError(
            "there is no job to write", why="none has a number, a start and the name of its cluster"
        )
    for name, cluster in sorted(_describe_clusters(run).items()):
        written.append(put(target / name / "cluster.json", _encode(cluster)))
    return [put(target / "version.txt", b"3\n"), *written]


def _find_place(job: Job) -> str | None:
    number, start, cluster = (job.row[key] for key in ("raw_job_id", "start_ns", "cluster"))
    if number is None or number < 0 or not start or not _FOLDER.fullmatch(cluster or ""):
        return None
    return f"{cluster}/{number // 1000}/{number % 1000:03d}/{start // 10**9}"


def describe_meta(job: Job) -> dict[str, Any]:
    """meta.json of a job."""
    row = job.row
    hosts = [node["host"] for node in job.nodes] or [
        f"node{n + 1}" for n in range(row["nodes"] or 1)
    ]
    known = {
        "jobId": row["raw_job_id"],
        "user": row["user"] or "unknown",
        "project": row["project"] or "no project",
        "cluster": row["cluster"],
        "subCluster": row["sub_cluster"] or "main",
        "partition": row["partition"],
        "numNodes": row["nodes"] or len(hosts),
        "numHwthreads": row["cpus"],
        "numAcc": row["gpus"],
        "shared": row["sharing"] or "none",
        "walltime": _seconds(row["limit_ns"]),
        "jobState": row["state"] if row["state"] in _STATES else "completed",
        "submitTime": _seconds(row["submit_ns"]),
        "startTime": _seconds(row["start_ns"]),
        "duration": _seconds(row["duration_ns"]) or 0,
        "requestedMemory": row["memory_bytes"] and round(row["memory_bytes"] / 1e6),
        "energy": row["energy_j"],
        "resources": [{"hostname": host} for host in hosts],
        "metaData": {"jobName": row["name"]} if row["name"] else None,
        "tags": [],
    }
    meta = {name: value for name, value in known.items() if value is not None}
    return {**meta, "statistics": dict(_list_statistics(job))}


def _list_statistics(job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each metric the mean over places, and the least and largest value of any."""
    for name in dict.fromkeys(metric for metric, _ in job.uses):
        use = next(u for (metric, _), u in job.uses.items() if metric == name)
        per = _per(name)
        figures = {
            "avg": use.mean,
            "min": float(np.nanmin(use.least)) if not np.isnan(use.least).all() else use.mean,
            "max": float(np.nanmax(use.most)) if not np.isnan(use.most).all() else use.mean,
        }
        if not any(math.isnan(value) for value in figures.values()):
            yield name, {"unit": _unit(name), **{k: v / per for k, v in figures.items()}}


def describe_data(job: Job) -> dict[str, Any]:
    """data.json of a job: metric, scope, series; empty without one."""
    found: dict[str, Any] = {}
    for (metric, scope), use in job.uses.items():
        series = list(_list_series(metric, use))
        if series:
            found.setdefault(metric, {})[scope] = {
                "unit": _unit(metric),
                "timestep": round(use.step_s),
                "series": series,
            }
    return found


def _list_series(metric: str, use: Use) -> Iterator[dict[str, Any]]:
    per = _per(metric)
    if use.values is None or use.step_s != round(use.step_s):
        return
    for n, (host, element) in enumerate(use.places):
        if np.isnan(use.avg[n]):
            continue
        one = {
            "hostname": host or "unknown",
            "statistics": {
                "avg": use.avg[n] / per,
                "min": use.least[n] / per,
                "max": use.most[n] / per,
            },
            "data": [None if math.isnan(v) else v / per for v in use.values[n].tolist()],
        }
        yield {**one, "id": element} if element is not None else one


def _describe_clusters(run: Run) -> dict[str, dict[str, Any]]:
    """cluster.json of each cluster: its metrics with what is normal, and its parts."""
    jobs = run.table("jobs")
    found: dict[str, dict[str, Any]] = {}
    for cluster, part in jobs.select("cluster", "sub_cluster").unique(maintain_order=True).rows():
        if _FOLDER.fullmatch(cluster or ""):
            one = found.setdefault(
                cluster, {"name": cluster, "metricConfig": [], "subClusters": []}
            )
            one["subClusters"].append({"name": part or "main"})
    for row in run.table("metric_limits").iter_rows(named=True):
        if row["cluster"] not in found:
            continue
        configs = found[row["cluster"]]["metricConfig"]
        config = next((c for c in configs if c["name"] == row["metric"]), None)
        per = _per(row["metric"])
        limits = {key: (row[key] or 0) / per for key in ("peak", "normal", "caution", "alert")}
        if config is None:
            scope = row["scope"] or "node"
            adds = METRICS[row["metric"]].adds if row["metric"] in METRICS else "mean"
            config = {
                "name": row["metric"],
                "unit": _unit(row["metric"]),
                "scope": scope,
                "timestep": 60,
                "aggregation": "sum" if adds == "sum" else "avg",
                **limits,
            }
            configs.append(config)
        if row["sub_cluster"] is not None:
            own = {"name": row["sub_cluster"], **limits}
            config.setdefault("subClusters", []).append(own)
    return found


def _per(metric: str) -> float:
    return METRICS[metric].per if metric in METRICS else 1.0


def _unit(metric: str) -> dict[str, str]:
    """As the schema has units: a base of its list, and a prefix."""
    known = METRICS.get(metric)
    base = _BASES.get(known.unit, "") if known is not None else ""
    prefix = _PREFIXES.get(known.per) if known is not None else None
    return {"base": base, "prefix": prefix} if prefix and base else {"base": base}


def _seconds(ns: int | None) -> int | None:
    return None if ns is None else round(ns / 1e9)


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
