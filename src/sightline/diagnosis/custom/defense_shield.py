"""The fourth form: policies of Job Defense Shield (config.yaml), as rules about single jobs.

https://github.com/PrincetonUniversity/job_defense_shield (docs/alert). A file has an entry for each
alert, whose name is the alert's with a number behind it, beside settings of the program. An alert
speaks of users: of their jobs that fit it, once these took so many hours. Here each of these jobs
is found; what says which users get a mail (absolute_thres_hours, num_top_users, ...) is not asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sightline.diagnosis.custom.document import Value

_ENTRY = re.compile(r"([a-z][a-z0-9-]*?)(?:-\d+)?")
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_IDLE = ("acc_utilization",)
Get = Callable[[str, float], float]


def is_policies(top: Value) -> bool:
    """Whether a document is such a file: an entry of a known alert with its partitions."""
    return isinstance(top.data, dict) and any(
        find_alert(name) in (*_ALERTS, *_OTHERS) and isinstance(entry.data, dict)
        for name, entry in top.data.items()
    )


def find_alert(name: str) -> str:
    """The alert of an entry: 'low-gpu-efficiency-1' is low-gpu-efficiency."""
    match = _ENTRY.fullmatch(name)
    return match[1] if match else name


def list_rules(top: Value) -> Iterator[tuple[Value, dict[str, Any]]]:
    """Each alert, with a rule in our own form. Raises InputError for one that is not read."""
    for name, entry in top.data.items():
        alert = find_alert(name)
        if alert in _OTHERS and isinstance(entry.data, dict):
            raise entry.wrong(
                f"the alert {alert} is about {_OTHERS[alert]}, which no single job shows",
                f"Leave it out. These are read: {', '.join(sorted(_ALERTS))}.",
            )
        if alert not in _ALERTS or not isinstance(entry.data, dict):
            continue  # a setting of the program
        title, write = _ALERTS[alert]
        metrics, needed, rule = write(_reader(entry))
        yield (
            entry,
            {
                "name": title,
                "tag": name,
                "metrics": list(metrics),
                "requirements": [*_list_scope(entry), *needed],
                "rule": rule,
                "hint": title,
            },
        )


def _reader(entry: Value) -> Get:
    """A function that reads a number of an entry, by its name; without one the alert's default."""

    def read(name: str, default: float) -> float:
        found = entry.data.get(name)
        if found is None:
            return default
        if isinstance(found.data, bool) or not isinstance(found.data, int | float):
            raise found.wrong(f"'{name}' is a number")
        return float(found.data)

    return read


def _list_scope(entry: Value) -> Iterator[str]:
    """Which jobs an alert is about: clusters, partitions, users, and how long they ran."""
    for key, fact in (("cluster", "cluster"), ("clusters", "cluster"), ("partitions", "partition"),
                      ("partition", "partition")):  # fmt: skip
        names = _list_names(entry, key)
        if names and "*" not in names:
            yield " or ".join(f"job.{fact} == {json.dumps(name)}" for name in names)
    for name in _list_names(entry, "excluded_users"):
        yield f"job.user != {json.dumps(name)}"
    for name in _list_names(entry, "excluded_partitions"):
        yield f"job.partition != {json.dumps(name)}"
    minutes = _reader(entry)("min_run_time", 0)
    if minutes:
        yield f"job.duration >= {60 * minutes}"


def _list_names(entry: Value, key: str) -> list[str]:
    found = entry.data.get(key)
    if found is None or found.data is None:
        return []
    items = found.data if isinstance(found.data, list) else [found]
    names = []
    for item in items:
        if item.data != "*" and not _NAME.fullmatch(str(item.data)):
            raise item.wrong(f"'{str(item.data)[:60]}' is not a name")
        names.append(str(item.data))
    return names


Written = tuple[tuple[str, ...], list[str], str]


def _write_zero_gpus(read: Get, minutes: float) -> Written:
    used = "(job.numAcc - acc_utilization.idle) / job.numAcc"
    rule = f"acc_utilization.idle > 0 and {used} < {read('gpu_frac_threshold', 1.0)}"
    needed = ["job.numAcc > 0"] + ([f"job.duration >= {60 * minutes}"] if minutes else [])
    return _IDLE, needed, rule


