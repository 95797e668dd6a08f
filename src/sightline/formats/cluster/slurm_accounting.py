"""What `sacct --parsable2` prints: a line of names, then a line of each job and each of its steps.

Any delimiter (`--delimiter`), and comments of several lines. The steps of a job are folded into it:
the most memory, the time of its processors, what GPUs did where Slurm gathers it (gres/gpuutil).
"""

from __future__ import annotations

import re
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import count_misspelt, note_names
from sightline.formats.cluster._jobs import JobTables, read_whole, read_word
from sightline.formats.cluster._jobstats import (
    add_summary,
    decode_summary,
    note_damaged_summaries,
    sum_summary,
)
from sightline.formats.cluster._slurm import (
    NO_ZONE,
    count_gpus,
    expand_hosts,
    read_length,
    read_request,
    read_size,
    read_state,
    read_time,
    read_tres,
)

_NAMES = rb"(?:Account|AdminComment|AllocCPUS|AllocTRES|Cluster|Elapsed\w*|End|JobIDRaw|JobName|Max"
_NAMES += rb"RSS|NCPUS|NNodes|NodeList|Partition|ReqMem|ReqTRES|Start|State|Submit|TotalCPU|User)"

IMPORTER = Importer(
    name="slurm_accounting",
    label="Slurm's accounting (sacct)",
    strong=(
        rb"\A(?:\xef\xbb\xbf)?(?:\w{2,40}[^\w\n]{1,4}){0,200}?JobID([^\w\n]{1,4})"
        rb"(?:\w{2,40}\1){0,200}?" + _NAMES + rb"(?:[^\w\n]|\r?\n)",
    ),
    weak=(),
    looks_like="a line of names such as JobID|State|Start|End|AllocTRES, as sacct -P prints it",
    suffixes=(".txt", ".sacct", ".csv", ".psv", ".log"),
    version=6,
    source="https://slurm.schedmd.com/sacct.html",
)

# Names that are looked for, and others of sacct that are nearly one of them (sacct(1), --format).
_LOOKED_FOR = {
    "Account", "AdminComment", "AllocCPUS", "AllocNodes", "AllocTRES", "Cluster", "Elapsed",
    "ElapsedRaw", "End", "ExitCode", "JobIDRaw", "JobName", "NodeList", "Partition", "ReqMem",
    "ReqTRES", "Start", "State", "Submit", "Timelimit", "TimelimitRaw", "TotalCPU",
    "TRESUsageInTot", "User",
}  # fmt: skip
_OTHERS = {
    "AllocGRES", "ReqGRES", "AllocCPUs", "ReqCPUS", "ReqNodes", "UserCPU", "SystemCPU",
    "TRESUsageInMax", "TRESUsageInAve", "TRESUsageInMin", "TRESUsageOutTot", "SubmitLine",
    "SystemComment", "DerivedExitCode",
}  # fmt: skip
_LINES_OF_A_RECORD = 400  # a script in a comment is longer than any comment that people write
_Row = dict[str, str]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs. Raises DamagedError where no line is whole."""
    quality: list[Quality] = []
    records, bad = _split_records(read_text(source, quality))
    tables = JobTables(keep_identity=options.keep_identity)
    damaged = sum(_add_job(tables, rows) for rows in _group_steps(records))
    if not tables.rows["jobs"]:
        raise DamagedError(f"cannot read {source.given}", why="no line of it is a whole job")
    quality += note_bad_lines(bad, "jobs or steps")
    quality += note_names(count_misspelt(records[0], _LOOKED_FOR, _OTHERS))
    quality += note_damaged_summaries(damaged)
    return Imported(tables.tables(), Recording("sacct", of_host=True), [*quality, NO_ZONE])


def _split_records(text: str) -> tuple[list[_Row], int]:
    """Rows by the names of the first line, and how many lines belong to none."""
    lines = text.splitlines()
    found = re.search(r"(?:^|\W)JobID([^\w\n]{1,4})", lines[0]) if lines else None
    if found is None:
        return [], 0
    delimiter = found[1]
    names = [name.strip() for name in lines[0].split(delimiter)]
    place = names.index("JobID")
    records: list[_Row] = []
    held: list[str] = []
    bad = 0

    def is_record(cells: list[str]) -> bool:
        return len(cells) == len(names) and re.match(r"\d{1,18}", cells[place]) is not None

    for line in lines[1:]:
        if line == lines[0]:  # the names again, where outputs follow each other
            continue
        cells = line.split(delimiter)
        if is_record(cells):  # whole by itself: what was held is not part of it
            bad += len(held)
        else:
            held.append(line)
            # What cannot become a record any more is the end of another.
            while held and not is_record(cells := "\n".join(held).split(delimiter)):
                if len(cells) < len(names) and len(held) < _LINES_OF_A_RECORD:
                    break
                del held[0]
                bad += 1
            if not held or not is_record(cells):
                continue
        held = []
        records.append(dict(zip(names, cells, strict=True)))
    return records, bad + len([line for line in held if line.strip()])


def _group_steps(records: list[_Row]) -> list[list[_Row]]:
    """Each job's own line, and those of its steps. A requeued job has a line for each time."""
    groups: list[list[_Row]] = []
    last: dict[str, list[_Row]] = {}
    for row in records:
        held = last.get(_name_job(row))
        if held is None or (_is_whole(row) and _is_whole(held[0])):
            last[_name_job(row)] = [row]
            groups.append(last[_name_job(row)])
        elif _is_whole(row):
            held.insert(0, row)
        else:
            held.append(row)
    return groups


