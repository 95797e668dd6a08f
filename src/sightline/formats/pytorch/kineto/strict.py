"""Makes strict JSON of an event that only Python's rules can judge.

The compiled reader takes the plain forms of numbers and texts. What is left, one event in millions,
comes here: texts with digits of other scripts, underscores or blanks around them as times, lone
surrogates, keys that repeat, lists where a text should be. Each becomes the plain form of the value
that it has in Python, so that what a value means is written down once.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from sightline.core.units import INT64_MAX, microseconds_to_ns

_TEXTS = (
    "Call stack",
    "Python module id",
    "Collective name",
    "Process Group Name",
    "Process Group ID",
    "Process Group Description",
    "dtype",
)


def reject_nonstandard(event: Any) -> bytes | None:
    """The event as JSON that the compiled reader takes; the text of null for what is no event."""
    # With zeros in a name it may be two, of a disk that lost what stood between them.
    if not isinstance(event, dict) or any("\0" in key for key in event):
        return b"null"
    plain = {key: event[key] for key in ("ph", "cat") if key in event}
    for key in ("ts", "dur"):
        if key in event:
            plain[key] = _time(event[key])
    for key in ("pid", "tid", "id"):
        if key in event:
            plain[key] = _number(event[key])
    if "name" in event:
        plain["name"] = _text(event["name"])
    if isinstance(plain.get("cat"), str) and plain.get("ph") in ("X", "B"):
        plain["cat"] = plain["cat"].lower()
    args = event.get("args")
    if isinstance(args, dict):
        series = plain.get("ph") == "C"
        plain["args"] = _series(args) if series else _args(args)
    return json.dumps(_clean(plain)).encode()


def _args(args: dict[str, Any]) -> dict[str, Any]:
    plain = dict(args)
    for key in _TEXTS:
        if key in plain:
            plain[key] = _text(plain[key])
    if isinstance(plain.get("Collective name"), str):
        plain["Collective name"] = plain["Collective name"].lower()
    if isinstance(plain.get("kind"), (list, dict)):
        plain["kind"] = str(plain["kind"])
    ranks = plain.get("Process Group Ranks")
    if isinstance(ranks, str):
        try:
            ranks = json.loads(ranks)
        except (ValueError, RecursionError):
            ranks = None
    if "Process Group Ranks" in plain:
        plain["Process Group Ranks"] = ranks if isinstance(ranks, list) else None
    return plain


def _series(args: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in args.items():
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            continue
        try:
            found[name] = repr(float(value))
        except (ValueError, OverflowError):
            continue
    return found


def _time(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    ns = microseconds_to_ns(value)
    if ns is None:
        return None
    us, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{us}.{rest:03d}"


def _number(value: Any) -> int | None:
    """A process, thread or stream number; 'stream 7' gives 7, another text one of its own."""
    if type(value) is int:
        return value if -INT64_MAX <= value <= INT64_MAX else None
    if not isinstance(value, str):
        return None
    digits = value[1:] if value[:1] == "-" else value
    if digits.isascii() and digits.isdigit() and len(digits) < 19:
        return int(value)
    last = value.rsplit(" ", 1)[-1]
    if last.isdecimal() and len(last) < 19:
        return int(last)
    return zlib.crc32(value.encode("utf-8", "replace"))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _clean(value: Any) -> Any:
    """The value without lone surrogates, which no UTF-8 column can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
