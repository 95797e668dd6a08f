"""Names that a reader looked for in objects of JSON, and what stands there instead.

Whatever the format: where an object lacks a name that was looked for, and has one that is nearly
it and that nobody looked for, the name is damaged, and what it named was not read. Tools that call
a thing otherwise do so in each object, a damage does it once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from sightline.core.model.declare import Quality
from sightline.formats._text_damage import is_near_name, is_rest, note_names

_MOST_SHAPES = 10_000  # of objects in which a name is missing: more are another format
_MOST_NAMES = 200  # of an object that is looked at: others are maps, whose names are free
_MOST_TRIES = 200_000  # pairs of names that are compared
_MOST_TIMES = 3  # ours: what is called otherwise more often is called so by the tool


class AskedNames:
    """The names that were looked for in the objects of a document.

    `hook` is what json.loads takes as object_pairs_hook.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.twice = 0  # names that an object has again: it is two, and one of them is lost
        self.missed: Counter[tuple[tuple[str, ...], str]] = Counter()

    def hook(self, pairs: list[tuple[str, Any]]) -> AskedObject:
        """An object that remembers here what it is asked for."""
        made = AskedObject(pairs)
        self.twice += len(pairs) - len(made)
        made.names = self
        return made

    def note(self, quality: list[Quality]) -> None:
        """Add the note on names that are damaged, unless there is one."""
        if not any(one.kind == "damaged_names" for one in quality):
            quality += note_names(self.count_damaged())
        if self.twice:
            text = (
                "objects have a key twice: they may be two objects in one; the last value is used"
            )
            quality.append(Quality("doubled_names", "warning", text, self.twice))

    def count_damaged(self) -> int:
        """How many objects have a damaged name in place of one that was looked for."""
        looked_for: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for shape, name in self.missed:
            looked_for[shape].append(name)
        found: Counter[tuple[str, str]] = Counter()
        tries = 0
        for shape, missing in looked_for.items():
            tries += len(shape) * len(missing)
            if tries > _MOST_TRIES:
                break
            for word in shape:
                if word in self.asked:
                    continue
                near = next((m for m in missing if is_near_name(word, m) or is_rest(word, m)), None)
                if near is not None:
                    found[word, near] += self.missed[shape, near]
        return sum(count for count in found.values() if count <= _MOST_TIMES)


class AskedObject(dict[str, Any]):
    """An object of JSON that notes which names it is asked for."""

    names: AskedNames
    gone: frozenset[str] = frozenset()  # what it was asked for, and has not

    def get(self, key: str, default: Any = None) -> Any:
        """As of any dict."""
        return dict.__getitem__(self, key) if key in self else default

    def __getitem__(self, key: str) -> Any:
        self.names.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        is_there = super().__contains__(key)
        if isinstance(key, str):
            self.names.asked.add(key)
            missed = self.names.missed
            is_looked_at = not is_there and 0 < len(self) <= _MOST_NAMES
            if is_looked_at and key not in self.gone and len(missed) < _MOST_SHAPES:
                self.gone = self.gone | {key}
                missed[tuple(self), key] += 1
        return is_there
