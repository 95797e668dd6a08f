"""Simulated jobs for who has no cluster: a month that ended, and some that run now.

Each job is a kind of program on nodes, with what is wrong with it; all numbers are of one seed.
They are an example of what the pages show, and say nothing about how well rules find things.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from sightline.cluster.documents import complete_row, make_key
from sightline.cluster.names import Series
from sightline.cluster.points import Batch
from sightline.cluster.store import Store
from sightline.subjects.jobs.job import GPU, NODE, Job, Use, make_use

CLUSTER = "demo"
KINDS = (
    "trains", "trains", "trains", "computes", "computes", "forgets GPUs", "starves", "hangs",
    "one thread", "few threads", "leaks", "one node idles", "reads in turn",
)  # fmt: skip
_ON_CORES = ("computes", "one thread", "few threads", "one node idles")
_USERS = ("ada", "grace", "katherine", "dorothy", "emmy", "lise", "marie", "hedy")
_PROJECTS = ("climate", "proteins", "physics", "language")
_CORES, _STEP_S = 32, 60
_NODE_BYTES, _FLOPS, _BANDWIDTH, _LINK = 256e9, 2.5e12, 2e11, 5e9
LIMITS: dict[str, dict[str, float | None]] = {
    "cpu_load": {"peak": float(_CORES)},
    "flops_any": {"peak": _FLOPS},
    "mem_bw": {"peak": _BANDWIDTH},
    "mem_used": {"peak": _NODE_BYTES},
    "ib_recv": {"peak": _LINK},
    "ib_xmit": {"peak": _LINK},
}


def simulate(number: int, start_s: int, samples: int, kind: str) -> tuple[str, Job]:
    """A job that ended, with its key: values of each node and GPU, one a minute."""
    rng = np.random.default_rng(number)
    user = _USERS[number * 7 % len(_USERS)]
    nodes = 2 if kind == "one node idles" else int(rng.integers(1, 5))
    gpus = 0 if kind in _ON_CORES else 4
    work = _draw_work(rng, kind, nodes * max(gpus, 1), samples, gpus)
    by_node = work.reshape(nodes, -1, samples).mean(axis=1)
    hosts = [f"n{(number * 3 + n) % 60 + 1:02d}" for n in range(nodes)]
    held = (0.25 + 0.1 * by_node) * _NODE_BYTES
    if kind == "leaks":
        held = (0.2 + 0.65 * np.linspace(0, 1, samples)) * _NODE_BYTES * np.ones((nodes, 1))
    busy = 0.2 * by_node if gpus else by_node
    files = np.abs(rng.normal(3e6, 1e6, by_node.shape)) + 2e9 * (
        (by_node < 0.1) if kind == "reads in turn" else 0
    )
    network = by_node * (0.2 * _LINK if nodes > 1 else 1e-4 * _LINK)
    places = tuple((host, None) for host in hosts)
    figures = {
        "cpu_load": busy * _CORES, "cpu_user": 100 * busy, "mem_used": held,
        "flops_any": by_node * _FLOPS * 0.4, "mem_bw": by_node * _BANDWIDTH * 0.5,
        "ib_recv": network, "ib_xmit": network, "file_read": files,
    }  # fmt: skip
    uses: dict[tuple[str, str], Use] = {
        (name, NODE): make_use(places, values, _STEP_S) for name, values in figures.items()
    }
    if gpus:
        of_gpus = tuple((host, str(n)) for host in hosts for n in range(gpus))
        for name, values in (
            ("acc_utilization", 100 * np.clip(work * 1.2, 0, 1)),
            ("acc_sm_active", 100 * work),
            ("acc_power", 90 + 500 * work),
            ("acc_mem_used", (work > 0) * 5e10 + 1e9),
        ):
            uses[name, GPU] = make_use(of_gpus, values, _STEP_S)
    length_s = samples * _STEP_S
    row = complete_row(
        {
            "job_row_id": 0, "job_id": str(number), "raw_job_id": number, "cluster": CLUSTER,
            "sub_cluster": "main", "partition": "gpu" if gpus else "cpu", "user": user,
            "project": _PROJECTS[number % len(_PROJECTS)], "name": f"{kind.replace(' ', '-')}",
            "application": "pytorch" if gpus else "gromacs",
            "state": "timeout" if kind == "hangs" else "completed",
            "submit_ns": (start_s - 900) * 10**9, "start_ns": start_s * 10**9,
            "end_ns": (start_s + length_s) * 10**9, "duration_ns": length_s * 10**9,
            "limit_ns": round(length_s * (1.0 if kind == "hangs" else 1.6)) * 10**9,
            "nodes": nodes, "cpus": nodes * _CORES, "gpus": nodes * gpus or None,
            "gpu_type": "h100" if gpus else None, "sharing": "none",
            "memory_bytes": round(nodes * _NODE_BYTES),
        }
    )  # fmt: skip
    listed = tuple({"host": host} for host in hosts)
    return make_key(CLUSTER, str(number), row["start_ns"]), Job(row, listed, uses, LIMITS)


def _draw_work(
    rng: np.random.Generator, kind: str, places: int, samples: int, gpus: int
) -> np.ndarray:
    """How much each GPU or node computes, 0 to 1: places × samples."""
    level = rng.uniform(0.7, 0.9)
    work = np.clip(level * rng.normal(1, 0.04, (places, samples)), 0, 1)
    work[:, : min(3, samples // 30)] *= 0.2
    if kind == "forgets GPUs":
        work[places // 2 :] = 0
    elif kind == "starves":
        work *= 0.2
    elif kind == "hangs":
        work[:, samples // 2 :] = 0
    elif kind == "one thread":
        work[:] = 0
        work[0] = 1 / _CORES
    elif kind == "few threads":
        work *= 0.35
    elif kind == "one node idles":
        work[1:] *= 0.04
    elif kind == "reads in turn":
        for at in range(3, samples, 10):
            work[:, at : at + 3] *= 0.05
    return work


def list_month(jobs: int = 200, now_s: int | None = None) -> Iterator[tuple[str, Job]]:
    """Jobs of the last 30 days, all ended."""
    now = int(time.time()) if now_s is None else now_s
    rng = random.Random(62)  # noqa: S311  # what is simulated is not a secret
    for number in range(10_001, 10_001 + jobs):
        samples = rng.randint(30, 200)
        end = now - rng.randint(600, 30 * 86_400)
        kind = KINDS[rng.randrange(len(KINDS))]
        yield simulate(number, end - samples * _STEP_S, samples, kind)


class Now:
    """Jobs that run while the service does: they began two hours ago, and go on."""

    def __init__(self, store: Store, jobs: int = 8) -> None:
        """Start them, with what was measured so far."""
        self._store = store
        now = int(time.time()) // _STEP_S * _STEP_S
        self._start = now - 7_200
        self._jobs = [
            simulate(20_001 + n, self._start, 1_440, KINDS[3 + n % (len(KINDS) - 3)])[1]
            for n in range(jobs)
        ]
        for job in self._jobs:
            store.start_job(_describe_start(job))
        self._sent = -1
        self.send(now)

    def send(self, now_s: int | None = None) -> int:
        """What was measured since the last time; how many values that are."""
        now = int(time.time()) if now_s is None else now_s
        last = min((now - self._start) // _STEP_S, 1_439)
        batch = Batch()
        for job in self._jobs:
            for (metric, scope), use in job.uses.items():
                if use.values is None:
                    continue
                for place, values in zip(use.places, use.values, strict=True):
                    host, element = place
                    one = Series(CLUSTER, str(host), metric, scope, element or "", "")
                    for n in range(self._sent + 1, last + 1):
                        batch.series.append(one)
                        batch.times.append((self._start + n * _STEP_S) * 10**9)
                        batch.values.append(float(values[n]))
        self._sent = max(last, self._sent)
        self._store.write_points(batch)
        return len(batch.series)


def _describe_start(job: Job) -> dict[str, Any]:
    row = job.row
    return {
        "jobId": row["raw_job_id"], "cluster": CLUSTER, "user": row["user"],
        "project": row["project"], "partition": row["partition"], "subCluster": "main",
        "numNodes": row["nodes"], "numHwthreads": row["cpus"], "numAcc": row["gpus"] or 0,
        "shared": "none", "startTime": row["start_ns"] // 10**9, "walltime": 86_400,
        "requestedMemory": row["memory_bytes"] // 10**6,
        "resources": [{"hostname": node["host"]} for node in job.nodes],
        "metaData": {"jobName": row["name"]},
    }  # fmt: skip
