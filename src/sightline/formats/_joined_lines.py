"""Lines of a text that are two: the break between them is gone."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from sightline.core.model.declare import Quality

_LOOKED_AT = 1 << 20  # bytes of a text
_MOST_TRIES = 2_000_000  # to find the second line in one
_LEAST = 12  # characters of a line that is known again as the end of another one
_DIGITS, _BLANKS = re.compile(rb"\d+"), re.compile(rb"[ \t]+")
# A second line begins as lines do: not with what closes or goes on.
_BEGINS = re.compile(rb"[\w\[(\"#+=%-]")
_SAYS = re.compile(rb"\w")  # rules of dashes say nothing, and stand within longer ones
_MARKUP = re.compile(rb"\s*(?:<[?!\w]|[{\[]\s*[\"{\[]|\{\s*\})")


def note_joined_lines(data: bytes) -> list[Quality]:
    """The note on lines that seem to be two, if there are any."""
    count = count_joined_lines(data)
    if not count:
        return []
    text = "lines end with the beginning of other lines: they are two lines in one, and one is lost"
    return [Quality("joined_lines", "info", text, count)]


def count_joined_lines(data: bytes) -> int:
    """How many lines of the first MiB end, without a blank before it, as another line is whole.

    Figures count as one digit, and blanks as one. Text of JSON and XML may be broken anywhere.
    """
    part = data[:_LOOKED_AT]
    if _MARKUP.match(part) or b"\n" not in part:
        return 0
    lines = part.replace(b"\r", b"\n").split(b"\n")
    blanks_as_one = [_BLANKS.sub(b" ", _DIGITS.sub(b"0", line)) for line in lines]
    shapes = Counter(line.strip() for line in blanks_as_one)
    indented = {line.strip() for line in blanks_as_one if line[:1] == b" "}
    ends: defaultdict[bytes, set[int]] = defaultdict(set)
    for shape in shapes:
        is_line = len(shape) >= _LEAST and _BEGINS.match(shape) and _SAYS.search(shape)
        if is_line and (shape not in indented or b"0" in shape):  # indented: a row of figures
            ends[shape[-_LEAST:]].add(len(shape))
    count = tries = 0
    for shape, times in shapes.items():
        if times > 1 or len(shape) < 2 * _LEAST:  # what recurs is a line of its own
            continue
        lengths = ends.get(shape[-_LEAST:], ())
        tries += len(lengths)
        if tries > _MOST_TRIES:
            break
        count += any(
            length <= len(shape) - _LEAST
            and shape[-length:] in shapes
            and (shape[-length - 1 : -length] == b" ") == (shape[-length:] in indented)
            for length in lengths
        )
    return count
