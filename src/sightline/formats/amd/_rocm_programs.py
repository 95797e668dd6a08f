"""Whether CSV files of a folder are of programs that ran at different times, by their processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.units import format_long, format_ns, format_several
from sightline.errors import InputError

# Processes of one job follow each other within the time that a program takes to load. opening's
# same_job takes as much for the difference between the hosts' clocks.
_APART_NS = 60_000_000_000
_PAUSE_NS = 1_000_000_000
_SHOWN = 4  # programs, and files of one


@dataclass
class _Program:
    """Processes without a pause between them, with the files that they wrote."""

    start_ns: int
    end_ns: int
    names: list[str]


def check_programs(files: Sequence[tuple[str, pl.DataFrame]], given: str) -> list[Quality]:
    """Remarks on pauses between the processes of named files.

    Raises InputError where a minute or more lies between them: they are of several programs.
    """
    spans = _list_spans(files)
    programs = _split_at(spans, _APART_NS)
    if len(programs) > 1:
        early, late = programs[0], programs[1]
        pause = late.start_ns - early.end_ns
        sets = [f"  {_list_names(program)}" for program in programs[:_SHOWN]]
        more = len(programs) - _SHOWN
        raise InputError(
            f"{given} holds recordings of {format_several(len(programs), 'program')}",
            why=f"{early.names[0]} ended {format_long(pause)} before {late.names[0]} began",
            hint="\n".join(
                ["Put each program's files into a folder of its own:", *sets]
                + ([f"  … and {more} more"] if more > 0 else [])
            ),
        )
    parts = _split_at(spans, _PAUSE_NS)
    if len(parts) < 2:
        return []
    pauses = [late.start_ns - early.end_ns for early, late in pairwise(parts)]
    text = (
        f"processes ran one after another, with {format_ns(sum(pauses))} between them: the window "
        "holds these pauses"
    )
    remedy = "Put each process's files into a folder of its own."
    return [Quality("separate_processes", "warning", text, len(parts), remedy)]


def _list_spans(files: Sequence[tuple[str, pl.DataFrame]]) -> list[_Program]:
    """From when to when each process is seen, by start; files that name none stand alone."""
    columns = ("Process_Id", "Start_Timestamp", "End_Timestamp")
    seen: dict[tuple[str, int | None], _Program] = {}
    for name, frame in files:
        if not set(columns) <= set(frame.columns):
            continue
        pid, start, end = (pl.col(c).cast(pl.Int64, strict=False) for c in columns)
        rows = frame.select(pid=pid, start=start, end=end).filter(
            pl.col("start") > 0, pl.col("start") <= pl.col("end")
        )
        for number, first, last in (
            rows.group_by("pid").agg(pl.min("start"), pl.max("end")).sort("start").rows()
        ):
            key = ("", number) if number is not None else (name, None)
            known = seen.setdefault(key, _Program(first, last, []))
            known.start_ns, known.end_ns = min(known.start_ns, first), max(known.end_ns, last)
            known.names.append(name)
    return sorted(seen.values(), key=lambda span: span.start_ns)


def _split_at(spans: Sequence[_Program], pause_ns: int) -> list[_Program]:
    """The spans united, but where a pause of this length lies between them."""
    united: list[_Program] = []
    for span in spans:
        if united and span.start_ns - united[-1].end_ns < pause_ns:
            last = united[-1]
            names = list(dict.fromkeys([*last.names, *span.names]))
            united[-1] = _Program(last.start_ns, max(last.end_ns, span.end_ns), names)
        else:
            united.append(_Program(span.start_ns, span.end_ns, list(span.names)))
    return united


def _list_names(program: _Program) -> str:
    names = sorted(program.names)
    more = f" … ({format_several(len(names), 'file')})" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
