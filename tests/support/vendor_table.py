"""tests/vendor_options.tsv: each option of a vendor's tool, the versions that have it, and not.

`note` says why an option is typed that a version does not have, or where it is documented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from support.places import ROOT
from support.typed_options import Typed
from support.vendor_helps import Help, find_wrong_value, has_option

TABLE = ROOT / "tests" / "vendor_options.tsv"
_HEAD = "tool\tcommand\toption\thas\tlacks\tnote"


class Row(NamedTuple):
    """One option: tool, its command, versions as `2022.4.2,2023.4.4`."""

    tool: str
    command: str
    option: str
    has: str
    lacks: str
    note: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.tool, self.command, self.option


def read_table() -> list[Row]:
    """All rows; none where there is no table yet."""
    lines = TABLE.read_text().splitlines()[1:] if TABLE.exists() else []
    return [Row(*line.split("\t")) for line in lines]


def write_table(rows: Iterable[Row]) -> None:
    """Write the table anew."""
    TABLE.write_text("\n".join([_HEAD, *("\t".join(row) for row in rows)]) + "\n")


# Values that are newer than any version that was at hand, and where they are documented.
_LATER = {("nsys", "--type", "jsonlines"): "NVIDIA's user guide, nsys export; before, it was json"}


def check_options(
    typed: Sequence[Typed], helps: Sequence[Help], known: Iterable[Row]
) -> tuple[list[Row], list[str]]:
    """The table's rows, and what is wrong: each option in each version, values in the newest."""
    old = {row.key: row for row in known}
    rows, wrong = [], []
    for key in sorted({(t.tool, t.command, t.option) for t in typed}):
        places = [t for t in typed if (t.tool, t.command, t.option) == key]
        of_tool = [told for told in helps if told.tool == key[0]]
        if not of_tool:
            rows.append(old.get(key, Row(*key, "", "", "")))
            continue
        answers = {told.version: has_option(told, *key[1:]) for told in of_tool}
        lacks = ",".join(version for version, answer in answers.items() if answer is False)
        has = ",".join(version for version, answer in answers.items() if answer)
        note = old[key].note if key in old else ""
        rows.append(Row(*key, has, lacks, note))
        if lacks and not note:
            wrong.append(f"{' '.join(key)}: not in {lacks}: {places[0].place}")
        for one in places:
            word = find_wrong_value(of_tool[-1], one)
            if word is not None and (one.tool, one.option, word) not in _LATER:
                wrong.append(f"{' '.join(key)} {word}: not in {of_tool[-1].version}: {one.place}")
    return rows, wrong
