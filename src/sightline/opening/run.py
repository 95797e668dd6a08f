"""A run from what a person typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.core.model.declare import ImportOptions, Quality
from sightline.core.model.run import Run
from sightline.core.model.run_folder import is_recorded
from sightline.core.model.source import Source
from sightline.core.model.store import Member, is_store, read_facts
from sightline.core.units import format_several
from sightline.errors import InputError
from sightline.opening.given import Given
from sightline.opening.helpers import drop_helpers
from sightline.opening.imports import import_one
from sightline.opening.merged import is_merged, split_ranks
from sightline.opening.paths import OneOfMany, expand_paths, list_empty, name_files
from sightline.opening.ranks import compose_run, read_rank_of_path
from sightline.opening.repeats import drop_repeats
from sightline.opening.run_folder import read_folder
from sightline.opening.same_job import check_same_job, is_same_job

if TYPE_CHECKING:
    from sightline.timeline.clocks import Fit

_LISTED = 5  # skipped files by name


def open_run(
    paths: Sequence[str],
    *,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    same_job: bool = False,
    fit: Fit | None = None,
) -> Run:
    """A run made of recordings and stores, each given as a file, a folder or a glob.

    `progress` is told (file, bytes read, bytes in all) while a recording is read. With `same_job`,
    recordings are merged though they seem to be of several jobs. `fit` says how the ranks' clocks
    stand where that is known; else it is found out.
    Raises InputError where a path is missing or holds no recording, or recordings differ.
    """
    given, notes = drop_repeats(drop_helpers(_read_given(paths, options, progress)))
    if not same_job:
        notes += check_same_job(given)
    if notes:
        given[0] = _add_notes(given[0], notes)
    return compose_run([m for one in given for m in one.members], fit)


def open_jobs(
    paths: Sequence[str],
    *,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[tuple[list[str], Run]]:
    """A run for each path, with its paths; those that state other ranks of one job are one run.

    Each path is read once. Raises InputError as `open_run` does.
    """
    jobs: list[tuple[list[str], list[Given], set[int]]] = []
    for path in paths:
        given = _read_given([path], options, progress)
        check_same_job(given)
        ranks = _list_stated_ranks(given)
        for names, known, theirs in jobs:
            if ranks and theirs and not ranks & theirs and is_same_job(known[0], given[0]):
                names.append(path)
                known += given
                theirs |= ranks
                break
        else:
            jobs.append(([path], given, ranks))
    return [
        (names, compose_run([member for one in given for member in one.members]))
        for names, given, _ in jobs
    ]


def _list_stated_ranks(given: Sequence[Given]) -> set[int]:
    """The ranks that recordings or their files' names state; none where one does not."""
    # A trace of the whole system is no rank.
    every = [member.facts for one in given for member in one.members]
    facts = [f for f in every if not f.get("of_host")]
    if any(f.get("rank_source") == "order" for f in facts):
        return set()
    return {f["own_rank"] if f.get("own_rank") is not None else f["rank"] for f in facts}


def _read_given(
    paths: Sequence[str],
    options: ImportOptions | None,
    progress: Callable[[str, int, int], None] | None,
) -> list[Given]:
    """All that paths lead to, with notes on what could not be read. Raises InputError."""
    options = options or ImportOptions()
    found = expand_paths(paths, progress)
    given: list[Given] = []
    notes = [_note_skipped(*skipped) for skipped in found.skipped]
    unread: list[InputError] = []
    for number, name in enumerate(found.names, 1):
        try:
            counted = _count_files(progress, number, len(found.names))
            given.append(Given(name, _read_members(name, options, counted)))
        except InputError as error:
            if name not in found.in_folders:
                raise
            unread.append(error.with_traceback(None))  # which holds all that was read
            notes.append(Quality("file_unread", "warning", error.what, None, _explain(error)))
    if unread and not given:
        raise _blame_empty(paths, unread[0])
    notes += _note_split(found.names)
    if given and given[0].members and notes:
        given[0] = _add_notes(given[0], notes)
    return given


def _add_notes(given: Given, notes: Sequence[Quality]) -> Given:
    """The same with more said of what limits conclusions."""
    first, *others = given.members
    quality = [*first.facts.get("quality", ()), *map(vars, notes)]
    noted = first._replace(facts={**first.facts, "quality": quality})
    return Given(given.name, [noted, *others])


