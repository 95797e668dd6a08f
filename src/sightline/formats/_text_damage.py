"""What shows that a text is damaged, whatever tool wrote it, and lines that are halves or two."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Any

from sightline.core.model.declare import Quality
from sightline.formats._joined_lines import note_joined_lines

# No tool writes these into a text: only tabs, line ends, form feeds, bells and backspaces stand in
# texts of terminals, and escapes before the brackets and letters of their sequences.
_CONTROLS = bytes({*range(7), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F})
_LONE_ESCAPE = re.compile(rb"\x1b(?![\[\]()#%78=>@-Z\\^_c])")
# Noise has no blanks, changes at every second character between capitals, small letters, digits and
# marks, and has marks that few texts have. Dates, paths, CSV and XML have none of these.
_RARE = re.compile(rb"[!$^`~?@\\#&*{}]")
_DENSE = re.compile(rb"[!-~]{16,}")
_LOOKED_AT = 200  # characters of a line
_MOST_ODD = 20_000  # a text in which more lines have such marks is one whose lines have them
_FEW_TEXTS_HAVE = b"!$^`~?@\\#&*{}'+"
_LEAST_RARE, _LEAST_MARKS, _LEAST_CHANGES = 2, 5, 0.55
_LEAST_SPLICE = 8  # characters of two names that became one
_LEAST_ALIKE = 5  # names of two objects that are of one kind
_LEAST_HEAD = 12  # characters of a long name that stand before what is another one's
_LEAST_SHORT = 3  # of a name that is missing where another one stands
_LEAST_KEY = 5  # characters: shorter keys of a tool are often one character apart
_MOST_NAMES = 200  # of an object: others are maps, whose names are free
_MOST_SHAPES = 50  # of objects of one place: of more each is of its own
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
_BEHIND_QUOTE = re.compile(r'(?:^|,)"[^",]+"[^,\s]')  # a cell's end, and what is no comma
_LEAST_CELLS = 3  # of a header
_BLANKS = re.compile(r"(?m)^[ \t]+\r?$")  # a line that begins with blanks and has nothing else
_WORDS = bytes(c for c in range(256) if chr(c).isalnum() or c > 126)
_KINDS = bytes(
    ord("a") if chr(c).islower() else ord("A") if chr(c).isupper() else ord("0")
    if chr(c).isdigit() else ord(".") for c in range(256)
)  # fmt: skip


def note_text_damage(data: bytes) -> list[Quality]:
    """What shows in any text: that it ends within a line, is none in places, or has two in one.

    A text may end so without any loss, as one that somebody copied does: so it is not a warning.
    """
    notes = []
    # The brackets of JSON and XML say themselves that they are whole.
    is_closed = data.lstrip()[:1] in (b"{", b"[", b"<") and data.rstrip()[-1:] in (b"}", b"]", b">")
    is_open = data[-1:] not in b"\n\r" or (data[-1:] == b"\r" and b"\r\n" in data)
    if data and is_open and not is_closed:
        text = "the text ends within a line: if it was cut off there, what followed is missing"
        notes.append(Quality("open_end", "info", text))
    return [*notes, *note_foreign_bytes(data), *note_joined_lines(data)]


def note_lines_of_blanks(text: str) -> list[Quality]:
    """The note on lines that have blanks alone, of a tool that writes no such line."""
    count = len(_BLANKS.findall(text))
    if not count:
        return []
    said = "lines hold only blanks: what was in them is missing"
    return [Quality("lines_of_blanks", "info", said, count)]


def note_odd_header(line: str, separator: str = ",") -> list[Quality]:
    """The note on a table's header in which a name is gone, a number, or half of one.

    The first and the last cell may be empty, as tools write them that number their rows or end each
    cell with a comma; names may also all be numbers.
    """
    try:
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]
    except csv.Error:
        return []
    numbers = sum(_PLAIN_NUMBER.fullmatch(cell) is not None for cell in cells)
    odd = cells[1:-1].count("") + (numbers if 3 * numbers < len(cells) else 0)
    odd += sum(any(cell.count(a) != cell.count(b) for a, b in ("()", "[]")) for cell in cells)
    odd += len(_BEHIND_QUOTE.findall(line)) if separator == "," else 0
    if not odd or len(cells) < _LEAST_CELLS:
        return []
    text = "column names are missing or damaged: the columns below them are not read"
    return [Quality("damaged_header", "warning", text, odd)]


def note_blank_lines(text: str) -> list[Quality]:
    """That a text of a tool which writes no blank lines has some: lines may be gone there."""
    count = sum(not line.strip() for line in text.splitlines())
    if not count:
        return []
    said = "lines are blank, of which the tool writes none: something may have been lost"
    return [Quality("blank_lines", "info", said, count)]


def note_foreign_bytes(data: bytes) -> list[Quality]:
    """That a text has bytes that are none, or lines of noise."""
    notes = []
    if not data.isascii() and (odd := data.decode("utf-8", errors="replace").count("\ufffd")):
        text = "characters are not UTF-8: they are replaced, and lines with them may not be read"
        notes.append(Quality("damaged_text", "info", text, odd))
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if b"\x1b" in data:
        controls += len(_LONE_ESCAPE.findall(data))
    if controls:
        text = "characters are not text: lines with them may not be read"
        notes.append(Quality("damaged_text", "info", text, controls))
    if noise := sum(map(is_noise, islice(_list_odd_lines(data), _MOST_ODD))):
        text = "lines are noise: what was there is missing"
        notes.append(Quality("damaged_text", "warning", text, noise))
    return notes


def _list_odd_lines(data: bytes) -> Iterator[bytes]:
    """The beginnings of the lines in which a mark stands that few texts have."""
    if b"\r" in data:  # which ends a line that another is written over
        data = data.replace(b"\r", b"\n")
    at = 0
    while (found := _RARE.search(data, at)) is not None:
        begin = data.rfind(b"\n", at, found.start()) + 1 or at
        end = data.find(b"\n", found.end())
        at = len(data) if end < 0 else end
        yield data[begin : min(at, begin + _LOOKED_AT)]


def is_noise(line: bytes) -> bool:
    """Whether a line is nothing that a program prints, but bytes of something else."""
    if not _DENSE.fullmatch(line):
        return False
    looked_at = line[:_LOOKED_AT]
    marks = {*looked_at.translate(None, _WORDS)}
    if len(marks) < _LEAST_MARKS or len(marks & {*_FEW_TEXTS_HAVE}) < _LEAST_RARE:
        return False
    kinds = looked_at.translate(_KINDS)
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes >= _LEAST_CHANGES * (len(kinds) - 1)


def count_cut(lines: Iterable[str], heads: Iterable[str], least: int = 3) -> int:
    """How many lines end within what others begin with, told by the shape of these heads.

    "[2026-05-27 20:1" is the beginning of a head such as "[2026-05-27 20:14:33] Decode": any digit
    stands for another one.
    """
    shapes = {_shape(head) for head in heads}
    longest = max(map(len, shapes), default=0)
    begins = {shape[:least] for shape in shapes}
    count = 0
    for line in lines:
        plain = line.rstrip("\r\n")
        if least <= len(plain) < longest and _shape(plain[:least]) in begins:
            shape = _shape(plain)
            count += any(len(shape) < len(head) and head.startswith(shape) for head in shapes)
    return count


def _shape(text: str) -> str:
    return re.sub(r"\d", "0", text)


def is_nearly(word: str, known: str) -> bool:
    """Whether a word is a known one with a damage: one character is another, or a part is gone.

    A part may also stand twice. Whatever else is added makes another name of a tool.
    """
    if word == known or min(len(word), len(known)) < 3:
        return False
    common = min(len(word), len(known))
    head = next((n for n in range(common) if word[n] != known[n]), common)
    rest = common - head
    tail = next((n for n in range(rest) if word[-1 - n] != known[-1 - n]), rest)
    if len(word) == len(known):
        return head + tail == len(known) - 1
    part = abs(len(word) - len(known))
    is_long = part >= 3 and len(word) > len(known)
    if (is_long and _has_part_twice(word, known, part)) or _is_cut_off(word, known, head):
        return True
    if head + tail < common or len(known) < part + 5:
        return False
    if len(word) < len(known):
        return bool(head and tail) or (part <= 2 and len(known) > 5)
    return _has_part_twice(word, known, part)


def _has_part_twice(word: str, known: str, part: int) -> bool:
    """Whether a word is a known one of which a part of so many characters stands twice."""
    return any(word == known[: at + part] + known[at:] for at in range(len(known) - part + 1))


def _is_cut_off(word: str, known: str, head: int) -> bool:
    """Whether most of a long known word is followed by other letters, within a word of its own."""
    if not max(_LEAST_HEAD, 0.8 * len(known)) <= head < min(len(known), len(word)):
        return False
    return word[head - 1].isalpha() and word[head].isalpha() and known[head].isalpha()


def is_spliced(word: str, missing: Collection[str], known: Collection[str]) -> bool:
    """Whether a word is the beginning of a missing name and the end of another one.

    What lay between two names is gone then: `hostnamaccelerators` of a document of JSON. Also
    where the beginning is of a name that is not known, but no word of its own.
    """
    if len(word) < _LEAST_SPLICE:
        return False
    for end in known:
        common = _count_common(word[::-1], end[::-1])
        if common < _LEAST_KEY - 1:
            continue
        # A whole name, and behind it what is left of a missing one, cut within a word.
        is_rest_of = end in missing and common < min(len(end), len(word))
        if is_rest_of and word[:-common] in known and (word[-common] + end[-common - 1]).isalpha():
            return True
        if end in missing and common == len(end) >= _LEAST_SPLICE and word[: -len(end)].isalnum():
            return True
        for begin in missing:
            head = _count_common(word, begin)
            if 2 < head < len(begin) and head < len(word) <= head + common:
                # A word of its own has its parts meet at a mark or a capital: `code_object_id`.
                seams = range(max(len(word) - common, 1), head + 1)
                # Two marks in a row are none of its own: `request__lens`.
                if "__" in word or not any(
                    "_" in word[at - 1 : at + 1] or word[at].isupper() for at in seams
                ):
                    return True
    return False


def is_near_name(word: str, name: str) -> bool:
    """Whether a name is another one with a damage, where that stands in its place.

    Also of short names, which tools have that are one character apart: so only where nobody looked
    for the one, and the other is missing.
    """
    if is_nearly(word, name):
        return True
    if len(name) < _LEAST_SHORT:
        return False
    if len(word) == len(name) - 2 and any(
        name[:n] + name[n + 2 :] == word for n in range(len(name) - 1)
    ):
        return not name[-2:].isdigit()
    if abs(len(word) - len(name)) != 1:
        return False
    # One character less, or one that stands twice; figures are names of their own (p99, p999).
    longer, shorter = (name, word) if len(name) > len(word) else (word, name)
    places = [n for n in range(len(longer)) if longer[:n] + longer[n + 1 :] == shorter]
    if not places or longer[places[0]].isdigit():
        return False
    return longer is name or len(places) > 1


def is_rest(word: str, name: str) -> bool:
    """Whether a name is what is left of another one's end or beginning, cut within a word."""
    if not 0 < len(word) < len(name) or len(name) < _LEAST_KEY:
        return False
    if name.endswith(word):
        return word[0].isalpha() and name[-len(word) - 1].isalpha()
    return name.startswith(word) and word[-1].isalpha() and name[len(word)].isalpha()


