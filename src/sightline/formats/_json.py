"""JSON that is cut off or damaged, read as far as it goes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from sightline.core.model.declare import Quality
from sightline.formats._asked_names import AskedNames

_TOKEN = re.compile(
    r'[\s]+|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)|(?P<word>true|false|null)'
    r"|(?P<mark>[\[\]{},:])"
)
_WORD = re.compile(r"\S")
_WINDOW = 4 << 10
_FREE_LOOKS, _LOOKS_PER_CHARACTER = 16 << 20, 8
_DEEPEST = 500  # Python's own reader gives up at about a thousand


def parse_json(
    text: str,
    quality: list[Quality],
    read_float: Callable[[str], Any] | None = None,
    names: AskedNames | None = None,
) -> Any:
    """The document; of a damaged one what stands before the damage, and a note.

    `names` learns which names its objects are asked for.

    Raises ValueError where nothing can be made of it, RecursionError where it is nested too deeply.
    """
    hook = None if names is None else names.hook
    try:
        return json.loads(text, parse_float=read_float, object_pairs_hook=hook)
    except ValueError as error:
        at = getattr(error, "pos", 0)
        closed = _close(text, at)
        document = json.loads(closed, parse_float=read_float, object_pairs_hook=hook)
    what = f"the JSON is damaged or ends early, at character {at}: what follows is left out"
    quality.append(Quality("truncated", "error", what))
    return document


def list_documents(text: str, names: AskedNames | None = None) -> list[Any]:
    """Every JSON value of a text, on a line of its own or not; None for a line that holds none.

    In time that is linear in the text: a value is looked for in a window that grows, and where many
    go on behind theirs, as in a text of open brackets, windows grow no more.
    """
    hook = None if names is None else names.hook
    decode = json.JSONDecoder(object_pairs_hook=hook).raw_decode
    found: list[Any] = []
    at, looked = 0, 0
    while (begin := _WORD.search(text, at)) is not None:
        at, size, value, end = begin.start(), _WINDOW, None, None
        while end is None:
            part = text[at : at + size]
            is_all = len(part) < size
            try:
                value, end = decode(part)
            except (ValueError, RecursionError) as error:
                place = getattr(error, "pos", 0)
                looked += len(part)
                goes_on = place >= len(part) - 16 or "Unterminated" in str(error)
                if is_all or not goes_on or looked > _FREE_LOOKS + _LOOKS_PER_CHARACTER * at:
                    following = text.find("\n", at)
                    end = (len(text) if following < 0 else following + 1) - at
            else:
                if end == len(part) and not is_all:
                    end = None  # a number may go on
            size *= 4
        found.append(value)
        at += end
    return found


def _close(text: str, damage: int) -> str:
    """The text up to its last whole value before the damage, with all that is open closed."""
    open_: list[str] = []
    expects_key: list[bool] = []
    place, kept, kept_open = 0, 0, ""
    after_colon = False
    # A text without its end is damaged where it begins, which is where json says so, too.
    while found := _TOKEN.match(text, place):
        start, place = place, found.end()
        if start > damage or (place > damage and found["mark"] is None):
            break
        mark = found["mark"]
        if mark in ("[", "{"):
            if len(open_) >= _DEEPEST:
                break
            open_.append("]" if mark == "[" else "}")
            expects_key.append(mark == "{")
            after_colon = False
            kept, kept_open = place, "".join(reversed(open_))
        elif mark in ("]", "}"):
            if not open_ or open_[-1] != mark:
                break
            open_.pop()
            expects_key.pop()
            kept, kept_open = place, "".join(reversed(open_))
        elif mark == ",":
            if open_ and open_[-1] == "}":
                expects_key[-1] = True
            after_colon = False
        elif mark == ":":
            after_colon = True
        elif found.lastgroup is not None:
            if open_ and expects_key[-1] and not after_colon:
                expects_key[-1] = False  # a key, which is nothing without its value
                continue
            if place == len(text) and found["number"] is not None:
                break  # its last digits may be missing
            kept, kept_open = place, "".join(reversed(open_))
            after_colon = False
    return text[:kept] + kept_open
