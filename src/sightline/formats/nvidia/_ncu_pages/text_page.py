"""Nsight Compute's details as printed for a person: `ncu PROGRAM` without -o, pasted anywhere.

A kernel's line, then its sections: a table whose columns lie under dashes, and rules below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PATTERN = rb"(?:^|\n) {4}Section: [^\n]+\r?\n {4}-{10,} -{3,} -{3,}"
HEADER = [
    "ID", "Process ID", "Process Name", "Kernel Name", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
    "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup",
]  # fmt: skip
_SIZE = r"\(\d{1,10}, ?\d{1,10}, ?\d{1,10}\)"
_KERNEL = re.compile(
    rf"^ {{2}}(\S.{{0,4000}}?)(?: ({_SIZE})x({_SIZE}))?"
    r"(?:, \d{4}-\w{3}-\d\d \d\d:\d\d:\d\d)?, Context (\d{1,9}), Stream (\d{1,9})"
    r"(?:, Device (\d{1,4}))?(?:, CC ([\d.]{1,6}))?\s*$"
)
_PROCESS = re.compile(r"^\[(\d{1,10})\] (.{1,200})@[\w.:-]{1,255}\s*$")
_SECTION = re.compile(r"^ {4}Section: (.+?)\s*$")
_RULED = re.compile(r"^ {4}(-{3,}) +(-{3,}) +(-{3,})\s*$")
_RULE = re.compile(r"^ {4}(OPT|WRN|INF|ERR) {1,4}(\S.*?)\s*$")
_GOES_ON = re.compile(r"^ {8,12}(\S.*?)\s*$")
_SPEEDUP = re.compile(r"^Est\. (?:(Local|Global) )?Speedup: ([\d.]+)%\s*")


def list_records(text: str) -> Iterator[list[str]]:
    """The page's metrics and rules, as rows of the CSV page with this `HEADER`."""
    place: list[str] | None = None
    process, section, count = ["", ""], "", 0
    columns: list[tuple[int, int]] = []
    rule: list[str] | None = None
    for line in text.splitlines():
        if rule is not None:
            if more := _GOES_ON.match(line):
                rule[1] += " " + more[1]
                continue
            yield _write_rule([*(place or []), section], rule)
            rule = None
        if found := _KERNEL.match(line):
            name, grid, block, context, stream, device, capability = (
                g or "" for g in found.groups()
            )
            place = [str(count), *process, name, context, stream, block, grid, device, capability]
            count, section, columns = count + 1, "", []
        elif found := _PROCESS.match(line):
            process = [found[1], found[2]]
        elif place is None:
            continue
        elif found := _SECTION.match(line):
            section, columns = found[1], []
        elif found := _RULED.match(line):
            columns = [found.span(n) for n in (1, 2, 3)]
        elif found := _RULE.match(line):
            rule = [found[1], found[2]]
        elif columns and line.startswith("    "):
            cells = _cut_cells(line, columns)
            if cells and cells[0] != "Metric Name":
                yield [*place, section, *cells, "", "", "", "", ""]
    if rule is not None and place is not None:
        yield _write_rule([*place, section], rule)


def _cut_cells(line: str, columns: list[tuple[int, int]]) -> list[str] | None:
    """A metric's name, unit and value; None for a line that is none.

    A long name reaches into the unit's column, which is right-aligned, as the value's is.
    """
    words = line.split()
    value = line[columns[2][0] :].strip()
    name, unit = line[: columns[0][1]].strip(), line[columns[0][1] : columns[2][0]].strip()
    if not words or not value or not name:
        return None
    return [name, unit, value]


def _write_rule(place: list[str], rule: list[str]) -> list[str]:
    kind, text = rule
    speedup = _SPEEDUP.match(text)
    if speedup is None:
        return [*place, "", "", "", place[-1], kind, text, "", ""]
    return [*place, "", "", "", place[-1], kind, text[speedup.end() :],
            (speedup[1] or "global").lower(), speedup[2]]  # fmt: skip