def _write_cancelled(read: Get) -> Written:
    first = read("first_warning_minutes", read("cancel_minutes", 120))
    return _write_zero_gpus(read, first)


def _write_low_gpu(read: Get) -> Written:
    return _IDLE, ["job.numAcc > 0"], f"acc_utilization.avg <= {read('eff_thres_pct', 15)}"


def _write_low_cpu(read: Get) -> Written:
    return (), ["job.numAcc == 0"], f"job.cpuEfficiency <= {read('eff_thres_pct', 60)}"


def _write_memory(read: Get) -> Written:
    share = read("ratio_threshold", 1.0)
    return (), ["job.numAcc == 0"], f"job.usedMemory / job.requestedMemory < {share}"


def _write_time(read: Get, *, of_gpus: bool) -> Written:
    share = read("overall_ratio_threshold", 1.0)
    needed = "job.numAcc > 0" if of_gpus else "job.numAcc == 0"
    # As the alert's: jobs that ended by themselves; a limit that was reached was used.
    return (), [needed, 'job.jobState != "running"'], f"job.duration / job.walltime < {share}"


def _write_serial(read: Get) -> Written:
    ratio = "job.cpuEfficiency * job.numCores / 100"
    needed = ["job.numNodes == 1", "job.numCores > 1", "job.cpuEfficiency >= 1"]
    return (), needed, f"{ratio} <= 1 and {ratio} > {read('lower_ratio', 0.85)}"


def _write_powerful(read: Get) -> Written:
    needed = ["job.numAcc == 1", f"job.numCores <= {read('num_cores_threshold', 1)}"]
    rule = (
        f"acc_utilization.avg <= {read('gpu_util_threshold', 15)} and "
        f"acc_mem_used.max < {1000 * read('gpu_mem_threshold', 10)} and "
        f"job.usedMemory < {read('cpu_mem_threshold', 32)}"
    )
    return ("acc_utilization", "acc_mem_used"), needed, rule


def _write_cores(read: Get) -> Written:
    rule = f"job.numCores / job.numAcc >= {read('cores_per_gpu_limit', 12)}"
    efficiency = read("cpu_eff_threshold", 100)
    more = f" and job.cpuEfficiency <= {efficiency}" if efficiency < 100 else ""
    return (), ["job.numAcc > 0"], rule + more


_ALERTS: Mapping[str, tuple[str, Callable[[Get], Written]]] = {
    "cancel-zero-gpu-jobs": ("GPUs at 0 % for as long as jobs may run", _write_cancelled),
    "zero-util-gpu-hours": ("GPUs at 0 %", lambda read: _write_zero_gpus(read, 0)),
    "low-gpu-efficiency": ("Low GPU efficiency", _write_low_gpu),
    "low-cpu-efficiency": ("Low CPU efficiency", _write_low_cpu),
    "excess-cpu-memory": ("More memory allocated than used", _write_memory),
    "excessive-time-cpu": ("Excessive time limit", lambda read: _write_time(read, of_gpus=False)),
    "excessive-time": ("Excessive time limit", lambda read: _write_time(read, of_gpus=False)),
    "excessive-time-gpu": ("Excessive time limit", lambda read: _write_time(read, of_gpus=True)),
    "serial-allocating-multiple": ("A serial code with several cores", _write_serial),
    "gpu-model-too-powerful": ("The GPU is more powerful than needed", _write_powerful),
    "too-many-cores-per-gpu": ("Too many cores per GPU", _write_cores),
}
# Alerts about what no single job says, or what is not recorded of one.
_OTHERS = {
    "zero-cpu-utilization": "nodes of a job by the time of their own processors",
    "multinode-cpu-fragmentation": "how the cores of nodes are divided",
    "multinode-gpu-fragmentation": "how the GPUs of nodes are divided",
    "too-much-cpu-mem-per-gpu": "the memory of nodes for each of their GPUs",
}
