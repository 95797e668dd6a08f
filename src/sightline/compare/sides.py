"""From paths to a side: one run for each path, but ranks of one job together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sightline.compare.sample import Sample, take_sample
from sightline.errors import InputError
from sightline.model.declare import ImportOptions
from sightline.model.run import Run
from sightline.opening.run import open_run
from sightline.units import format_several


def open_side(
    paths: Sequence[str],
    *,
    window: str | None = None,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Sample]:
    """One sample for each run. Each path is a run; those of other ranks of its job belong to it.

    Ranks of one job may as well lie in a folder or be given as a glob in quotes, which is one path.
    Raises InputError.
    """
    runs: list[tuple[list[str], Run]] = []
    for path in paths:
        run = open_run([path], options=options, progress=progress)
        for place, (members, known) in enumerate(runs):
            whole = _join_ranks(members, known, path, run, options)
            if whole is not None:
                runs[place] = ([*members, path], whole)
                break
        else:
            runs.append(([path], run))
    return [take_sample(run.with_window(window), _name(members)) for members, run in runs]


def _join_ranks(
    members: list[str], known: Run, path: str, run: Run, options: ImportOptions | None
) -> Run | None:
    """Both as one run, where they are different ranks of one job, as they say themselves."""
    one, other = _list_ranks(known), _list_ranks(run)
    if not one or not other or one & other:
        return None
    try:
        return open_run([*members, path], options=options)
    except InputError:
        return None


def _list_ranks(run: Run) -> set[int]:
    """The ranks that recordings or their files' names state."""
    rows = run.table("recordings").select("rank", "rank_source").rows()
    return set() if any(source == "order" for _, source in rows) else {rank for rank, _ in rows}


def _name(members: Sequence[str]) -> str:
    if len(members) == 1:
        return members[0]
    return f"{members[0]} and {format_several(len(members) - 1, 'more rank')}"
