"""What the exporters share: what one is, and small writers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sightline.core.whole_file import write_whole
from sightline.errors import InputError


@dataclass(frozen=True)
class Exporter:
    """An output format. Its module also has `write(run, target) -> list[Path]`.

    `options` are switches of the command that its `write` takes by name.
    """

    name: str
    label: str
    suffix: str  # of the file, or of the folder that is made
    loses: str  # what the format cannot hold
    options: tuple[str, ...] = ()


def put(target: Path, data: bytes) -> Path:
    """Write a file, whole or not at all; its folder is made. Raises InputError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, data)
    except OSError as error:
        raise InputError(f"cannot write {target}", why=error.strerror) from error
    return target
