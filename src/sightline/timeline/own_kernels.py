"""What a program's own kernel computes, by its name, where that is a well-known algorithm.

own_kernels.tsv: what is faster than a first version of it. A kernel of a library is none of these:
who asks has told them apart.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.packaged_rows import read_rows


class OwnKernel(NamedTuple):
    """A row: an algorithm, how people call kernels of it, and what to try before tuning one."""

    algorithm: str
    pattern: str
    example: str
    advice: str
    source: str


@cache
def list_own_kernels() -> tuple[OwnKernel, ...]:
    """The rows of the table, in their order: the first that matches counts."""
    return tuple(OwnKernel(*row) for row in read_rows("sightline.timeline", "own_kernels.tsv")[1:])


def find_algorithm(name: str) -> OwnKernel | None:
    """The row of a kernel's name, or None. Camel case is read as words: findMaxElement."""
    short = shorten_kernel_name(name).split("<")[0].split("(")[0].split("::")[-1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", short)
    return next((row for row in list_own_kernels() if re.search(row.pattern, words, re.I)), None)
