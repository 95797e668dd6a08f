"""Which importer reads a file: by its content, not by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path

from sightline.core import registry
from sightline.core.model.declare import Importer
from sightline.core.model.source import HEAD_BYTES, Source
from sightline.core.text import encode_utf8
from sightline.errors import DamagedError, UnknownFormatError
from sightline.formats._declared import IMPORTERS, LITERALS
from sightline.opening.foreign import recognise_foreign

_SQLITE = b"SQLite format 3\x00"
_BEFORE = 4096  # of a log, what may stand on the line before what is looked for


def list_importers() -> list[Importer]:
    """What each registered importer declares; only those of other packages, and new ones, load."""
    declared = {importer.name: importer for importer in IMPORTERS}
    return [
        declared.get(name) or registry.load("importers", name).IMPORTER
        for name in registry.list_names("importers")
    ]


def drop_superseded(files: Sequence[Path]) -> list[Path]:
    """The files without those that another of the same name stands for, as an export does."""
    gone = {
        # Not Path.suffix, which of "host.xplane.pb" is only the last part.
        path.with_name(path.name.removesuffix(suffix) + ending)
        for importer in list_importers()
        if importer.supersedes
        for path in files
        for suffix in importer.suffixes
        if path.name.endswith(suffix)
        for ending in importer.supersedes
    }
    return [path for path in files if path not in gone]


def match_importers(source: Source, strength: str, head: bytes | None = None) -> list[Importer]:
    """The importers with a pattern of this strength in the file's head, or that know the folder."""
    found = match_patterns(source, strength, head)
    if strength != "strong" or not source.path.is_dir():
        return found
    return [
        importer
        for importer in list_importers()
        if importer in found or source.path in find_folders(importer, source.path)
    ]


def match_patterns(source: Source, strength: str, head: bytes | None = None) -> list[Importer]:
    """The importers with a pattern of this strength in the file's head.

    What a SQLite file is say its tables, whose names may lie anywhere in it.
    """
    head = read_head(source) if head is None else head
    found = _find_patterns(head, strength)
    if found or strength != "strong" or not head.startswith(_SQLITE) or len(head) < HEAD_BYTES:
        return found
    from sightline.formats._sqlite import read_schema

    return _find_patterns(_SQLITE + read_schema(source.path), strength)


def _find_patterns(head: bytes, strength: str) -> list[Importer]:
    if len(head) >= HEAD_BYTES:
        # What follows is not seen: no pattern may take the cut for the end of a line or file.
        head += b"\x00"
    return [
        importer
        for importer in list_importers()
        if any(
            LITERALS.get(p, b"") in head and re.search(p, head, re.DOTALL)
            for p in getattr(importer, strength)
        )
    ]


def _drop_covered(matching: list[Importer]) -> list[Importer]:
    """Those that no other of them covers, each once."""
    covered = {name for importer in matching for name in importer.covers}
    return [i for n, i in enumerate(matching) if i.name not in covered and i not in matching[:n]]


def read_head(source: Source) -> bytes:
    """The head of a file as UTF-8, where it is text, or a folder's listing."""
    return encode_utf8(source.head())


def find_in_log(source: Source, head: bytes) -> list[Importer]:
    """The importers whose text stands somewhere in a log: `Importer.in_logs`."""
    if len(head) < HEAD_BYTES or b"\x00" in head or not source.path.is_file():
        return []
    found = []
    with source.path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
        if data[:64] != head[:64]:
            return []  # it is packed, or no UTF-8
        for importer in list_importers():
            places = {p for word in importer.in_logs for p in (data.find(word), data.rfind(word))}
            around = [data[max(p - _BEFORE, 0) : p + HEAD_BYTES] for p in places if p >= 0]
            patterns = (*importer.strong, *importer.weak)
            if any(re.search(p, text, re.DOTALL) for p in patterns for text in around):
                found.append(importer)
    return found


def find_folders(importer: Importer, path: Path) -> list[Path]:
    """The importer's recordings in a folder, where they are folders; it may be one itself."""
    if importer.find_folders is None or not path.is_dir():
        return []
    return importer.find_folders(path)


_REPLACED = "\ufffd".encode()
_LEAST_REPLACED = 4  # a text may have one or two of its own
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def is_mangled(head: bytes) -> bool:
    """Whether a binary file was decoded as UTF-8 and written again: nothing restores it.

    Such a file is UTF-8 throughout, with the replacement character where bytes were none, and has
    control characters that no text has.
    """
    if head.count(_REPLACED) < _LEAST_REPLACED or not _BINARY.search(head):
        return False
    try:
        head[: len(head) - 4].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 8  # the head may end within a character
    return True


_LISTED = "sightline formats  lists what can be read, and how it is recognized."


def recognise(source: Source) -> Importer:
    """The importer for a file, by its content. Raises UnknownFormatError, or InputError."""
    head = read_head(source)
    if is_mangled(head):
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is a binary file that was saved as text: every byte that is not text was "
            "replaced, and what was there is lost",
            hint="Copy the original again, as binary (scp, or an upload that does not convert it).",
        )
    for strength in ("strong", "weak"):
        matching = match_importers(source, strength, head)
        if any(set(i.covers) & {m.name for m in matching} for i in list_importers()):
            matching = _drop_covered([*matching, *find_in_log(source, head)])
        if strength == "weak" and (other := recognise_foreign(head)) is not None:
            if len(within := find_in_log(source, head)) == 1:
                return _load(within[0])
            raise UnknownFormatError(
                f"cannot read {source.given}", why=other.what, hint=other.hint or _LISTED
            )
        if len(matching) == 1:
            return _load(matching[0])
        if matching:
            raise UnknownFormatError(
                f"cannot tell what {source.given} is",
                why="it looks like " + " and like ".join(i.label for i in matching),
                hint=_LISTED,
            )
    within = find_in_log(source, head)
    if len(within) == 1:
        return _load(within[0])
    owners = [i for i in list_importers() if source.path.suffix.lower() in i.owns]
    if head and len(owners) == 1:
        return _load(owners[0])
    if not head:
        why = "it is empty" if source.size == 0 else "nothing could be decompressed from it"
        raise DamagedError(f"cannot read {source.given}", why=why)
    raise UnknownFormatError(
        f"cannot read {source.given}", why="its content is of no known format", hint=_LISTED
    )


def _load(declared: Importer) -> Importer:
    """The importer's own word, as for its version: what stands beside it may be older.

    It is, while an importer is worked on and `make docs` was not run again.
    """
    own: Importer = registry.load("importers", declared.name).IMPORTER
    return own
