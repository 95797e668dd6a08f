"""The examples in the documentation: fenced blocks, with where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from support.places import ROOT

# Written by scripts/reference.py out of the code, and checked by it.
_MADE = {"reference.md"}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MEMBER = re.compile(
    r"`src/sightline/([\w/]+)\.py`[^\n]*:\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """A fenced block, of a language, in a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README.md, all pages of docs/ that a person wrote, and what tells agents how to use it."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    skill = ROOT / "examples" / "agents" / "SKILL.md"
    return [ROOT / "README.md", *(p for p in found if p.name not in _MADE), skill]


def blocks(*languages: str) -> list[Block]:
    """All blocks of these languages."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            if match[1] in languages:
                line = text[: match.start()].count("\n") + 2
                name = page.relative_to(ROOT).as_posix()
                found.append(Block(name, line, match[1], match[2]))
    return found


def members_of_the_guide() -> dict[str, str]:
    """The example members of docs/contributing.md: their place under src/sightline, their code."""
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    return {match[1]: match[2] for match in _MEMBER.finditer(text)}
