"""Values and units as `ncu --csv` prints them, into base units."""

from __future__ import annotations

import re

_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {
    "nsecond": 1.0,
    "usecond": 1e3,
    "msecond": 1e6,
    "second": 1e9,
    "minute": 60e9,
    "hour": 3600e9,
    "ns": 1.0,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
    "nsec": 1.0,
    "usec": 1e3,
    "msec": 1e6,
    "sec": 1e9,
}
# What a unit is called in the tables. Anything else keeps its own word.
_WORDS = {
    "byte": "bytes",
    "cycle": "cycles",
    "sector": "sectors",
    "request": "requests",
    "warp": "warps",
    "thread": "threads",
    "block": "blocks",
    "wavefront": "wavefronts",
    "register": "registers",
    "": None,
}
_NUMBER = re.compile(r"^[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?$")


def parse_unit(text: str) -> tuple[str | None, float]:
    """The base unit, and what a value must be multiplied with to be in it."""
    text = text.strip()
    if text in ("%", "inst", ""):
        return text or None, 1.0
    top, slash, bottom = text.partition("/")
    if top in _TIMES and not slash:
        return "ns", _TIMES[top]
    hertz = re.fullmatch(r"([KMGT]?)hz", text, re.IGNORECASE)
    if hertz:
        return "1/s", _PREFIXES[hertz[1].upper()]
    word, factor = _scaled(top)
    if not slash:
        return _WORDS.get(word, word), factor
    if bottom in _TIMES:
        per_second = factor * 1e9 / _TIMES[bottom]
        # The tool prints clock rates as cycles per time.
        return ("1/s" if word == "cycle" else f"{_WORDS.get(word, word)}/s"), per_second
    # Shared memory comes as bytes per block: a size of one block, as the reports have it.
    if word == "byte" and bottom == "block":
        return "bytes", factor
    return f"{_WORDS.get(word, word)}/{bottom}", factor


def _scaled(text: str) -> tuple[str, float]:
    """A unit's word without its decimal prefix: Kbyte is 1000 bytes."""
    for prefix, factor in _PREFIXES.items():
        if prefix and text.startswith(prefix) and len(text) > 2 and text[1:2].islower():
            return text[1:], factor
    return text, 1.0


def parse_number(text: str) -> float | int | None:
    """A printed number, its thousands separators removed; None where it is none."""
    text = text.strip()
    if not text or not any(c.isdigit() for c in text) or not _NUMBER.match(text):
        return None
    plain = text.replace(",", "")
    return int(plain) if re.fullmatch(r"[-+]?\d+", plain) and len(plain) < 20 else float(plain)


def parse_value(
    text: str, factor: float
) -> tuple[float | int | str | None, list[tuple[int | str, float | int]]]:
    """A printed value in base units, and its instances where they were printed behind it.

    Instances stand in brackets: '6 (1; 2; 3)', or with what they are, '6 (HMMA: 4; IMAD: 2)'.
    """
    text = text.strip()
    number = parse_number(text)
    if number is not None:
        return _times(number, factor), []
    head, bracket, rest = text.partition(" (")
    total = parse_number(head)
    if bracket and rest.endswith(")") and total is not None:
        instances: list[tuple[int | str, float | int]] = []
        for at, item in enumerate(rest[:-1].split(";")):
            key, colon, value = item.rpartition(":")
            found = parse_number(value)
            if found is not None:
                name: int | str = key.strip() if colon else at
                if isinstance(name, str) and name.isdecimal() and len(name) < 19:
                    name = int(name)
                instances.append((name, _times(found, factor)))
        return _times(total, factor), instances
    return (None if text.lower() in ("", "n/a", "nan", "no data", "(!) n/a") else text), []


def _times(number: float | int, factor: float) -> float | int:
    if factor == 1.0:
        return number
    product = number * factor
    # 1.5 usecond is 1500 ns: what is whole in base units stays an integer.
    return (
        round(product)
        if abs(product - round(product)) < 1e-6 * max(1.0, abs(product)) and abs(product) < 2**53
        else product
    )
