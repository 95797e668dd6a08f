"""Recordings of many ranks, read a few at a time, each reduced and let go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from sightline.core.model.declare import ImportOptions
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.errors import InputError, SightlineError
from sightline.fleet.align import cut_to_common
from sightline.fleet.rank_file import list_rank_files, read_ranks
from sightline.fleet.reduce import Rank, reduce_ranks
from sightline.fleet.reduce_host import HOST, reduce_host_rank
from sightline.opening.paths import expand_paths
from sightline.opening.run import open_run

# Reading is compiled code that lets others run meanwhile; more at once need more memory only.
_AT_ONCE = 2
# Rows of runs that are reduced in one pass (ours: beside so many, what a question costs is little).
_TOGETHER = 200_000


@dataclass(frozen=True)
class Reduced:
    """The ranks that could be read, and why others could not: (recording, reason).

    `places` has the recording of each rank.
    """

    ranks: list[Rank]
    lost: list[tuple[str, str]]
    places: dict[int, str] = field(default_factory=dict)


def reduce_recordings(
    paths: Sequence[str],
    *,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Reduced:
    """Reduce every rank of recordings given as files, folders, globs or stores.

    Ranks that `sightline capture` has reduced where they ran are taken as they are.

    A recording that cannot be read, or has no device operation, is lost, and said to be. Raises
    InputError where none is left, or two recordings say that they are the same rank.
    """
    kept = list_rank_files(paths)
    if kept:  # a capture: its traces, where some are beside them, are of the same ranks
        return collect_ranks(_read_kept(kept), together=True)
    names = expand_paths(paths, progress).names
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        reads = pool.map(lambda name: (name, reduce_recording(name, options)), names)
        return collect_ranks(_count(reads, len(names), progress))


def _read_kept(files: Sequence[Path]) -> Iterator[tuple[str, list[Rank] | str]]:
    for path in files:
        try:
            held = read_ranks(path.read_bytes(), str(path))
        except (SightlineError, OSError) as error:
            yield str(path), str(error)
            continue
        for name, rank in held.ranks:
            place = path.parent / name  # it may have been left where it was recorded
            yield (str(place) if place.is_file() else name), [rank]
        yield from held.lost


def _count(
    reads: Iterable[tuple[str, list[Rank] | str]],
    whole: int,
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[tuple[str, list[Rank] | str]]:
    for done, read in enumerate(reads, 1):
        if progress is not None:
            progress("ranks", done, whole)
        yield read


def collect_ranks(
    reads: Iterable[tuple[str, list[Rank] | str]], *, together: bool = False
) -> Reduced:
    """All ranks of recordings that were reduced: each one's ranks, or why there is none.

    `together`: they were recorded over the same time, and not from one step to another.

    Raises InputError where no rank is left, or two recordings are of the same rank or of jobs of
    different sizes.
    """
    ranks: dict[int, Rank] = {}
    whose: dict[int, str] = {}
    lost: list[tuple[str, str]] = []
    size: tuple[str, int] | None = None
    for name, found in reads:
        if isinstance(found, str):
            lost.append((name, found))
            continue
        for rank in found:
            if rank.rank in ranks:
                raise InputError(
                    f"{name} and {whose[rank.rank]} are both rank {rank.rank}",
                    why="many ranks are matched by their numbers",
                    hint="Give recordings of one job, with rank_0, rank_1, … in their names.",
                )
            ranks[rank.rank], whose[rank.rank] = rank, name
            if rank.world_size is None:
                continue
            size = size or (name, rank.world_size)
            if size[1] != rank.world_size:
                raise InputError(
                    "the recordings belong to different jobs",
                    why=f"{size[0]} belongs to a job of {format_several(size[1], 'rank')}, "
                    f"{name} to one of {rank.world_size:,}",
                    hint="Give recordings of one job.",
                )
    if lost and not ranks and all(why == NO_DEVICE for _, why in lost):
        raise InputError(
            "these recordings hold CPU work only, and ranks are compared by their GPU work",
            hint="What each one does:  sightline report RECORDING",
        )
    if not ranks:
        why = f"{lost[0][0]}: {lost[0][1]}" if lost else None
        raise InputError("no recording could be read", why=why)
    reduced = [ranks[number] for number in sorted(ranks)]
    return Reduced(lay_over(reduced, together=together), lost, whose)


def lay_over(ranks: list[Rank], *, together: bool = False) -> list[Rank]:
    """The ranks, cut to what all recorded where their windows are of time: as of those of hosts."""
    is_host = any(rank.rows.height and rank.rows.item(0, "kind") == HOST for rank in ranks)
    return cut_to_common(ranks) if together or is_host else ranks


# Why a recording that can be read has nothing to compare.
NO_DEVICE = "no GPU operation was recorded"
NO_WORK = "neither device operations nor collectives were recorded"


def reduce_recording(name: str, options: ImportOptions | None) -> list[Rank] | str:
    """The ranks of one recording, reduced, or why there is none."""
    try:
        run = open_run([name], options=options)
        found = list(reduce_run(run))
    except SightlineError as error:
        return _explain(error)
    return found or NO_DEVICE


def reduce_run(run: Run) -> Iterator[Rank]:
    """Each rank of a run that has device operations, or collectives of its hosts, reduced."""
    for number in sorted({part.rank for part in run.parts}):
        alone = Run([part for part in run.parts if part.rank == number])
        yield from reduce_ranks(alone) or _reduce_host(alone, number)


def reduce_runs(
    runs: Iterable[tuple[str, Run | str]], together: int = _TOGETHER
) -> Iterator[tuple[str, list[Rank] | str]]:
    """The ranks of each run, in their order, or why it has none; short ones are read together."""
    held: list[tuple[str, Run | str]] = []
    rows, ranks = 0, set[int]()
    for name, run in runs:
        if isinstance(run, Run):
            more = run.rows("device_ops") + run.rows("host_ops")
            theirs = {part.rank for part in run.parts}
            if rows + more > together or ranks & theirs:
                yield from _reduce_held(held)
                held, rows, ranks = [], 0, set()
            rows += more
            ranks |= theirs
        held.append((name, run))
    yield from _reduce_held(held)


def _reduce_held(
    held: Sequence[tuple[str, Run | str]],
) -> Iterator[tuple[str, list[Rank] | str]]:
    every = [part for _, run in held if isinstance(run, Run) for part in run.parts]
    both = Run([replace(part, recording_id=number) for number, part in enumerate(every)])
    try:
        found = {rank.rank: rank for rank in reduce_ranks(both)}
    except SightlineError:  # one of them is damaged, and the others are not
        found = {}
    for name, run in held:
        yield name, run if isinstance(run, str) else _take_ranks(run, found)


def _take_ranks(run: Run, found: Mapping[int, Rank]) -> list[Rank] | str:
    numbers = sorted({part.rank for part in run.parts})
    if all(number in found for number in numbers):
        return [found[number] for number in numbers]
    try:
        return list(reduce_run(run)) or NO_WORK
    except SightlineError as error:
        return _explain(error)


def _reduce_host(run: Run, number: int) -> list[Rank]:
    reduced = reduce_host_rank(run, number)
    return [] if reduced is None else [reduced]


def _explain(error: SightlineError) -> str:
    return error.what if error.why is None else f"{error.what}: {error.why}"