def _count_common(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginnings on."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n] != other[n]), length)


def note_misspelt_keys(
    document: Any, known: frozenset[str], real: frozenset[str] = frozenset()
) -> list[Quality]:
    """The note on keys of a document that are nearly the tool's (count_misspelt_keys)."""
    return note_names(count_misspelt_keys(document, known, real))


def note_names(count: int) -> list[Quality]:
    """The note on names that are nearly those of a tool, if there are any."""
    if not count:
        return []
    text = "names are nearly those that the tool writes: they are damaged, and were left out"
    return [Quality("damaged_names", "warning", text, count)]


def count_misspelt_keys(
    document: Any, known: frozenset[str], real: frozenset[str] = frozenset()
) -> int:
    """How many keys are nearly a known one, in objects that lack that.

    `real` are the tool's, too, and look like a part of a known one.

    Objects that stand at the same place of others are looked at together: most are alike.
    """
    count = 0
    waiting: list[list[Any]] = [[document]]
    while waiting:
        values = waiting.pop()
        objects = [value for value in values if isinstance(value, dict)]
        shapes = Counter(map(tuple, objects))
        count += sum(times * _count_in_shape(keys, known, real) for keys, times in shapes.items())
        count += _count_unlike(shapes, known)
        examples = dict(zip(map(tuple, objects), objects, strict=True)).values()
        held = {key for one in examples for key, value in one.items() if _holds_names(value)}
        waiting += [[one[key] for one in objects if key in one] for key in held]
        lists = [value for value in values if isinstance(value, list) and value]
        inner = chain.from_iterable(one for one in lists if isinstance(one[0], dict | list))
        waiting += [found] if (found := list(inner)) else []
    return count


def _count_unlike(shapes: Counter[tuple[str, ...]], known: frozenset[str]) -> int:
    """How many of the objects of one place have a name that is nearly the one of most others."""
    if not 1 < len(shapes) <= _MOST_SHAPES or max(map(len, shapes)) > _MOST_NAMES:
        return 0
    held: Counter[str] = Counter()
    for keys, times in shapes.items():
        for key in keys:
            held[key] += times
    usual = [key for key, times in held.items() if 2 * times >= shapes.total()]
    count = 0
    for keys, times in shapes.items():
        missing = [key for key in usual if key not in keys]
        odd = [key for key in keys if held[key] == times == 1 and key not in known]
        count += sum(any(is_near_name(word, one) for one in missing) for word in odd)
        count += times == 1 and any(_is_one_off(keys, other) for other in shapes)
    return count


def _is_one_off(keys: tuple[str, ...], usual: tuple[str, ...]) -> bool:
    """Whether objects have the same names but for one short one, which is nearly the other's."""
    if len(keys) != len(usual) or len(keys) < _LEAST_ALIKE:
        return False
    odd = [(one, other) for one, other in zip(keys, usual, strict=True) if one != other]
    if len(odd) != 1 or len(odd[0][1]) >= _LEAST_KEY:
        return False
    word, name = odd[0]
    if len(word) == len(name):
        return sum(a != b for a, b in zip(word, name, strict=True)) == 1
    return is_near_name(word, name)


def _holds_names(value: Any) -> bool:
    """Whether it is an object or a list; an id in an object of its own, {"handle": 3}, is none."""
    if isinstance(value, dict) and len(value) == 1:
        return isinstance(next(iter(value.values())), dict | list | str)
    return isinstance(value, dict | list) and bool(value)


@lru_cache(maxsize=4096)
def _count_in_shape(keys: tuple[str, ...], known: frozenset[str], real: frozenset[str]) -> int:
    """The same of one object's keys: most objects of a document have the same."""
    searched = [key for key in known.difference(keys) if len(key) >= _LEAST_KEY]
    odd = [key for key in keys if key not in known and key not in real]
    return count_misspelt(odd, searched, known)


def count_misspelt(
    words: Collection[str], known: Collection[str], others_known: Collection[str] = ()
) -> int:
    """How many words are nearly a known one that is missing: what it named was not read.

    `others_known` are those that are there, with whose ends a word may end.
    """
    missing = [one for one in known if one not in words]
    if not missing:
        return 0
    others = [word for word in words if word not in known]
    every = {*known, *others_known}
    return sum(
        any(is_nearly(word, one) for one in missing) or is_spliced(word, missing, every)
        for word in others
    )
