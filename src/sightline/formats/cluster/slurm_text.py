"""What `scontrol show job`, `scontrol show node`, `squeue` and `seff` print for people.

Blocks of NAME=VALUE, of several lines or of one (`scontrol -o`); squeue's table with its usual
heading; seff's lines. Several outputs may follow each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.cluster._jobs import JobTables, read_whole, read_word
from sightline.formats.cluster._jobstats import note_damaged_summaries
from sightline.formats.cluster._slurm import (
    NO_ZONE,
    expand_hosts,
    read_length,
    read_size,
    read_state,
)
from sightline.formats.cluster._slurm_jobs import (
    add_summarized,
    describe_control_job,
    describe_control_node,
)

IMPORTER = Importer(
    name="slurm_text",
    label="Slurm's scontrol, squeue and seff",
    strong=(
        rb"(?:\A|\n)JobId=\d{1,18} (?:ArrayJobId=\d{1,18} .{0,200})?(?:Job)?Name=",
        rb"(?:\A|\n)NodeName=[\w.-]{1,200} (?:Arch=|CoresPerSocket=)",
        rb"(?:\A|\n) {0,20}JOBID +PARTITION +NAME +USER +ST +TIME +NODES +NODELIST",
        rb"(?:\A|\n)Job ID: \d{1,18}\r?\n(?:[A-Z][^\n]{0,200}\n){0,12}CPU Utilized: ",
    ),
    weak=(),
    looks_like="JobId=4711 JobName=…, NodeName=… Arch=…, squeue's table, or seff's 'Job ID: 4711'",
    suffixes=(".txt", ".log", ".out"),
    version=6,
    source="https://slurm.schedmd.com/scontrol.html",
)

_FIELD = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z/:_]{0,60})=")
_SECOND = re.compile(
    r"(?<=\S)(?<!Array)(?:JobId=\d{1,18} (?:ArrayJobId|JobName|Name)"
    r"|NodeName=[\w.-]{1,200} (?:Arch|CoresPerSocket))="
)
# Values that may hold blanks and signs of equality: to the end of their line.
_TO_THE_END = {"Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "AdminComment"}
_TO_THE_END |= {"Reason", "SubmitLine", "SystemComment", "OS"}
_SHORT_STATES = {
    "R": "running", "PD": "pending", "CG": "completing", "S": "suspended", "CF": "configuring",
    "CD": "completed", "F": "failed", "CA": "cancelled", "TO": "timeout", "NF": "node_fail",
    "OOM": "out_of_memory", "PR": "preempted",
}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs and nodes. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    tables = JobTables(keep_identity=options.keep_identity)
    damaged = damaged_blocks = 0
    for kind, fields in _split_blocks(text):
        if kind == "JobId":
            damaged += _add_job(tables, fields)
        elif not (host := tables.name("node", fields["NodeName"])):
            damaged_blocks += 1
        else:
            row = {"host": host, **describe_control_node(fields)}
            tables.rows["cluster_nodes"].append(row)
    bad = sum(_add_queued(tables, line) for line in _list_queued(text))
    for block in re.split(r"(?m)^(?=Job ID: \d)", text):
        _add_efficiency(tables, block)
    made = tables.tables()
    if not made:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete job or node")
    quality += note_bad_lines(bad, "lines of squeue")
    quality += note_bad_lines(damaged_blocks + _count_odd_lines(text), "lines of scontrol")
    quality += [*note_damaged_summaries(damaged), *tables.note_left_out()]
    return Imported(made, Recording("slurm", of_host=True), [*quality, NO_ZONE])


def _split_blocks(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Blocks of fields by what they begin with: JobId or NodeName."""
    for block in re.split(r"(?m)^(?=(?:JobId|NodeName)=)", text):
        kind = block.partition("=")[0]
        if kind in ("JobId", "NodeName"):
            yield kind, dict(_list_fields(block))