def _name_job(row: _Row) -> str:
    return row["JobID"].partition(".")[0]


def _is_whole(row: _Row) -> bool:
    """Whether it is a job's own line, and no step's."""
    return "." not in row["JobID"]


def _add_job(tables: JobTables, rows: list[_Row]) -> bool:
    """A job of its own line and those of its steps; whether its summary is damaged."""
    job = rows[0]
    job_id = _name_job(job)
    given = read_tres(_first(rows, "AllocTRES"))
    asked = read_tres(_first(rows, "ReqTRES"))
    gpus, kind = count_gpus(given)
    is_pending = read_state(job.get("State")) == "pending"
    if gpus is None and is_pending:
        gpus, kind = count_gpus(asked)
    nodes = _count(given.get("node") or _first(rows, "AllocNodes") or _first(rows, "NNodes"))
    cpus = _count(given.get("cpu") or _first(rows, "AllocCPUS") or _first(rows, "NCPUS"))
    start, end = read_time(_first(rows, "Start")), read_time(_first(rows, "End"))
    facts: dict[str, Any] = {
        "raw_job_id": read_whole((_first(rows, "JobIDRaw") or job_id).partition(".")[0]),
        "cluster": read_word(_first(rows, "Cluster")),
        "partition": read_word(_first(rows, "Partition")),
        "user": _first(rows, "User"),
        "project": _first(rows, "Account"),
        "name": read_word(job.get("JobName")) if _is_whole(job) else None,
        "state": read_state(job.get("State")),
        "exit_code": read_word(job.get("ExitCode")),
        "submit_ns": read_time(_first(rows, "Submit")),
        "start_ns": start,
        "end_ns": end,
        "duration_ns": _read_duration(rows, start, end),
        "limit_ns": _read_limit(rows),
        "nodes": nodes,
        "cpus": cpus,
        "gpus": gpus,
        "gpu_type": kind,
        "memory_bytes": _read_memory(rows, given, asked, nodes, cpus),
        "used_memory_bytes": _find_most_memory(rows, nodes),
        "cpu_time_ns": _sum_cpu_time(rows),
        "energy_j": _find_energy(rows),
    }
    summary = decode_summary(_first(rows, "AdminComment"))
    if isinstance(summary, dict):
        facts |= sum_summary(summary)
    elif summary is not None:
        facts["summary"] = summary
    row = tables.add_job(job_id, **facts)
    if isinstance(summary, dict):
        add_summary(tables, row, summary)
    else:
        for host in expand_hosts(_first(rows, "NodeList")):
            tables.add_node(row, host)
    _add_gpu_use(tables, row, rows)
    return summary == "damaged"


