"""What `sacct --json`, `squeue --json`, `scontrol show job|node --json` and `sinfo --json` print.

All versions of Slurm's OpenAPI from v0.0.37 on: numbers may be wrapped ({"set", "infinite",
"number"}), states may be lists. Of jobs in accounting, steps are folded in as they are of sacct's
text; a summary of Jobstats stands in comment.administrator.
"""

from __future__ import annotations

from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.cluster._jobs import (
    JobTables,
    read_real,
    read_whole,
    read_word,
    seconds_to_ns,
)
from sightline.formats.cluster._jobstats import note_damaged_summaries
from sightline.formats.cluster._slurm import read_state
from sightline.formats.cluster._slurm_jobs import (
    add_summarized,
    describe_node,
    describe_queued_job,
    name_array_task,
)

IMPORTER = Importer(
    name="slurm_json",
    label="Slurm's JSON (sacct, squeue, scontrol, sinfo)",
    strong=(
        rb"\A\s*\{\s*\"(?:meta|jobs|nodes|errors)\"\s*:.*\""
        rb"(?:allocation_nodes|accrue_time|derived_exit_code|slurmd_version|slurmd_start_time)\"\s*:",
    ),
    weak=(),
    looks_like='{"jobs": [{"job_id": …, "association": …}]}, as sacct --json prints it',
    suffixes=(".json",),
    version=6,
    source="https://slurm.schedmd.com/rest_api.html",
)

_MIB = 1 << 20
_STEPS = 10_000
_TEXTS = ("account", "cluster", "name", "partition", "user")  # of a job


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs or nodes. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    tables = JobTables(keep_identity=options.keep_identity)
    try:
        top = parse_json(read_text(source, quality), quality, names=tables.asked)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not JSON ({error})"
        ) from error
    top = top if isinstance(top, dict) else {}
    jobs, nodes = (_list(top, key) for key in ("jobs", "nodes"))
    bad = damaged = 0
    for job in jobs:
        if not isinstance(job, dict) or read_whole(job.get("job_id")) is None:
            bad += 1
        else:
            # A text that is an object has taken up what stood behind it.
            bad += any(isinstance(job.get(name), dict | list) for name in _TEXTS)
            damaged += _add_job(tables, job)
    for node in nodes:
        host = isinstance(node, dict) and tables.name("node", node.get("name"))
        if host:
            tables.rows["cluster_nodes"].append({"host": host, **describe_node(node)})
        else:
            bad += 1
    made = tables.tables()
    if not made:
        raise DamagedError(f"cannot read {source.given}", why="it holds no job and no node")
    quality += note_bad_lines(bad, "jobs or nodes")
    quality += note_damaged_summaries(damaged)
    tables.asked.note(quality)
    return Imported(made, Recording("slurm", _read_version(top), of_host=True), quality)


def _list(top: Any, key: str) -> list[Any]:
    """A list of a document; empty where there is none."""
    found = top.get(key) if isinstance(top, dict) else None
    return found if isinstance(found, list) else []


def _read_version(top: dict[str, Any]) -> str | None:
    meta = top.get("meta")
    slurm = (meta.get("slurm") or meta.get("Slurm")) if isinstance(meta, dict) else None
    return read_word(slurm.get("release")) if isinstance(slurm, dict) else None


def _add_job(tables: JobTables, job: dict[str, Any]) -> bool:
    """A job of accounting or of the queue; whether its summary is damaged."""
    if not isinstance(job.get("time"), dict):
        comment, hosts = job.get("admin_comment"), job.get("nodes")
        return add_summarized(
            tables, name_array_task(job), describe_queued_job(job), comment, hosts
        )
    facts = _describe_accounted(job)
    comment = job.get("comment")
    told = comment.get("administrator") if isinstance(comment, dict) else None
    row = len(tables.rows["jobs"])
    is_damaged = add_summarized(tables, name_array_task(job), facts, told, job.get("nodes"))
    _add_gpu_use(tables, row, _list_steps(job))
    return is_damaged


