"""From paths to a run: find the recordings, know their formats, import or take from the cache."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline import registry
from sightline.algebra.constants import empty
from sightline.errors import DamagedError, InputError, UnknownFormatError
from sightline.importers import _cache
from sightline.importers._foreign import foreign
from sightline.importers._recorded import read_folder
from sightline.model.columns import FrameT, Table, conform
from sightline.model.declare import Importer, ImportOptions, Quality
from sightline.model.run import Run
from sightline.model.run_folder import is_recorded
from sightline.model.source import Source
from sightline.model.store import Part, Tables, is_store, read_facts, write_store


def open_run(
    paths: Sequence[str],
    *,
    options: ImportOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Run:
    """A run made of recordings and stores, each given as a file, a folder or a glob.

    `progress` is told (file, bytes read, bytes in all) while a recording is read.
    Raises InputError where a path is missing or holds no recording.
    """
    options = options or ImportOptions()
    members: list[tuple[Path, int, dict[str, Any]]] = []
    for given in expand(paths):
        path = Path(given)
        if is_store(path):
            members += [(path, index, facts) for index, facts in enumerate(read_facts(path))]
            continue
        if is_recorded(path):
            members += read_folder(path, given, options, _import_file)
            continue
        source = Source(path, given, _counter(given, path, progress) if progress else None)
        store = import_one(source, options)
        members += [
            (store, 0, {**facts, **_of_path(path, given, facts)}) for facts in read_facts(store)
        ]
    return compose(members)


def _import_file(path: Path, options: ImportOptions) -> Path:
    return import_one(Source(path, str(path)), options)


# 'rank7', 'rank-7', 'rank_7' or 'rank.7', not as the end of another word.
_RANK_IN_NAME = re.compile(r"(?:^|[^a-zA-Z])rank[_\-.]?(\d{1,6})(?!\d)", re.IGNORECASE)


def _of_path(path: Path, given: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the path says, which the cache cannot know: equal files can lie under many names."""
    if facts.get("own_rank") is not None:
        return {"path": given, "rank_source": "recording"}
    # The last match is nearest to the file's own name: a folder's name counts less.
    named = _RANK_IN_NAME.findall("/".join(path.absolute().parts[-2:]))
    if named:
        return {"path": given, "rank_source": "file name", "own_rank": int(named[-1])}
    return {"path": given, "rank_source": "order"}


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


def expand(paths: Sequence[str]) -> list[str]:
    """Files and stores for what a person typed; a folder gives the recordings in it."""
    found: list[str] = []
    for given in paths:
        path = Path(given)
        if is_store(path) or path.is_file() or is_recorded(path):
            found.append(given)
        elif path.is_dir():
            is_one = _matching(Source(path, given), "strong")
            found += [given] if is_one else _in_folder(path, given)
        elif path.exists():
            raise InputError(f"cannot read {given}", why="it is neither a file nor a folder")
        elif glob.has_magic(given):
            matches = sorted(glob.glob(given, recursive=True))
            if not matches:
                raise InputError(f"no file matches {given}")
            found += expand(matches)
        else:
            raise InputError(
                f"cannot read {given}",
                why="there is no such file",
                hint="Give the path of a recording, a folder of recordings, or a .sightline store.",
            )
    seen: dict[Path, str] = {}
    for given in found:
        seen.setdefault(Path(given).resolve(), given)
    return list(seen.values())


def _in_folder(folder: Path, given: str) -> list[str]:
    """Recordings in a folder, sorted so that rank 10 follows rank 9.

    Files with a known ending whose content some importer is sure of; endings such as .json and
    .csv are everybody's. Where it is sure of none, all with a known ending, so that the error
    says what is wrong with them.
    """
    suffixes = tuple(s for importer in _importers() for s in importer.suffixes)
    try:
        entries = sorted(folder.rglob("*"), key=lambda p: _natural(str(p)))
    except OSError as error:
        raise InputError(f"cannot read {given}", why=(error.strerror or "").lower()) from error
    stores = [p for p in entries if is_store(p) or is_recorded(p)]
    inside = {p for s in stores for p in [s, *s.rglob("*")]}
    files = [
        p for p in entries
        if p.is_file() and p.name.lower().endswith(suffixes) and p not in inside
    ]  # fmt: skip
    # A report whose export lies beside it is the same recording.
    exported = {p.with_suffix("") for p in files if p.suffix == ".sqlite"}
    reports = (".nsys-rep", ".qdrep")
    files = [p for p in files if p.suffix not in reports or p.with_suffix("") not in exported]
    sure = [p for p in files if _matching(Source(p, str(p)), "strong")]
    recordings = [str(p) for p in [*stores, *(sure or (files if not stores else []))]]
    if not recordings:
        raise InputError(
            f"there are no recordings in {given}",
            why=f"no file in it ends in {', '.join(sorted(set(suffixes)))}"
            if entries
            else "it is empty",
            hint="Name the file itself if its ending is unusual.",
        )
    return recordings


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", text)]