def _count_files(
    progress: Callable[[str, int, int], None] | None, number: int, most: int
) -> Callable[[str, int, int], None] | None:
    """The same progress, with the number of the file before its name where there are several."""
    if progress is None or most == 1:
        return progress
    return lambda file, done, total: progress(
        OneOfMany(f"{number} of {most}: {Path(file).name}"), done, total
    )


def _blame_empty(paths: Sequence[str], error: InputError) -> InputError:
    """Why nothing in folders could be read: where a trace in them is empty, that is the reason."""
    for given in paths:
        if Path(given).is_dir() and (empty := list_empty(Path(given))):
            return InputError(
                f"there is nothing to read in {given}",
                why=f"{name_files(empty)} empty, and of the others none is a recording",
                hint=f"{error.what}: {_explain(error)}",
            )
    return error


def _explain(error: InputError) -> str:
    """Why a file could not be read, and what to do, as one sentence."""
    return "; ".join(" ".join(part.split()) for part in (error.why, error.hint) if part)


def _read_members(
    given: str, options: ImportOptions, progress: Callable[[str, int, int], None] | None
) -> list[Member]:
    """The recordings in what is given."""
    path = Path(given)
    if is_store(path):
        # An entry of the cache, which may lie in a folder that is given, keeps no path.
        return [
            Member(path, index, {**facts, "path": facts.get("path") or given})
            for index, facts in enumerate(read_facts(path))
        ]
    if is_recorded(path):
        return read_folder(path, given, options, _import_file)
    source = Source(path, given, _counter(given, path, progress) if progress else None)
    if is_merged(source):
        members = _read_merged(source, given, options)
        if members:
            return members
    store = import_one(source, options)
    return [
        Member(store, 0, {**facts, **read_rank_of_path(path, given, facts)})
        for facts in read_facts(store)
    ]


def _read_merged(source: Source, given: str, options: ImportOptions) -> list[Member]:
    """The ranks of a trace that was merged of several; none where it cannot be taken apart."""
    try:
        with split_ranks(source) as parts:
            stores = [(label, import_one(Source(path, given), options)) for label, path in parts]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    text = f"{given} holds {format_several(len(stores), 'rank')}: they are read apart"
    note = vars(Quality("merged_ranks", "info", text))
    return [
        Member(
            store,
            0,
            {
                **facts,
                "path": f"{given} [{label}]",
                "rank_source": "recording",
                "quality": [*facts.get("quality", ()), *([] if number else [note])],
            },
        )
        for number, (label, store) in enumerate(stores)
        for facts in read_facts(store)
    ]


# Files that rocprofv3 writes of one program, each with one kind of record.
_KIND_OF_RECORD = re.compile(
    r"(?:kernel|memory_copy|memory_allocation|scratch_memory|marker(?:_api)?|(?:hip|hsa|rccl)\w*)"
    r"_trace\.csv$"
)


def _note_split(names: Sequence[str]) -> list[Quality]:
    """A note where files of one program were given one by one: they are read as one in a folder."""
    parts: dict[str, list[str]] = {}
    for name in names:
        if kind := _KIND_OF_RECORD.search(name):
            parts.setdefault(name[: kind.start()], []).append(Path(name).name)
    text = "files of one program were read apart, so that no call is tied to its work:"
    remedy = "Give the folder that holds them alone."
    return [
        Quality("split_recording", "warning", f"{text} {', '.join(files)}", None, remedy)
        for files in parts.values()
        if len(files) > 1
    ]


def _note_skipped(folder: str, files: Sequence[str]) -> Quality:
    """Which files of a folder are not recordings, or stand for one that was read."""
    listed = ", ".join(files[:_LISTED]) + (", …" if len(files) > _LISTED else "")
    noun = "file" if len(files) == 1 else "files"
    return Quality("files_skipped", "info", f"{noun} in {folder} skipped: {listed}", len(files))


def _import_file(path: Path, options: ImportOptions) -> Path:
    return import_one(Source(path, str(path)), options)


def _counter(
    given: str, path: Path, progress: Callable[[str, int, int], None]
) -> Callable[[int], None]:
    size = path.stat().st_size
    done = 0

    def count(read: int) -> None:
        nonlocal done
        done += read
        progress(given, min(done, size), size)

    return count
