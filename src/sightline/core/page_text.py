"""Bytes as characters of an HTML page: six of them as seven characters, a sixth more.

Base64 takes a third more. Six bytes are a number of 48 bits, and seven digits of base 116 hold it;
the digits are the characters of ASCII without those that a page cannot hold or that programs on a
file's way change. Characters beyond ASCII would save two hundredths more, and a browser takes twice
as long to read them. web/src/shared/pack.ts reads it.

In a script element that no browser runs, the parser of HTML keeps all characters as they are but
NUL, which it replaces, and carriage returns, which become line feeds (HTML Living Standard,
13.2.3.5 "Preprocessing the input stream" and 13.2.5.4 "Script data state"); "<" would begin a tag.
"""

from __future__ import annotations

import numpy as np

# NUL, CR and "<" for the parser; "&" for readers of XML; backspace, vertical tab, form feed, shifts
# and escape for terminals, delete, and Ctrl-Z, where Windows' text files end.
LEFT_OUT = bytes((0x00, 0x08, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x1A, 0x1B, 0x26, 0x3C, 0x7F))
DIGITS = bytes(c for c in range(128) if c not in LEFT_OUT)
BASE = len(DIGITS)
BYTES, CHARACTERS = 6, 7  # 116^7 is just above 2^48

_CHARACTER = np.frombuffer(DIGITS, np.uint8)
_DIGIT = {character: digit for digit, character in enumerate(DIGITS)}


def encode_bytes(data: bytes | bytearray) -> bytes:
    """The bytes as text of a page, in ASCII: n bytes of a last group are n + 1 characters."""
    groups = -(-len(data) // BYTES)
    flat = np.zeros(groups * BYTES, np.uint8)
    flat[: len(data)] = np.frombuffer(data, np.uint8)
    numbers = np.zeros((groups, 8), np.uint8)
    numbers[:, 2:] = flat.reshape(groups, BYTES)
    number = numbers.view(">u8").reshape(-1).astype(np.uint64)
    text = np.empty((groups, CHARACTERS), np.uint8)
    for place in reversed(range(CHARACTERS)):
        rest = number // np.uint64(BASE)
        text[:, place] = _CHARACTER[number - rest * np.uint64(BASE)]
        number = rest
    return text.tobytes()[: len(data) + groups]


def decode_text(text: str) -> bytes:
    """The bytes that `encode_bytes` wrote: for tests and for who looks into a page.

    Where digits of the last group are missing, the highest ones stand for them: so much is below
    what its bytes hold.
    """
    data = bytearray()
    for at in range(0, len(text), CHARACTERS):
        group = text[at : at + CHARACTERS]
        number = 0
        for digit in [*(_DIGIT[ord(c)] for c in group), *[BASE - 1] * (CHARACTERS - len(group))]:
            number = number * BASE + digit
        data += number.to_bytes(BYTES, "big")[: len(group) - 1]
    return bytes(data)