def _importers() -> list[Importer]:
    return [module.IMPORTER for _, module in registry.members("importers")]


def _matching(source: Source, strength: str, head: bytes | None = None) -> list[Importer]:
    """The importers with a pattern of this strength in the file's head."""
    head = source.head() if head is None else head
    return [
        importer
        for importer in _importers()
        if any(re.search(p, head, re.DOTALL) for p in getattr(importer, strength))
    ]


_LISTED = "sightline formats  lists what can be read, and how it is recognised."


def recognise(source: Source) -> Importer:
    """The importer for a file, by its content. Raises UnknownFormatError, or InputError."""
    head = source.head()
    for strength in ("strong", "weak"):
        matching = _matching(source, strength, head)
        if strength == "weak" and (other := foreign(head)) is not None:
            raise UnknownFormatError(f"cannot read {source.given}", why=other.what,
                                     hint=other.hint or _LISTED)  # fmt: skip
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise UnknownFormatError(
                f"cannot tell what {source.given} is",
                why="it looks like " + " and like ".join(i.label for i in matching),
                hint=_LISTED,
            )
    if not head:
        why = "it is empty" if source.size == 0 else "nothing could be decompressed from it"
        raise DamagedError(f"cannot read {source.given}", why=why)
    raise UnknownFormatError(
        f"cannot read {source.given}", why="its content is of no known format", hint=_LISTED
    )


def import_one(source: Source, options: ImportOptions) -> Path:
    """A one-recording store for the file, from the cache or made anew."""
    importer = recognise(source)
    key = _cache.key(source, f"{importer.name}-{importer.version}-{options}-{_layout()}")
    entry = _cache.folder() / key
    if is_store(entry):
        _cache.touch(entry)
        return entry
    from sightline import __version__

    imported = registry.load("importers", importer.name).read(source, options)
    facts = {
        **imported.recording,
        "format": importer.name,
        "importer_version": f"{__version__}/{importer.version}",
        "bytes": source.size,
        "quality": [vars(q) for q in imported.quality],
        "constants": imported.constants,
    }
    tables: Tables = {}
    for name in list(imported.tables):
        tables[name] = _with_values(imported.tables.pop(name), _stored_columns(name))
    for name in list(imported.large):
        columns = [
            c for c in _stored_columns(name) if c.name not in imported.constants.get(name, ())
        ]
        tables[name] = _with_values(imported.large.pop(name), tuple(columns))
    if options.clock_shift_ns:
        for name in tables:
            tables[name] = _shifted(tables[name], options.clock_shift_ns)
        for fact in ("clock_offset_ns", "start_ns", "end_ns"):
            if facts.get(fact) is not None:
                facts[fact] += options.clock_shift_ns
    write_store(
        entry,
        [
            (
                facts.pop("rank", None) or 0,
                {**facts, "own_rank": imported.recording.get("rank")},
                tables,
            )
        ],
        sightline_version=__version__,
        quick=True,
    )
    _cache.touch(entry)
    _cache.trim()
    return entry


def _with_values(frame: FrameT, columns: tuple[Any, ...]) -> FrameT:
    """The declared columns without those that are null throughout, or absent."""
    if isinstance(frame, pl.LazyFrame):
        schema = frame.collect_schema()
        present = schema.names()
        columns = tuple(
            replace(c, dtype=pl.Categorical) if schema.get(c.name) == pl.Categorical else c
            for c in columns
        )
    else:
        present = frame.drop(empty(frame)).columns
    kept = [c.name for c in columns if c.name in present or c.required]
    return conform(frame, columns).select(kept)


