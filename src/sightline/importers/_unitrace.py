"""What unitrace's files share: the shape of a launch behind a kernel's name."""

from __future__ import annotations

import re

# Work-groups and the work-items of one.
_SHAPE = re.compile(r"^(.*?)\[SIMD\w+ \{(\d+); (\d+); (\d+)\} \{(\d+); (\d+); (\d+)\}\]$")
_AXES = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]


def split_shape(name: str) -> tuple[str, dict[str, int]]:
    """A kernel's plain name, and grid_x … block_z where they stand behind it and fit 31 bits."""
    found = _SHAPE.match(name)
    if found is None:
        return name, {}
    sizes = {axis: int(size) for axis, size in zip(_AXES, found.groups()[1:], strict=True)}
    return found[1], sizes if all(size < 2**31 for size in sizes.values()) else {}
