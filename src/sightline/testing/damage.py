"""Recordings as strangers send them: cut short, with bytes changed, with values of another type."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import SightlineError

Reader = Callable[[Source, ImportOptions], Imported]

# Of each kind of damage fifteen files are read; all of them where it is to be thorough.
_SAMPLE = 15
_FLIPPED = 6
_ODD_VALUES: tuple[Any, ...] = (None, "x", -1, 2**70, 1e308, 1.5, [], {}, True, "\ud800")
_ODD_NUMBERS = ("", "x", "-1", "1e308", "9" * 30, "nan")


def survive_damage(
    read: Reader, path: Path, data: str | bytes, seed: int = 1, *, thorough: bool = False
) -> None:
    """Read every damaged form of a recording: each gives rows, or says why it gives none.

    That is in an error, or in a row on its quality; and some of the forms still give rows, as the
    whole does. The damaged recordings are written to the path, whose name the importer may ask for.
    """
    whole = data.encode() if isinstance(data, str) else data
    chance = random.Random(seed)  # noqa: S311  # a sample, not a secret
    path.write_bytes(whole)
    assert count_rows(read(Source(path, path.name), ImportOptions())), "the whole gives no row"
    survived, most = 0, None if thorough else _SAMPLE
    for damaged in (
        *_cut(whole, chance, most),
        *_flip(whole, chance, most),
        *_swap(whole, chance, most),
    ):
        path.write_bytes(damaged)
        try:
            imported = read(Source(path, path.name), ImportOptions())
        except SightlineError as error:
            assert error.why, damaged
        else:
            rows = count_rows(imported)
            assert rows or imported.quality, damaged
            survived += rows > 0
    assert survived, "no damaged form gives a row"


def count_rows(imported: Imported) -> int:
    """The rows of all its tables."""
    return sum(table.height for table in imported.tables.values())


def _choose(items: list[Any], chance: random.Random, most: int | None) -> list[Any]:
    return items if most is None or len(items) <= most else chance.sample(items, most)


def _cut(data: bytes, chance: random.Random, most: int | None) -> Iterator[bytes]:
    for end in _choose(list(range(len(data))), chance, most):
        yield data[:end]


def _flip(data: bytes, chance: random.Random, most: int | None) -> Iterator[bytes]:
    for _ in range(len(data) if most is None else most):
        changed = bytearray(data)
        for _ in range(chance.randint(1, _FLIPPED)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        yield bytes(changed)


def _swap(data: bytes, chance: random.Random, most: int | None) -> Iterator[bytes]:
    """Each value of a JSON document, or each number of a text, replaced by what is none."""
    try:
        lines = data.decode().splitlines() if data[:1] in b"[{" else []
    except UnicodeDecodeError:
        return  # of a binary format, flipped bytes are other types, too
    try:
        documents = [json.loads(data)] if lines else []
    except ValueError:
        documents = [json.loads(line) for line in lines]
    if documents:
        places = [(n, path) for n, one in enumerate(documents) for path in _list_places(one)]
        swaps = [(place, value) for place in places for value in _ODD_VALUES]
        for (number, path), value in _choose(swaps, chance, most):
            changed = [_replace(one, path, value) if n == number else one
                       for n, one in enumerate(documents)]  # fmt: skip
            texts = (json.dumps(one, separators=(",", ":")) for one in changed)
            yield "\n".join(texts).encode()
        return
    found = [(m.span(), text) for m in re.finditer(rb"\d+", data) for text in _ODD_NUMBERS]
    for (start, end), text in _choose(found, chance, most):
        yield data[:start] + text.encode() + data[end:]


def _list_places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from _list_places(inner, (*above, key))


def _replace(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _replace(value[path[0]], path[1:], other)
    return copied