# The columns that are moments, not lengths of time.
_MOMENTS = ("start_ns", "end_ns", "time_ns", "from_ns", "pdl_last_cta_ns", "pdl_preexit_ns")


def _shifted(frame: pl.DataFrame | pl.LazyFrame, shift_ns: int) -> pl.DataFrame | pl.LazyFrame:
    """The table on another host's clock."""
    moments = [n for n in frame.collect_schema().names() if n in _MOMENTS]
    return frame.with_columns(pl.col(n) + shift_ns for n in moments)


def _layout() -> str:
    """The tables' columns in short: an entry that was written with others is not taken."""
    columns = [
        (name, [(c.name, str(c.dtype)) for c in module.TABLE.columns])
        for name, module in registry.members("model.tables")
    ]
    return hashlib.blake2b(repr(columns).encode(), digest_size=8).hexdigest()


def _stored_columns(table: str) -> tuple[Any, ...]:
    declared: Table = registry.load("model.tables", table).TABLE
    return tuple(c for c in declared.columns if c.name not in ("rank", "recording_id"))


def compose(members: Sequence[tuple[Path, int, dict[str, Any]]]) -> Run:
    """One run from (store, number in it, facts) of each recording: ranks settled, ids unique."""
    if not members:
        raise InputError("there is nothing to read")
    # Recordings of one process share its rank.
    groups = [f.get("process") or n for n, (*_, f) in enumerate(members)]
    first = {group: number for number, group in reversed(list(enumerate(groups)))}
    order = sorted(first.values())
    claims = [members[n][2] for n in order]
    settled, said = settle_ranks([c["own_rank"] if "own_rank" in c else c["rank"] for c in claims])
    of_group = {groups[n]: (rank, notes)
                for n, rank, notes in zip(order, settled, said, strict=True)}  # fmt: skip
    parts = []
    for number, (store, index, facts) in enumerate(members):
        rank, notes = of_group[groups[number]]
        notes = notes if first[groups[number]] == number else []
        own = {**facts, "quality": [*facts.get("quality", ()), *map(vars, notes)]}
        if of_group[groups[number]][1]:
            own["rank_source"] = "order"
        parts.append(Part(store, index, facts["rank"], rank, number, own))
    return Run(parts)


def settle_ranks(claimed: Sequence[int | None]) -> tuple[list[int], list[list[Quality]]]:
    """A rank for each recording: its own if it is the first to claim it, else the next free one."""
    taken = set()
    settled: list[int | None] = []
    for rank in claimed:
        free = rank is not None and rank >= 0 and rank not in taken
        settled.append(rank if free else None)
        if free:
            taken.add(rank)
    notes: list[list[Quality]] = [[] for _ in claimed]
    free_ranks = (n for n in range(len(claimed) * 2 + 1) if n not in taken)
    answer = []
    for number, (rank, wanted) in enumerate(zip(settled, claimed, strict=True)):
        if rank is None:
            rank = next(free_ranks)
            if len(claimed) > 1 or wanted is not None:
                text = (
                    f"the recording does not name its rank: taken as rank {rank} by order"
                    if wanted is None
                    else f"another recording is rank {wanted} already: taken as rank {rank}"
                )
                remedy = "Record with torch.distributed set up, or put rank<N> in the file name."
                notes[number].append(Quality("rank_by_order", "warning", text, 1, remedy))
        answer.append(rank)
    return answer, notes


def save(run: Run, target: Path) -> None:
    """Write a run to a store of its own. Raises StoreError."""
    from sightline import __version__

    names = registry.names("model.tables")

    def recordings() -> Iterable[tuple[int, dict[str, Any], Tables]]:
        for part in run.parts:
            tables: Tables = {}
            for name in names:
                declared: Table = registry.load("model.tables", name).TABLE
                frame = part.scan(declared)
                if frame is not None:
                    # Ids of the run are those of the new store, where the numbers are the same.
                    tables[name] = frame.drop("rank").collect()
            here = ("rows", "own_rank", "constants")
            facts = {k: v for k, v in part.facts.items() if k not in here}
            yield part.rank, facts, tables

    write_store(target, recordings(), sightline_version=__version__)
