"""One damage to one text of bytes, as disks, networks, editors and bad people do it."""

from __future__ import annotations

import random
import re

_NUMBERS = (b"-1", b"0", b"9223372036854775807", b"-9223372036854775809", b"1e999", b"NaN", b"1.5")
_WORDS = (b"null", b"true", b"{}", b"[]", b'""', b'"\\ud800"', b"\x1b]0;x\x07", b"../../x", b"\0")


def damage(data: bytes, rng: random.Random, other: bytes) -> tuple[str, bytes]:
    """The kind of damage, and what the file is then; `other` is a file to take pieces from."""
    kind = rng.choice(
        ("cut", "cut", "flip", "flip", "bytes", "remove", "repeat", "splice", "number", "word",
         "zeros", "brackets", "empty")
    )  # fmt: skip
    size = max(len(data), 1)
    at = rng.randrange(size)
    length = rng.randint(1, max(1, min(size - at, 200)))
    if kind == "cut":
        return kind, data[:at]
    if kind == "flip":
        made = bytearray(data or b"\0")
        for _ in range(rng.choice((1, 1, 3, 20))):
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        return kind, bytes(made)
    if kind == "bytes":
        return kind, data[:at] + rng.randbytes(length) + data[at + length :]
    if kind == "remove":
        return kind, data[:at] + data[at + length :]
    if kind == "repeat":
        return kind, data[:at] + data[at : at + length] * rng.choice((2, 2, 50)) + data[at:]
    if kind == "splice":
        start = rng.randrange(max(len(other), 1))
        return kind, data[:at] + other[start : start + length] + data[at + length :]
    if kind in ("number", "word"):
        pattern = rb"-?\d+(?:\.\d+)?" if kind == "number" else rb'"[^"\n]{0,60}"|[\w.]+'
        found = list(re.finditer(pattern, data[:200_000]))
        if found:
            one = rng.choice(found)
            new = rng.choice(_NUMBERS if kind == "number" else _WORDS)
            return kind, data[: one.start()] + new + data[one.end() :]
        return "zeros", data[:at] + bytes(length) + data[at + length :]
    if kind == "zeros":
        return kind, data[:at] + bytes(length) + data[at + length :]
    if kind == "brackets":
        return kind, data[:at] + rng.choice((b"[", b"{", b'{"a":')) * 5_000 + data[at:]
    return kind, b""
