"""One job on a screen, as users of Jobstats know it: what it used, what is wrong, what to do."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from sightline.core.text import make_printable
from sightline.core.units import format_bytes, format_note
from sightline.subjects.jobs.job import GPU, Job
from sightline.subjects.jobs.judges._limits import find_cpu_share, is_shared
from sightline.subjects.jobs.judges.asked import find_used_memory
from sightline.subjects.jobs.verdict import Verdict, measure_energy, measure_hours, price_problem
from sightline.views.jobs.course import write_course, write_phases
from sightline.views.jobs.figures import title_of
from sightline.views.jobs.words import (
    draw_bar,
    write_energy,
    write_hours,
    write_length,
    write_time,
)

_BAR, _PLACES = 50, 8


def write_job(job: Job, verdicts: list[Verdict], width: int = 80) -> str:
    """The whole screen."""
    parts = [_write_head(job), _write_use(job), write_course(job), write_phases(job)]
    parts += [_write_places(job), _write_problems(job, verdicts), _write_unjudged(verdicts)]
    text = "\n\n".join(part for part in parts if part)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _write_head(job: Job) -> str:
    row = job.row
    gpus, cores = measure_hours(job)
    size = [
        f"{row[key]:,} {noun if row[key] != 1 else noun[:-1]}"
        for key, noun in (("nodes", "nodes"), ("cpus", "cores"), ("gpus", "GPUs"))
        if row[key]
    ]
    kind = f" ({row['gpu_type']})" if row["gpu_type"] else ""
    given = [
        f"{write_hours(hours)} {noun} hours"
        for hours, noun in ((gpus, "GPU"), (cores, "core"))
        if hours
    ]
    energy = write_energy(measure_energy(job))
    memory = format_bytes(row["memory_bytes"]) if row["memory_bytes"] else None
    fields = [
        ("Job", f"{row['job_id']}  {row['name'] or ''}".strip()),
        ("Owner", _join(row["user"], row["project"])),
        (
            "Cluster",
            " · ".join(filter(None, (row["cluster"], row["sub_cluster"], row["partition"])))
            or None,
        ),
        (
            "State",
            " ".join(filter(None, (row["state"], row["exit_code"] and f"({row['exit_code']})"))),
        ),
        ("Size", (", ".join(size) + kind if size else None)),
        ("Memory", memory and f"{memory} asked for"),
        ("Start", write_time(row["start_ns"]) + " UTC" if row["start_ns"] else None),
        ("Length", _write_limit(row)),
        ("Given", ", ".join([*given, *([energy] if energy else [])]) or None),
        ("Program", row["application"]),
    ]
    return "\n".join(f"{name:>10}: {make_printable(text)}" for name, text in fields if text)


def _join(*words: str | None) -> str:
    return " · ".join(word for word in words if word)


def _write_limit(row: Any) -> str | None:
    if row["duration_ns"] is None:
        return None
    limit = f" of {write_length(row['limit_ns'])}" if row["limit_ns"] else ""
    return write_length(row["duration_ns"]) + limit


def _write_use(job: Job) -> str:
    """Bars of what was used, of what it was given."""
    rows: list[tuple[str, float | None]] = []
    cpu = find_cpu_share(job)
    rows.append(("CPUs", None if cpu is None else 100 * cpu))
    used, asked = find_used_memory(job), job.row["memory_bytes"]
    rows.append(("Memory", 100 * used / asked if used and asked else None))
    gpus = job.find_use("acc_utilization", GPU)
    if job.count("gpus"):
        rows.append(("GPUs", None if gpus is None or np.isnan(gpus.mean) else gpus.mean))
        true = job.find_use("acc_sm_active", GPU)
        if true is not None:
            rows.append(("SM active", true.mean))
    limit = job.row["limit_ns"]
    if limit and job.row["duration_ns"]:
        rows.append(("Time", 100 * job.row["duration_ns"] / limit))
    lines = ["Used, of what it was given"]
    for name, pct in rows:
        lines.append(f"{name:>10}  {'not known' if pct is None else draw_bar(pct, _BAR)}")
    if is_shared(job):
        lines.append(f"{'':>10}  Others ran on its nodes: figures of nodes are not its own.")
    return "\n".join(lines)


def _write_places(job: Job) -> str:
    """A line of each node and GPU, the busiest and idlest where there are many."""
    blocks = []
    gpus = job.find_use("acc_utilization", GPU)
    if gpus is not None and job.count("gpus") and len(gpus.places) > 1:
        memory = job.find_use("acc_mem_used", GPU)
        lines = ["GPUs"]
        for n in _choose(gpus.avg):
            held = _look_up(memory, gpus.places[n])
            shown = f"  memory {format_bytes(held)}" if held is not None else ""
            host, element = gpus.places[n]
            name = f"{host or ''} GPU {element}".strip()
            lines.append(f"  {make_printable(name)[:28]:<28}  {gpus.avg[n]:5.1f} % busy{shown}")
        blocks.append("\n".join(lines + _note_rest(len(gpus.places))))
    load = job.find_use("cpu_load") or job.find_use("cpu_user")
    if load is not None and len(load.places) > 1:
        memory = job.find_use("mem_used")
        lines = ["Nodes"]
        for n in _choose(load.avg):
            held = _look_up(memory, load.places[n])
            shown = f"  memory {format_bytes(held)}" if held is not None else ""
            name = make_printable(load.places[n][0] or "-")[:28]
            lines.append(f"  {name:<28}  {load.avg[n]:6.1f} load{shown}")
        blocks.append("\n".join(lines + _note_rest(len(load.places))))
    return "\n\n".join(blocks)


def _choose(values: np.ndarray) -> list[int]:
    """All of a few places; of many the lowest and the highest."""
    order = [int(n) for n in np.argsort(np.nan_to_num(values, nan=-1.0), kind="stable")]
    if len(order) <= _PLACES:
        return sorted(order)
    return [*order[: _PLACES // 2], *order[-_PLACES // 2 :]]


def _note_rest(count: int) -> list[str]:
    return [f"  … and {count - _PLACES} between these"] if count > _PLACES else []


def _look_up(use: Any, place: tuple[str | None, str | None]) -> float | None:
    if use is None or place not in use.places:
        return None
    value = use.most[use.places.index(place)]
    return None if np.isnan(value) else float(value)


def _write_problems(job: Job, verdicts: list[Verdict]) -> str:
    found = [v for v in verdicts if v.holds]
    if not found:
        seen = [v for v in verdicts if v.holds is False]
        return (
            f"Nothing is wrong with it: {format_note(len(seen), 'questions were asked.')}"
            if seen
            else "It was not judged: it was too short, or nothing is known of its use."
        )
    lines = ["What is wrong"]
    for n, verdict in enumerate(sorted(found, key=lambda v: -v.lost), 1):
        gpus, cores = price_problem(job, verdict)
        noun, hours = ("GPU", gpus) if gpus else ("core", cores)
        cost = f"cost {write_hours(hours)} {noun} hours ({100 * verdict.lost:.0f} %)"
        power = write_energy(verdict.energy_j)
        price = (cost + (f", {power}" if power else "")) if hours else ""
        lines += [f"{n:>3}  {title_of(verdict.rule)}", *_wrap(price)]
        lines += _wrap(make_printable(verdict.text) + ".")
        for line in verdict.evidence:
            lines += _wrap(make_printable(line) + ".")
        if verdict.fix:
            lines += _wrap(make_printable(verdict.fix), "Next  ")
    return "\n".join(lines)


def _write_unjudged(verdicts: list[Verdict]) -> str:
    """What could not be looked for: the same reason once."""
    by: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.holds is None:
            by.setdefault(verdict.text, []).append(verdict.rule.removeprefix("job-"))
    if not by:
        return ""
    lines = ["Not judged"]
    for why, rules in by.items():
        lines += _wrap(f"{', '.join(rules)}: {make_printable(why)}.")
    return "\n".join(lines)


def _wrap(text: str, head: str = "") -> list[str]:
    """At 80 columns, below the number of the problem."""
    if not text:
        return []
    indent = " " * 5
    return textwrap.wrap(
        text,
        80,
        initial_indent=indent + head,
        subsequent_indent=indent + " " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def describe_job(job: Job, verdicts: list[Verdict]) -> dict[str, Any]:
    """The same as data (`--json`)."""
    gpus, cores = measure_hours(job)
    drop = ("rank", "recording_id", "job_row_id")
    return {
        **{key: value for key, value in job.row.items() if key not in drop},
        "gpu_hours": gpus,
        "core_hours": cores,
        "energy_j": measure_energy(job),
        "used": {
            "cpu_ratio": find_cpu_share(job),
            "memory_bytes": find_used_memory(job),
            **{
                f"{metric}/{scope}": None if np.isnan(use.mean) else use.mean
                for (metric, scope), use in sorted(job.uses.items())
            },
        },
        "problems": [
            {
                "rule": verdict.rule,
                "text": verdict.text,
                "lost_pct": 100 * verdict.lost,
                **dict(zip(("gpu_hours", "core_hours"), price_problem(job, verdict), strict=True)),
                "energy_j": verdict.energy_j,
                "evidence": list(verdict.evidence),
                "fix": verdict.fix or None,
            }
            for verdict in verdicts
            if verdict.holds
        ],
        "not_judged": {v.rule: v.text for v in verdicts if v.holds is None},
        "clear": [v.rule for v in verdicts if v.holds is False],
    }
