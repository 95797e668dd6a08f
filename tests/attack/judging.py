"""What an outcome must be, worked out apart from sightline, and the table of all outcomes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blake3 import blake3

from attack.children import Outcome

_PART = 64 << 20
# Of the answers, those that say what is missing, those that say that nothing is, and those that
# have no place for it (a table, a page). From "exit 1" on, all must be 0.
COLUMNS = (
    "runs", "refused", "lossy", "whole", "other",
    "exit 1", "exit 3", "died", "hung", "other's", "unsaid", "unlike",
)  # fmt: skip


# Remarks that are no warning, as there may be no loss: a text that ends within a line.
_ALSO_SAID = ("open_end", "damaged_text")


def _is_said(row: dict[str, Any]) -> bool:
    return row["severity"] in ("warning", "error") or row["kind"] in _ALSO_SAID


@dataclass(frozen=True)
class Answer:
    """What a command says of the recordings that it has read."""

    contents: tuple[str, ...]  # the hash of each
    said: frozenset[str]  # warnings and errors
    rows: int  # recorded things


@dataclass
class Counted:
    """The table that is printed, and examples of what must not be."""

    table: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    bad: list[str] = field(default_factory=list)

    def add(self, kind: str, what: str, example: str | None = None) -> None:
        """Count one outcome; with an example, one that must not be, which is printed at once."""
        self.table[kind][what] += 1
        if example is not None:
            self.bad.append(f"{what}: {example}")
            print(self.bad[-1], file=sys.stderr, flush=True)

    def merge(self, other: Counted) -> None:
        """Add another worker's counts."""
        for kind, row in other.table.items():
            self.table[kind].update(row)
        for kind, seconds in other.slowest.items():
            self.slowest[kind] = max(self.slowest[kind], seconds)
        self.bad += other.bad

    def format_table(self) -> str:
        """A line for each kind of input, and one for all."""
        total: Counter[str] = Counter()
        lines = [f"{'input':<18}" + "".join(f"{c:>9}" for c in COLUMNS) + "  slowest"]
        for kind in sorted(self.table):
            total.update(self.table[kind])
            lines.append(_format_line(kind, self.table[kind], self.slowest[kind]))
        lines.append(_format_line("all", total, max(self.slowest.values(), default=0.0)))
        return "\n".join(lines)


def _format_line(kind: str, row: Counter[str], slowest: float) -> str:
    return f"{kind:<18}" + "".join(f"{row[c]:>9}" for c in COLUMNS) + f"{slowest:>7.1f} s"


def hash_file(path: Path) -> str:
    """What an answer must say that it is about, worked out here on our own."""
    data = path.read_bytes()
    starts = range(0, max(len(data), 1), _PART)
    parts = b"".join(blake3(data[s : s + _PART]).digest() for s in starts)
    return hashlib.blake2b(parts, digest_size=16).hexdigest()


def read_answer(words: list[str], outcome: Outcome, folder: Path) -> Answer | None:
    """What the command has said, where it says what it is about; None where it says nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if words[0] == "report":
            return _read_report(json.loads(outcome.out))
        if words[0] == "import":
            return _read_store(json.loads((folder / "made.sightline" / "run.json").read_bytes()))
        if words[0] == "sql":
            contents = tuple(row["content"] for row in json.loads(outcome.out))
            return Answer(contents, frozenset(), 0)
    return None


def says_what_it_is_about(words: list[str]) -> bool:
    """Whether a command's answer has the hash of what it read."""
    return words[0] in ("import", "sql") or (words[0] == "report" and "--json" in words)


def says_what_is_missing(words: list[str]) -> bool:
    """Whether a command's answer has a place for what could not be read."""
    return words[0] in ("import", "report") and says_what_it_is_about(words)


def _read_report(data: dict[str, Any]) -> Answer:
    return Answer(
        tuple(r["content"] for r in data["recordings"]),
        frozenset(r["kind"] for r in data["limits"] if _is_said(r)),
        _count_recorded(data["counts"]),
    )


def _read_store(facts: dict[str, Any]) -> Answer:
    recordings = facts["recordings"]
    quality = [row for r in recordings for row in r["quality"]]
    return Answer(
        tuple(r["content"] for r in recordings),
        frozenset(row["kind"] for row in quality if _is_said(row)),
        sum(_count_recorded(r["rows"]) for r in recordings),
    )


def _count_recorded(rows: dict[str, int]) -> int:
    return sum(n for name, n in rows.items() if name not in ("quality", "recordings"))
