"""The words of TSDL, the language of CTF 1.8's metadata (CTF 1.8.3, appendix C)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sightline.formats.system.ctf.classes import MetadataError

_WORD = re.compile(
    r"""
    (?P<blank>\s+|/\*.*?\*/|//[^\n]*)
  | (?P<text>L?"(?:[^"\\\n]|\\.)*")
  | (?P<character>L?'(?:[^'\\\n]|\\.)')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>:=|\.\.\.|->|[][(){};:<>,=.*+\-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_MOST = 2**64  # no number of TSDL has more than 64 bits


@dataclass(frozen=True)
class Word:
    """A word, what it is, and its line from 1."""

    kind: str  # text, character, number, name, mark or end
    text: str
    line: int

    def number(self) -> int:
        """The value of a number or character. Raises MetadataError where it has over 64 bits."""
        if self.kind == "character":
            return ord(self.text)
        digits = self.text.rstrip("uUlL").lower()
        base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 8
        is_decimal = digits == "0" or digits[0] != "0"
        # A number of 64 bits has at most 64 digits; Python refuses to read very long ones.
        value = _MOST if len(digits) > 70 else _read_digits(digits, 10 if is_decimal else base)
        if value >= _MOST:
            raise MetadataError(f"line {self.line}: a number has more than 64 bits")
        return value


def split_words(text: str) -> Iterator[Word]:
    """The words of a text, then one of kind `end`. Raises MetadataError at what is none."""
    line, at = 1, 0
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None:
            raise MetadataError(
                f"line {line}: {text[at : at + 20].split()[0]!r} is not a word of TSDL"
            )
        kind, word = found.lastgroup or "", found.group()
        if kind in ("text", "character"):
            yield Word(kind, _unescape(word.removeprefix("L")[1:-1]), line)
        elif kind != "blank":
            yield Word(kind, word, line)
        line += word.count("\n")
        at = found.end()
    yield Word("end", "", line)


def _read_digits(digits: str, base: int) -> int:
    try:
        return int(digits, base)
    except ValueError:
        raise MetadataError(f"{digits!r} is not a number") from None


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[1] or found[2]:
            return chr(int(found[1] or found[2], 16 if found[1] else 8))
        return _ESCAPES.get(found[3], found[3])

    return _ESCAPED.sub(replace, text) if "\\" in text else text
