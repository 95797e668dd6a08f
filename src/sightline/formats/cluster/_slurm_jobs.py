"""A job and a node as Slurm's JSON and `scontrol show` have them, to rows of our tables."""

from __future__ import annotations

from typing import Any

from sightline.formats.cluster._jobs import JobTables, read_real, read_whole, read_word
from sightline.formats.cluster._jobstats import add_summary, decode_summary, sum_summary
from sightline.formats.cluster._slurm import (
    count_gpus,
    count_gres,
    expand_hosts,
    read_length,
    read_request,
    read_size,
    read_state,
    read_time,
    read_tres,
)

_MINUTE = 60 * 10**9
_MIB = 1 << 20
# OverSubscribe=NO of scontrol does not mean that no other job runs there: EXCLUSIVE does.
_SHARING = {"exclusive": "none", "user": "single_user"}


def add_summarized(
    tables: JobTables, job_id: str, facts: dict[str, Any], comment: object, hosts: object
) -> bool:
    """A job with its summary by Jobstats, where its comment has one; whether that is damaged."""
    summary = decode_summary(read_word_whole(comment))
    if isinstance(summary, dict):
        facts = {**facts, **sum_summary(summary)}
    elif summary is not None:
        facts = {**facts, "summary": summary}
    row = tables.add_job(job_id, **facts)
    if isinstance(summary, dict):
        add_summary(tables, row, summary)
    else:
        names = expand_hosts(hosts)
        tables.unlisted += not names and read_word(hosts) is not None
        for host in names:
            tables.add_node(row, host)
    return summary == "damaged"


def read_word_whole(comment: object) -> str | None:
    """A comment with all of its length: a summary of many nodes is longer than other texts."""
    return comment if isinstance(comment, str) else None


def describe_control_job(job: dict[str, str]) -> dict[str, Any]:
    """Columns of `jobs`, of the fields that `scontrol show job` prints."""
    given = read_tres(job.get("AllocTRES") or job.get("TRES"))
    asked = read_tres(job.get("ReqTRES"))
    gpus, kind = count_gpus(given or asked)
    start, state = read_time(job.get("StartTime")), read_state(job.get("JobState"))
    is_over = state not in ("running", "pending", "suspended", "configuring", "completing")
    nodes = read_whole((job.get("NumNodes") or "").partition("-")[0])
    cpus = read_whole((job.get("NumCPUs") or "").partition("-")[0])
    memory = read_size(given.get("mem") or asked.get("mem"), "M")
    for key, times in (("MinMemoryNode", nodes), ("MinMemoryCPU", cpus)):
        each = read_request(job.get(key))
        if memory is None and each is not None and each[0]:
            memory = read_whole(each[0] * (times or 1))
    return {
        "raw_job_id": read_whole(job.get("JobId")),
        "partition": read_word(job.get("Partition")),
        "user": (job.get("UserId") or "").partition("(")[0],
        "project": job.get("Account"),
        "name": read_word(job.get("JobName") or job.get("Name")),
        "state": state,
        "exit_code": read_word(job.get("ExitCode")),
        "submit_ns": read_time(job.get("SubmitTime")),
        "start_ns": start,
        # While a job runs, EndTime is when its time is over.
        "end_ns": read_time(job.get("EndTime")) if is_over else None,
        "duration_ns": read_length(job.get("RunTime")),
        "limit_ns": read_length(job.get("TimeLimit")),
        "nodes": nodes,
        "cpus": cpus,
        "gpus": gpus if gpus is not None else count_gres(job.get("TresPerNode")),
        "gpu_type": kind,
        "sharing": _SHARING.get((job.get("OverSubscribe") or "").lower()),
        "memory_bytes": memory,
    }


