"""What compiled programs take of a device's memory, as lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text, make_printable
from sightline.core.units import format_bytes, format_pct, format_several

_PROGRAMS, _BUFFERS = 5, 6


_PARTS = ("total", "parameter", "output", "temporary")


def print_programs(data: dict[str, Any]) -> Iterator[Text]:
    """One line a program, then the largest buffers of the first."""
    programs = data["programs"]
    if not programs:
        return
    heads = "".join(f"{name:>12}" for name in _PARTS)
    yield Text(f"{'Compiled programs (XLA)':<32}{heads}", "bold")
    for row in programs[:_PROGRAMS]:
        sizes = "".join(f"{format_bytes(row[f'{part}_bytes']):>12}" for part in _PARTS)
        yield Text(f"  {fit_text(_name_program(row), 28):<30}{sizes}")
    if len(programs) > _PROGRAMS:
        left = format_several(len(programs) - _PROGRAMS, "smaller program")
        yield Text(f"  … {left}:  sightline stats program_memory", "dim")
    if not data["buffers"]:
        return
    yield Text()
    label = fit_text(f"At the peak of {_name_program(programs[0])}", 57)
    yield Text(f"{label:<59}{'bytes':>12}{'share':>9}", "bold")
    for row in data["buffers"][:_BUFFERS]:
        name = f"{row['buffer_kind']:<10} {row['shape'] or ''} {_name_place(row)}"
        sizes = f"{format_bytes(row['bytes']):>12}{format_pct(row['bytes_pct']):>9}"
        yield Text(f"  {fit_text(make_printable(name), 56):<57}{sizes}")
    if len(data["buffers"]) > _BUFFERS:
        left = format_several(len(data["buffers"]) - _BUFFERS, "smaller buffer")
        yield Text(f"  … {left}:  sightline stats program_peak_buffers", "dim")


def _name_program(row: dict[str, Any]) -> str:
    space = f", memory space {row['memory_space']}" if row["memory_space"] else ""
    rank = f"rank {row['rank']} " if row["rank"] else ""
    return make_printable(f"{rank}{row['program']}{space}")


def _name_place(row: dict[str, Any]) -> str:
    """Where the source says it, else the operation, else the instruction."""
    if row["file"] and row["line"]:
        return f"{row['file'].rsplit('/', 1)[-1]}:{row['line']}"
    return row["operation"] or row["instruction"] or ""
