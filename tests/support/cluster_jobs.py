"""Jobs and samples for a cluster's store, as its nodes and scheduler would send them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sightline.cluster.points import PointReader
from sightline.cluster.store import Store

NOW = 1_790_000_000  # seconds; a time of 2026


def write_start(
    number: int,
    hosts: Sequence[str] = ("n1",),
    gpus: int = 0,
    at: int = NOW - 3600,
    **more: Any,
) -> dict[str, Any]:
    """What cc-slurm-adapter posts when a job begins."""
    accelerators = more.pop("accelerators", None)
    resources = [{"hostname": h, "accelerators": accelerators or []} for h in hosts]
    return {
        "jobId": number, "user": "ada", "project": "physics", "cluster": "c1", "subCluster": "main",
        "partition": "gpu", "numNodes": len(hosts), "numHwthreads": 8 * len(hosts), "numAcc": gpus,
        "shared": "none", "walltime": 86_400, "startTime": at, "resources": resources,
        "metaData": {"jobName": "a name"}, **more,
    }  # fmt: skip


def start(store: Store, number: int, *args: Any, **more: Any) -> str:
    """A job begins; its key."""
    return store.start_job(write_start(number, *args, **more))


def stop(store: Store, number: int, at: int = NOW, state: str = "completed") -> str:
    """It ends."""
    return store.stop_job({"jobId": number, "cluster": "c1", "stopTime": at, "jobState": state})


def write_lines(
    hosts: Sequence[str],
    count: int,
    step: int = 10,
    at: int = 0,
    gpu: Callable[[str, int], float] | None = None,
) -> bytes:
    """`count` samples of each node, the last one `step` seconds before `at` after NOW."""
    lines = []
    for n in range(count):
        moment = NOW + at - step * (count - n)
        for host in hosts:
            lines.append(f"cpu_load,hostname={host},type=node value=4 {moment}")
            lines.append(f"mem_used,hostname={host},type=node value=2 {moment}")
            if gpu is not None:
                value = gpu(host, moment)
                tags = f"hostname={host},type=accelerator,type-id=0"
                lines.append(f"nv_util,{tags} value={value} {moment}")
    return "\n".join(lines).encode()


def push(store: Store, hosts: Sequence[str], count: int, **more: Any) -> None:
    """These samples reach the store."""
    lines = write_lines(hosts, count, **more)
    store.write_points(PointReader().read(lines, "c1", now_ns=NOW * 10**9))


def read_values(store: Store, metric: str = "cpu_load", host: str = "n1") -> dict[int, float]:
    """What the store has of a metric of a node, by second."""
    frame = store.read_samples("c1", [host], 0, 2 * NOW * 10**9)
    rows = frame.filter(frame["metric"] == metric).select("time_ns", "value").rows()
    assert len({time for time, _ in rows}) == len(rows)
    return {time // 10**9: value for time, value in rows}