def describe_queued_job(job: dict[str, Any]) -> dict[str, Any]:
    """Columns of `jobs`, of a job as `squeue --json` and `scontrol show jobs --json` have it."""
    given = read_tres(job.get("tres_alloc_str") or job.get("tres_req_str"))
    gpus, kind = count_gpus(given)
    state = read_state(job.get("job_state"))
    start = _seconds(job.get("start_time"))
    updated = _seconds(job.get("last_sched_evaluation"))
    is_over = state not in ("running", "pending", "suspended", "configuring", "completing")
    end = _seconds(job.get("end_time")) if is_over else None
    shared = job.get("shared") or job.get("exclusive") or ()
    sharing = next((w for w in shared if isinstance(w, str)), None) if shared else None
    return {
        "raw_job_id": read_whole(job.get("job_id")),
        "cluster": read_word(job.get("cluster")),
        "partition": read_word(job.get("partition")),
        "user": job.get("user_name") or job.get("user_id"),
        "project": job.get("account"),
        "name": read_word(job.get("name")),
        "state": state,
        "submit_ns": _seconds(job.get("submit_time")),
        "start_ns": start,
        "end_ns": end,
        "duration_ns": _span(start, end if end is not None else updated),
        "limit_ns": _minutes(job.get("time_limit")),
        "nodes": read_whole(read_real(job.get("node_count"))),
        "cpus": read_whole(read_real(job.get("cpus"))),
        "gpus": gpus,
        "gpu_type": kind,
        "sharing": _SHARING.get((sharing or "").lower()),
        "memory_bytes": read_size(given.get("mem"), "M"),
    }


def name_array_task(job: dict[str, Any]) -> str:
    """4711, or 4711_3 of an array, of a job in JSON."""
    array = job.get("array") if isinstance(job.get("array"), dict) else {}
    whole = read_whole(read_real(array.get("job_id", job.get("array_job_id"))))  # type: ignore[union-attr]
    task = read_whole(read_real(array.get("task_id", job.get("array_task_id"))))  # type: ignore[union-attr]
    return f"{whole}_{task}" if whole and task is not None else str(read_whole(job.get("job_id")))


def describe_node(node: dict[str, Any]) -> dict[str, Any]:
    """Columns of `cluster_nodes`, of a node in JSON."""
    states = node.get("state")
    flags = states if isinstance(states, list) else [states, *(node.get("state_flags") or [])]
    memory, used = read_whole(node.get("real_memory")), read_whole(node.get("alloc_memory"))
    load = read_real(node.get("cpu_load"))
    partitions = node.get("partitions")
    return {
        "partition": read_word(partitions[0])
        if isinstance(partitions, list) and partitions
        else None,
        "state": "+".join(str(word).lower() for word in flags[:8] if isinstance(word, str)) or None,
        "reason": read_word(node.get("reason")),
        "cpus": read_whole(node.get("cpus")),
        "used_cpus": read_whole(node.get("alloc_cpus")),
        "gpus": count_gpus(read_tres(node.get("tres")))[0] or count_gres(node.get("gres")),
        "used_gpus": count_gpus(read_tres(node.get("tres_used")))[0],
        "memory_bytes": None if memory is None else read_whole(memory * _MIB),
        "used_memory_bytes": None if used is None else read_whole(used * _MIB),
        # In hundredths, as slurmd has it (slurm.h, node_info_t.cpu_load).
        "load": None if load is None or load >= 1 << 31 else load / 100,
    }


def describe_control_node(node: dict[str, str]) -> dict[str, Any]:
    """Columns of `cluster_nodes`, of the fields that `scontrol show node` prints."""
    memory, used = read_whole(node.get("RealMemory")), read_whole(node.get("AllocMem"))
    return {
        "partition": read_word((node.get("Partitions") or "").partition(",")[0]),
        "state": (read_word(node.get("State")) or "").lower() or None,
        "reason": read_word(node.get("Reason")),
        "cpus": read_whole(node.get("CPUTot")),
        "used_cpus": read_whole(node.get("CPUAlloc")),
        "gpus": count_gpus(read_tres(node.get("CfgTRES")))[0] or count_gres(node.get("Gres")),
        "used_gpus": count_gpus(read_tres(node.get("AllocTRES")))[0],
        "memory_bytes": None if memory is None else read_whole(memory * _MIB),
        "used_memory_bytes": None if used is None else read_whole(used * _MIB),
        "load": read_real(node.get("CPULoad")),
    }


def _seconds(value: object) -> int | None:
    number = read_real(value)
    return read_whole(number * 1e9) if number is not None and number > 0 else None


def _minutes(value: object) -> int | None:
    number = read_real(value)
    return None if number is None or number >= 1 << 32 else read_whole(number * _MINUTE)


def _span(start: int | None, end: int | None) -> int | None:
    return end - start if start is not None and end is not None and end >= start else None
