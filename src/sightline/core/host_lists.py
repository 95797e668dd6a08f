"""Hosts as Slurm lists them: node[08-10,12]-ib,r[1-2]n[1-4],login1 (scontrol show hostnames)."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Parts between commas that stand outside of brackets.
_PARTS = re.compile(r"[^,\[\]]*(?:\[[^\]]*\][^,\[\]]*)*")
_MOST_BRACKETS, _MOST_DIGITS = 8, 18  # of a name: racks, chassis, nodes and ports are four
_FIRST_RANGE = re.compile(r"([^\[]*)\[([^\]]*)\](.*)", re.DOTALL)


def expand_host_list(text: str) -> Iterator[str]:
    """The names that a list stands for, in its order; of several brackets the last turns fastest.

    What is no range of numbers stays as it is written, so that a caller sees it. The names are made
    as they are asked for: a range may stand for more of them than anybody wants.
    """
    for part in _PARTS.findall(text):
        if part.strip():
            yield from _expand_part(part.strip())


def _expand_part(part: str) -> Iterator[str]:
    found = _FIRST_RANGE.fullmatch(part)
    if found is None or part.count("[") > _MOST_BRACKETS:
        yield part
        return
    head, inside, tail = found.groups()
    for span in inside.split(","):
        numbers = _read_range(span.strip())
        if numbers is None:
            yield part
            continue
        for number in numbers:
            yield from _expand_part(f"{head}{number}{tail}")


def _read_range(span: str) -> Iterator[str] | None:
    """The numbers of 08-10 with their zeros; None for what is no range, which is never empty."""
    first, dash, last = span.partition("-")
    last = last if dash else first
    if not (first.isdecimal() and last.isdecimal()) or max(map(len, (first, last))) > _MOST_DIGITS:
        return None
    start, end = int(first), int(last)
    return (f"{n:0{len(first)}d}" for n in range(start, end + 1)) if start <= end else None