def _count_odd_lines(text: str) -> int:
    """How many indented lines of blocks have no field, or another block behind them.

    `NAME=VALUE` stands in each.
    """
    count, is_within = len(_SECOND.findall(text)), False
    lines = text.splitlines()
    for line, below in pairwise([*lines, ""]):
        # What is left of a block's first line: its fields stand below.
        is_head = bool(line) and line[0].isalnum() and re.match(r" {2,}\w+=", below) is not None
        count += is_head and "=" not in line.split()[0]
        begins = line.startswith(("JobId=", "NodeName="))
        # Lines of a block are indented, and a blank one stands behind the last.
        count += is_within and bool(line) and line[0] != " " and not begins and "=" in line
        is_within = begins or (is_within and line[:1] == " ")
        count += is_within and bool(line.strip()) and "=" not in line
    return count


def _list_fields(block: str) -> Iterator[tuple[str, str]]:
    is_one_line = "\n" not in block.strip()
    for line in block.splitlines():
        found = list(_FIELD.finditer(line))
        for i, field in enumerate(found):
            name = field[1]
            is_last = i + 1 == len(found) or (name in _TO_THE_END and not is_one_line)
            end = len(line) if is_last else found[i + 1].start()
            yield name, line[field.end() : end].strip()
            if is_last:
                break


def _add_job(tables: JobTables, fields: dict[str, str]) -> bool:
    array, task = read_word(fields.get("ArrayJobId")), read_word(fields.get("ArrayTaskId"))
    job_id = f"{array}_{task}" if array and task else fields["JobId"].split()[0]
    hosts = fields.get("NodeList")
    comment = fields.get("AdminComment")
    return add_summarized(tables, job_id, describe_control_job(fields), comment, hosts)


def _list_queued(text: str) -> Iterator[str]:
    """Lines below squeue's usual heading, up to a blank one."""
    is_below = False
    for line in text.splitlines():
        if re.match(r"^ {0,20}JOBID +PARTITION +NAME +USER +ST +TIME +NODES", line):
            is_below = True
        elif not line.strip():
            is_below = False
        elif is_below:
            yield line


def _add_queued(tables: JobTables, line: str) -> bool:
    """A line of squeue; whether it is none. Only the name may hold blanks."""
    found = re.match(
        r"^\s*(\d{1,18}(?:_\S{1,60})?)\s+(\S+)\s+(.*?)\s+(\S+)\s+([A-Z]{1,4})\s+"
        r"((?:\d+-)?[\d:]+|INVALID)\s+(\d{1,9})\s+(.*)$",
        line,
    )
    if found is None:
        return True
    job_id, partition, name, user, state, length, nodes, where = found.groups()
    row = tables.add_job(
        job_id,
        partition=read_word(partition),
        name=read_word(name),
        user=user,
        state=_SHORT_STATES.get(state, state.lower()),
        duration_ns=read_length(length),
        nodes=int(nodes),
    )
    for host in expand_hosts(where) if not where.startswith("(") else ():
        tables.add_node(row, host)
    return False


def _add_efficiency(tables: JobTables, block: str) -> None:
    """What seff prints of a job."""
    fields = dict(re.findall(r"(?m)^([A-Z][\w /-]{1,40}): (.*?)\s*$", block))
    if "CPU Utilized" not in fields or not (fields.get("Job ID") or "").isdecimal():
        return
    length = read_length(fields.get("Job Wall-clock time"))
    core_time = read_length(_take_word(fields.get("CPU Efficiency"), " of "))
    facts: dict[str, Any] = {
        "raw_job_id": int(fields["Job ID"]),
        "cluster": read_word(fields.get("Cluster")),
        "user": (fields.get("User/Group") or "").partition("/")[0],
        "state": read_state(fields.get("State")),
        "duration_ns": length,
        "cpus": round(core_time / length) if core_time and length else None,
        "nodes": read_whole(fields.get("Nodes")),
        "cpu_time_ns": read_length(fields.get("CPU Utilized")),
        "used_memory_bytes": read_size(_take_size(fields.get("Memory Utilized"))),
        "memory_bytes": read_size(
            _take_size((fields.get("Memory Efficiency") or "").partition(" of ")[2])
        ),
    }
    tables.add_job(fields["Job ID"], **facts)


def _take_word(text: str | None, behind: str) -> str | None:
    words = (text or "").partition(behind)[2].split()
    return words[0] if words else None


def _take_size(text: str | None) -> str | None:
    """'1.50 GB (estimated maximum)' as a size."""
    found = re.match(r"^([\d.]+) ?([KMGTPE]?B)", text or "")
    return f"{found[1]}{found[2]}" if found else None
