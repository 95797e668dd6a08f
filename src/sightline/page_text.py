"""Bytes as characters of an HTML page: seven bits each, an eighth more than the bytes.

Base64 takes a third more. A symbol of seven bits is the character of that number, except for
those that a page cannot hold or that programs on a file's way change (HARD): these stand, together
with the symbol after them, as one character from U+0080 on, which UTF-8 writes as two bytes. So
eight symbols are eight bytes of the file, whatever they are. web/src/shared/pack.ts reads it.

In a script element that no browser runs, the parser of HTML keeps all characters as they are but
NUL, which it replaces, and carriage returns, which become line feeds (HTML Living Standard,
13.2.3.5 "Preprocessing the input stream" and 13.2.5.4 "Script data state"); "<" would begin a tag.
"""

from __future__ import annotations

import numpy as np

# NUL, CR and "<" for the parser; "&" and ">" for readers of XML; backspace, vertical tab, form
# feed, shifts, escape and delete for terminals, and Ctrl-Z, where Windows' text files end.
HARD = bytes((0x00, 0x08, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x1A, 0x1B, 0x26, 0x3C, 0x3E, 0x7F))
# The first character of those that hold two symbols; a last one without a successor stands beyond.
_FIRST = 0x80
_LONE = _FIRST + 128 * len(HARD)

_PLACE = np.full(128, -1, np.int16)
_PLACE[list(HARD)] = np.arange(len(HARD))


def encode_bytes(data: bytes | bytearray) -> bytes:
    """The bytes as text of a page, in UTF-8: 8/7 of their number, rounded up."""
    symbols = _split_bytes(data)
    hard = np.flatnonzero(_PLACE[symbols] >= 0)
    # In a run of hard symbols the first takes the second along, the third the fourth.
    nth = np.arange(hard.size)
    begins = np.diff(hard, prepend=-2) != 1
    leads = hard[(nth - np.maximum.accumulate(np.where(begins, nth, 0))) % 2 == 0]
    end = b""
    if leads.size and leads[-1] == symbols.size - 1:
        end = chr(_LONE + int(_PLACE[symbols[-1]])).encode()
        leads = leads[:-1]
    character = _FIRST + 128 * _PLACE[symbols[leads]] + symbols[leads + 1]
    symbols[leads] = 0xC0 | (character >> 6)
    symbols[leads + 1] = 0x80 | (character & 0x3F)
    return symbols[: symbols.size - bool(end)].tobytes() + end


def _split_bytes(data: bytes | bytearray) -> np.ndarray:
    """Seven bits each, the highest first; the last has zeros behind what it holds."""
    padded = np.zeros(-(-len(data) // 7) * 7, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    columns = np.ascontiguousarray(padded.reshape(-1, 7).T)
    symbols = np.empty((padded.size // 7, 8), np.uint8)
    symbols[:, 0] = columns[0] >> 1
    for place in range(1, 7):
        symbols[:, place] = (
            columns[place - 1] << (7 - place) | columns[place] >> (place + 1)
        ) & 127
    symbols[:, 7] = columns[6] & 127
    return symbols.reshape(-1)[: -(-8 * len(data) // 7)]


def decode_text(text: str) -> bytes:
    """The bytes that `encode_bytes` wrote: for tests and for who looks into a page."""
    symbols = bytearray()
    for character in map(ord, text):
        if character < _FIRST:
            symbols.append(character)
        elif character < _LONE:
            place, second = divmod(character - _FIRST, 128)
            symbols += bytes((HARD[place], second))
        else:
            symbols.append(HARD[character - _LONE])
    count = len(symbols) * 7 // 8
    data = bytearray()
    for at in range(0, len(symbols), 8):
        number = 0
        for symbol in symbols[at : at + 8].ljust(8, b"\0"):
            number = number << 7 | symbol
        data += number.to_bytes(7, "big")
    return bytes(data[:count])