def _first(rows: list[_Row], name: str) -> str | None:
    """What the job's own line says, else the first step that says something."""
    return next((row[name] for row in rows if read_word(row.get(name)) is not None), None)


def _count(text: str | None) -> int | None:
    return read_whole(text) or None


def _read_duration(rows: list[_Row], start: int | None, end: int | None) -> int | None:
    seconds = read_whole(_first(rows, "ElapsedRaw"))
    if seconds is not None:
        return read_whole(seconds * 10**9)
    length = read_length(_first(rows, "Elapsed"))
    if length is None and start is not None and end is not None and end >= start:
        return end - start
    return length


def _read_limit(rows: list[_Row]) -> int | None:
    minutes = read_whole(_first(rows, "TimelimitRaw"))
    if minutes is not None:
        return read_whole(minutes * 60 * 10**9)
    return read_length(_first(rows, "Timelimit"))


def _read_memory(
    rows: list[_Row],
    given: dict[str, str],
    asked: dict[str, str],
    nodes: int | None,
    cpus: int | None,
) -> int | None:
    """What it was given, else asked for: of each node or CPU until 21.08, of all since."""
    whole = read_size(given.get("mem"), "M") or read_size(asked.get("mem"), "M")
    if whole:
        return whole
    request = read_request(_first(rows, "ReqMem"))
    if request is None or not request[0]:
        return None
    size, of = request
    return read_whole(size * ({"n": nodes, "c": cpus}.get(of, 1) or 1))


def _find_most_memory(rows: list[_Row], nodes: int | None) -> int | None:
    """Of the step that held most: of all its tasks where that is gathered, else of its only one.

    The batch script runs on the first node alone: of several nodes it says nothing.
    """
    found = []
    for row in rows:
        step = row["JobID"].partition(".")[2]
        if step in ("batch", "extern") and (nodes or 1) > 1:
            continue
        total = read_size(read_tres(row.get("TRESUsageInTot")).get("mem"))
        if not total and read_whole(row.get("NTasks")) == 1:
            total = read_size(row.get("MaxRSS"))
        found += [total] if total else []
    return max(found, default=None)


def _sum_cpu_time(rows: list[_Row]) -> int | None:
    own = read_length(rows[0].get("TotalCPU"))
    if own:
        return own
    steps = [read_length(row.get("TotalCPU")) for row in rows[1:]]
    return read_whole(sum(step for step in steps if step)) if any(steps) else None


def _find_energy(rows: list[_Row]) -> float | None:
    """Joules; a job's line has the sum of its steps where energy is gathered, and 0 where not."""
    found = [read_whole(row.get("ConsumedEnergyRaw")) or 0 for row in rows]
    # A counter that has wrapped around: 2^63 and more is no energy (Slurm's NO_VAL64).
    most = max((joules for joules in found if 0 < joules < 1 << 60), default=0)
    return float(most) or None


def _add_gpu_use(tables: JobTables, job: int, rows: list[_Row]) -> None:
    """gres/gpuutil (%) and gres/gpumem (bytes), of the step that has most of each."""
    for tres, metric, unit in (
        ("gres/gpuutil", "acc_utilization", ("%", "")),
        ("gres/gpumem", "acc_mem_used", ("B", "")),
    ):
        ave = [read_size(read_tres(row.get("TRESUsageInAve")).get(tres)) for row in rows]
        most = [read_size(read_tres(row.get("TRESUsageInMax")).get(tres)) for row in rows]
        values = {
            "avg": max((v for v in ave if v is not None), default=None),
            "max": max((v for v in most if v is not None), default=None),
        }
        tables.add_mean(job, metric, values, unit, scope="accelerator")
