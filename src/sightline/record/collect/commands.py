"""The command with a vendor's tool around it, as a person would type it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import list_backends


def wrap_command(
    command: Sequence[str],
    backends: Sequence[str],
    folder: Path,
    stem: str,
    options: dict[str, Any],
) -> list[str]:
    """The command with the tool around it of the first of these backends that has one."""
    own = {**options, "cpu": "cpu" in backends}
    for backend in list_backends():
        if backend.name in backends and backend.build_command is not None:
            return backend.build_command(command, folder, f"{stem}.{backend.name}", own)
    return list(command)
