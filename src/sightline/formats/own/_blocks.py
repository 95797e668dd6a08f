"""What the importers of files of blocks share (core/model/block_file.py): the header, and clocks.

Nothing in such a file is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, TypeGuard

from sightline.core.model.block_file import HEADER, Block, read_blocks
from sightline.errors import DamagedError

LATEST_NS = 1 << 62


def open_blocks(stream: BinaryIO, given: str, version: int, record_bytes: int) -> Iterator[Block]:
    """The blocks behind the header. Raises DamagedError where that is cut short or another's."""
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        raise DamagedError(f"cannot read {given}", why="it ends inside its header")
    _, own, size, _ = HEADER.unpack(head)
    if own != version or size != record_bytes:
        raise DamagedError(
            f"cannot read {given}",
            why=f"it has version {own}, this sightline reads {version}",
        )
    return read_blocks(stream)


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number from 0 on that may be a time."""
    return type(value) is int and 0 <= value < LATEST_NS


def are_counts(value: Any, count: int) -> TypeGuard[list[int]]:
    """Whether it is a list of so many of them."""
    return isinstance(value, list) and len(value) == count and all(map(is_count, value))


def find_clock(facts: dict[str, Any]) -> tuple[int, int | None]:
    """Wall minus monotonic clock at the start, and by how much they came apart until the end."""
    pairs = facts.get("clock")
    told = pairs if isinstance(pairs, list) else []
    offsets = [pair[1] - pair[0] for pair in told if are_counts(pair, 2)]
    if not offsets:
        return 0, None
    return offsets[0], max(offsets) - min(offsets) if len(offsets) > 1 else None


def read_text(value: Any) -> str | None:
    """A text, or None where it is something else."""
    return value if isinstance(value, str) else None
