"""The commands by what a person wants to do: how `sightline --help` lists them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

# Within a group in the order in which they are met.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Why is it slow",
        ("report", "findings", "explain", "whatif", "critical-path", "next", "serve", "tour"),
    ),
    (
        "Look closer",
        ("stats", "sql", "flame", "roofline", "memory", "events", "graph", "tables", "analyses"),
    ),
    (
        "Record",
        ("run", "attach", "probe", "capture", "daemon", "doctor"),
    ),
    (
        "Before and after",
        ("try", "compare", "history", "verify", "fingerprint"),
    ),
    (
        "Many GPUs, many ranks",
        ("ranks", "scaling", "jobs", "job", "cluster", "mig"),
    ),
    (
        "Watch a machine",
        ("top", "watch", "health", "failures"),
    ),
    (
        "Files, formats, agents",
        ("import", "export", "formats", "cache", "mcp", "rules", "completion", "lab"),
    ),
)
_OTHERS = "More"
_WIDTH = 80


def list_groups(helps: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Each group's title and those of its commands that there are; what is in none comes last."""
    grouped = {name for _, names in GROUPS for name in names}
    for title, names in GROUPS:
        if present := [name for name in names if name in helps]:
            yield title, present
    if rest := [name for name in helps if name not in grouped]:
        yield _OTHERS, rest


def write_groups(helps: Mapping[str, str]) -> str:
    """The list of commands with a sentence each, at 80 columns."""
    room = max(map(len, helps), default=0) + 4
    blocks = []
    for title, names in list_groups(helps):
        lines = [f"{title}:"]
        for name in names:
            lines += textwrap.wrap(
                helps[name],
                _WIDTH,
                initial_indent=f"  {name}".ljust(room),
                subsequent_indent=" " * room,
                break_on_hyphens=False,
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