def _describe_accounted(job: dict[str, Any]) -> dict[str, Any]:
    """Columns of `jobs`, of a job as `sacct --json` has it."""
    time, about = job["time"], _dict(job, "association")
    given, asked = (_list_tres(_dict(job, "tres").get(key)) for key in ("allocated", "requested"))
    state = _dict(job, "state")
    steps = _list_steps(job)
    gpus, kind = _count_gpus(given)
    end = seconds_to_ns(time.get("end"))
    energy = [read_real(_dict(step, "statistics", "energy").get("consumed")) for step in steps]
    memory = given.get("mem", asked.get("mem"))
    return {
        "raw_job_id": read_whole(job.get("job_id")),
        "cluster": read_word(job.get("cluster") or about.get("cluster")),
        "partition": read_word(job.get("partition") or about.get("partition")),
        "user": job.get("user") or about.get("user"),
        "project": job.get("account") or about.get("account"),
        "name": read_word(job.get("name")),
        "state": read_state(state.get("current") if state else job.get("state")),
        "submit_ns": seconds_to_ns(time.get("submission")),
        "start_ns": seconds_to_ns(time.get("start")),
        "end_ns": end,
        "duration_ns": seconds_to_ns(time.get("elapsed")),
        "limit_ns": _minutes(time.get("limit")),
        "nodes": given.get("node") or read_whole(job.get("allocation_nodes")),
        "cpus": given.get("cpu") or read_whole(_dict(job, "required").get("CPUs")),
        "gpus": gpus,
        "gpu_type": kind,
        "memory_bytes": None if memory is None else read_whole(memory * _MIB),
        "used_memory_bytes": max(filter(None, map(_sum_memory, steps)), default=None),
        "cpu_time_ns": _read_cpu_time(time.get("total")),
        "energy_j": max((e for e in energy if e and 0 < e < 1 << 60), default=None),
    }


def _dict(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _list_steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    steps = job.get("steps")
    return [s for s in steps[:_STEPS] if isinstance(s, dict)] if isinstance(steps, list) else []


def _list_tres(listed: Any) -> dict[str, int]:
    """[{"type": "gres", "name": "gpu:a100", "count": 4}] as names and counts."""
    found: dict[str, int] = {}
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and (count := read_whole(one.get("count"))) is not None:
            name = read_word(one.get("name"))
            found[f"{one.get('type')}/{name}" if name else str(one.get("type"))] = count
    return found


def _count_gpus(tres: dict[str, int]) -> tuple[int | None, str | None]:
    kinds = {n.partition("gres/gpu:")[2]: c for n, c in tres.items() if n.startswith("gres/gpu:")}
    whole = tres.get("gres/gpu", sum(kinds.values()) if kinds else None)
    return whole, next(iter(kinds), None)


def _sum_memory(step: dict[str, Any]) -> int | None:
    """Memory of all tasks of a step: Slurm's total where it has one, in bytes."""
    tres = _dict(step, "tres", "requested")
    found = [_list_tres(tres.get(key)).get("mem") for key in ("total", "max")]
    return next((size for size in found if size), None)


def _read_cpu_time(total: Any) -> int | None:
    if not isinstance(total, dict):
        return None
    seconds = read_real(total.get("seconds")) or 0
    micro = read_real(total.get("microseconds")) or 0
    return read_whole(seconds * 1e9 + micro * 1e3) or None


def _minutes(value: object) -> int | None:
    number = read_real(value)
    return None if number is None or number >= 1 << 32 else read_whole(number * 60e9)


def _add_gpu_use(tables: JobTables, job: int, steps: list[dict[str, Any]]) -> None:
    """gpuutil (%) and gpumem (bytes) of the step that has most of each."""
    for tres, metric, unit in (
        ("gres/gpuutil", "acc_utilization", ("%", "")),
        ("gres/gpumem", "acc_mem_used", ("B", "")),
    ):
        lists = [_dict(step, "tres", "requested") for step in steps]
        values = {
            ours: max(
                filter(None, (_list_tres(one.get(theirs)).get(tres) for one in lists)), default=None
            )
            for ours, theirs in (("avg", "average"), ("max", "max"))
        }
        tables.add_mean(job, metric, values, unit, scope="accelerator")
