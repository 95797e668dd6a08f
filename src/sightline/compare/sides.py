"""From paths to a side: one run for each path, but ranks of one job together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sightline.compare.fingerprint import is_fingerprint, read_fingerprint
from sightline.compare.sample import Sample, take_sample
from sightline.core.model.declare import ImportOptions
from sightline.core.units import format_several
from sightline.opening.run import open_jobs


def open_side(
    paths: Sequence[str],
    *,
    window: str | None = None,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Sample]:
    """One sample for each run. Each path is a run; those of other ranks of its job belong to it.

    Ranks of one job may as well lie in a folder or be given as a glob in quotes, which is one path.
    A path may be a fingerprint, which is of a whole run; those come last. Raises InputError.
    """
    samples: list[Sample] = []
    recorded: list[str] = []
    kept: list[str] = []
    for path in paths:
        (kept if is_fingerprint(path) else recorded).append(path)
    for members, run in open_jobs(recorded, options=options, progress=progress):
        samples.append(take_sample(run.with_window(window), _name(members)))
    return [*samples, *map(read_fingerprint, kept)]


def _name(members: Sequence[str]) -> str:
    if len(members) == 1:
        return members[0]
    return f"{members[0]} and {format_several(len(members) - 1, 'more rank')}"
