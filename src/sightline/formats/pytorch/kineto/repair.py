"""Repairs events whose texts Kineto wrote without escaping what is in them.

Kineto quotes texts of NCCL only since pytorch/kineto #1482, and escapes names only since #1508: in
older files a quote in the name of a kernel or a process group ends its text too early, and a name
may stand without quotes. Kineto writes one key a text, each followed by a key that it always has.
It also writes what C++ makes of numbers that are none, `inf` and `-nan`, and paths of Windows with
single backslashes.
"""

from __future__ import annotations

import json
import re

# An event names itself once, and NCCL's texts stand in it once each. Where a file repeats them
# without end, the search stays in proportion to its size: each key once, and its end once.
_MOST_TEXTS = 16
_NAME = re.compile(r'"name": "')
_TEXT = re.compile(
    r'"(?:Collective name|dtype|Process Group (?:Name|Description|Ranks)|comm_backend)": '
)
# A text ends before the next key that Kineto always writes, or with its line or object.
_NAME_ENDS = re.compile(r'"(?=, "(?:pid|args|ph|cat)"\s{0,8}:|,?[ \t\r]{0,8}\n)')
_TEXT_ENDS = re.compile(r',? {0,8}\n|, "[A-Z][^"\n]{2,40}"\s{0,8}:|\s{0,8}\}')
# Where a value stands, what C++ streams write of a number that is none: glibc's and Microsoft's.
_NO_NUMBER = re.compile(
    r"(?<=[:,\[])(\s{0,8})[-+]?(?:inf(?:inity)?|nan(?:\(\w{1,20}\))?|1\.#\w{1,10})(?=\s{0,8}[,}\]])",
    re.IGNORECASE,
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])|\\u(?![0-9a-fA-F]{4})')


def repair_texts(event: str) -> str | None:
    """The event with its texts escaped; None where nothing of it had to be, or could be."""
    plain = _STRING.sub(_escape_path, _NO_NUMBER.sub(r"\1null", event))
    if plain != event and _is_whole(plain):
        return plain
    repaired = _quote_texts(_escape_name(plain))
    return None if repaired == event else repaired


def _is_whole(event: str) -> bool:
    try:
        json.loads(event, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _escape_path(found: re.Match[str]) -> str:
    """A text whose backslashes are all meant as such, as one of them can be no escape."""
    text = found[0]
    if not _BAD_ESCAPE.search(text):
        return text
    return re.sub(r'\\(\\|")?', lambda m: m[0] if m[1] else r"\\", text)


def _escape_name(event: str) -> str:
    found = _NAME.search(event)
    if not found:
        return event
    line_ends = event.find("\n", found.end()) + 1 or len(event)
    end = _NAME_ENDS.search(event, found.end(), line_ends)
    if not end:
        return event
    name = json.dumps(_unescape(event[found.end() : end.start()]))
    return event[: found.end() - 1] + name + event[end.end() :]


def _quote_texts(event: str) -> str:
    pieces, at = [], 0
    for _ in range(_MOST_TEXTS):
        found = _TEXT.search(event, at)
        end = found and _TEXT_ENDS.search(event, found.end())
        if not found or not end:
            break
        pieces += [event[at : found.end()], _quote_value(event[found.end() : end.start()])]
        at = end.start()
    return "".join(pieces) + event[at:]


def _quote_value(value: str) -> str:
    try:
        json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return json.dumps(_unescape(value.removeprefix('"').removesuffix('"')))
    return value


def _unescape(text: str) -> str:
    """What is escaped already, as the character that it stands for."""
    return re.sub(r'\\(["\\/])', r"\1", text)
