"""Reads a Chrome-trace JSON event by event, in bounded memory, as far as it is intact.

The whole text is never held: a buffer moves over the file and each event is decoded by the
standard library's C scanner. Numbers with a decimal point stay text, so that times can be read
from their digits.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from sightline.core.model.declare import Quality
from sightline.core.model.source import read_intact
from sightline.errors import DamagedError

CHUNK_BYTES = 4 << 20
MAX_VALUE_CHARS = 64 << 20  # one event or header value larger than this is taken for damage

_BLANK = re.compile(r"[\s,\ufeff]*")
# Where reading goes on behind a damaged event: Kineto writes "ph" first, for metadata "name".
_NEXT_EVENT = re.compile(r'\{\s*"(?:ph"\s*:|name"\s*:[^{}]{0,500}"ph"\s*:)')
_EVENT_KEYS = ("traceEvents",)


class Events:
    """Iterating gives the trace's events; `header` fills with the other top-level values.

    `quality` says afterwards what could not be read. Raises DamagedError where the content is no
    Chrome trace at all.
    """

    def __init__(self, stream: BinaryIO, given: str) -> None:
        self.header: dict[str, Any] = {}
        self.quality: list[Quality] = []
        self.has_events = False
        self._stream = stream
        self._given = given
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decode = json.JSONDecoder(
            parse_float=str, parse_constant=str, strict=False
        ).raw_decode
        self._text = ""
        self._pos = 0
        self._consumed = 0  # characters dropped from the buffer's front
        self._end = False
        self._early_end: str | None = None

    def __iter__(self) -> Iterator[Any]:
        opening = self._peek()
        if opening == "[":
            self._pos += 1
            self.has_events = True
            yield from self._array()
        elif opening == "{":
            self._pos += 1
            yield from self._object()
        elif opening == "":
            why = self._early_end or "it is empty"
            raise DamagedError(f"cannot read {self._given}", why=why)
        else:
            raise DamagedError(f"cannot read {self._given}", why="it is not JSON")
        if self._early_end:
            self._note("truncated", "error", f"reading stopped early: {self._early_end}", None)

    def _object(self) -> Iterator[Any]:
        while True:
            char = self._peek()
            if char == "}":
                return
            try:
                if char == "":
                    raise ValueError("end of file")
                key = self._value()
                self._expect_colon()
                if key in _EVENT_KEYS and self._peek() == "[":
                    self._pos += 1
                    self.has_events = True
                    yield from self._array()
                else:
                    self.header[str(key)] = self._value()
            except ValueError as error:
                if self._resync():
                    # What follows the damage looks like events: it is the array's rest.
                    self.has_events = True
                    yield from self._array()
                elif not self.has_events and not self.header:
                    raise DamagedError(
                        f"cannot read {self._given}",
                        why=f"the JSON ends or breaks near byte {self._where()} ({error})",
                    ) from error
                else:
                    self._truncated()
                    return

    def _array(self) -> Iterator[Any]:
        while True:
            char = self._peek()
            if char == "]":
                self._pos += 1
                return
            if char == "":
                self._truncated()
                return
            try:
                yield self._value()
            except ValueError:
                at = self._where()
                if not self._resync():
                    self._truncated(at)
                    return
                self._note(
                    "damaged_events",
                    "error",
                    f"unreadable near byte {at}; reading resumed at byte {self._where()}",
                    1,
                )

    def _value(self) -> Any:
        """Decode the value at the position; ValueError where it is damaged or cut off."""
        if self._pos >= len(self._text):
            self._fill()
        while True:
            try:
                value, end = self._decode(self._text, self._pos)
            except json.JSONDecodeError as error:
                # At the buffer's edge the value may only be incomplete; elsewhere it is broken.
                near_edge = error.pos >= len(self._text) - 16 or "Unterminated" in error.msg
                if not near_edge or not self._more():
                    raise
                continue
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            if len(self._text) - end < 3 and self._more():
                continue  # a number at the edge may go on, as in 1.5|, 1|.5 and 1|e+9
            self._pos = end
            return value

    def _more(self) -> bool:
        if self._end or len(self._text) - self._pos > MAX_VALUE_CHARS:
            return False
        self._fill()
        return True

    def _fill(self) -> None:
        if self._end:
            return
        data, early_end = read_intact(self._stream, CHUNK_BYTES)
        self._end = not data
        self._early_end = early_end or self._early_end
        self._consumed += self._pos
        self._text = self._text[self._pos :] + self._utf8.decode(data, final=self._end)
        self._pos = 0

    def _peek(self) -> str:
        """The next character that is neither blank nor a comma; '' at the end."""
        while True:
            match = _BLANK.match(self._text, self._pos)
            assert match is not None
            self._pos = match.end()
            if self._pos < len(self._text):
                return self._text[self._pos]
            if self._end:
                return ""
            self._fill()

    def _expect_colon(self) -> None:
        if self._peek() != ":":
            raise ValueError("no ':' after a key")
        self._pos += 1
        self._peek()

    def _resync(self) -> bool:
        """Move to the next thing that looks like an event."""
        self._pos += 1
        while True:
            match = _NEXT_EVENT.search(self._text, self._pos)
            if match is not None:
                self._pos = match.start()
                return True
            if self._end:
                self._pos = len(self._text)
                return False
            self._pos = max(self._pos, len(self._text) - 1024)
            self._fill()

    def _where(self) -> int:
        return self._consumed + self._pos

    def _truncated(self, at: int | None = None) -> None:
        where = self._where() if at is None else at
        self._note(
            "truncated",
            "error",
            f"the file ends in the middle (near byte {where}): read up to the last whole event",
            None,
            "Let the profiler finish: call stop(), or leave its 'with' block, before the exit.",
        )

    def _note(
        self, kind: str, severity: str, text: str, count: int | None, remedy: str | None = None
    ) -> None:
        if not any(q.kind == kind and kind == "truncated" for q in self.quality):
            self.quality.append(Quality(kind, severity, text, count, remedy))
