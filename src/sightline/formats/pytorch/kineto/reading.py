"""Reads a Chrome trace as far as it is intact: what is not an event, and what is damaged.

The events themselves are read by the compiled reader. It stops at an event that it does not take
(odd numbers, broken text, damage); the standard library's scanner then decides, which has no
trouble with NaN, control characters or lone surrogates, and says what is damage.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from sightline._native import Trace
from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.errors import DamagedError, InputError
from sightline.formats.pytorch.kineto.repair import repair_texts
from sightline.formats.pytorch.kineto.strict import reject_nonstandard

MAX_VALUE_BYTES = 64 << 20  # one event or header value larger than this is taken for damage
PIECE_BYTES = 1 << 20  # parsed at once on one core
MAX_THREADS = 12  # each needs some 10 MB; putting the rows in order is done by one
MAX_NOTES = 3  # damages that get a row of their own, as more would fill a screen
_LAST_EVENT = re.compile(rb"(?<=\})\s*\]\s*[,}]")
_REPAIR = 64 << 10  # no event with texts of NCCL's is longer
_WINDOW = 4 << 10
_SEARCH = 4 << 20
# Values that turn out to be damaged are looked at again and again: from what follows each a longer
# value may begin. All such looks together take time in proportion to the file.
_FREE_LOOKS, _LOOKS_PER_BYTE = 32 << 20, 8
_BUDGET = 64 << 20  # bytes between two reports of progress

# What the compiled reader's events() says.
_PAUSED, _ARRAY_END, _REFUSED, _END = range(4)

_BLANK = re.compile(r"[\s,\ufeff]*")
# Where reading goes on behind a damaged event: Kineto writes "ph" first, for metadata "name".
_NEXT_EVENT = re.compile(rb'\{\s*"(?:ph"\s*:|name"\s*:[^{}]{0,500}"ph"\s*:)')


class Reading:
    """One trace on its way from a file to tables; `run` reads it to the end.

    `header` then holds the top-level values besides the events, `quality` what could not be read.
    """

    def __init__(self, source: Source) -> None:
        self.is_list = False  # of events, without an object around it
        self.header: dict[str, Any] = {}
        self.quality: list[Quality] = []
        self.has_events = False
        self.too_large: str | None = None
        self._source = source
        self._told = 0
        self._damaged = self._first_damage = 0
        self._repaired = 0
        self._looked = 0  # bytes of values that were none
        self._decode = json.JSONDecoder(
            parse_float=str, parse_constant=str, strict=False
        ).raw_decode
        try:
            self.trace = Trace(
                source.path,
                _scratch(),
                min(len(os.sched_getaffinity(0)), MAX_THREADS),
                piece_bytes=PIECE_BYTES,
            )
        except OSError as error:
            raise InputError(
                f"cannot read {source.given}", why=(error.strerror or str(error)).lower()
            ) from error

    def run(self) -> None:
        """Read the whole file. Raises DamagedError where it is not JSON, or breaks at once."""
        opening = self._peek()
        if opening == "[":
            self.is_list = True
            self.trace.advance(1)
            self._array()
        elif opening == "{":
            self.trace.advance(1)
            self._object()
        elif opening == "":
            why = self.trace.early_end or "it is empty"
            raise DamagedError(f"cannot read {self._source.given}", why=why)
        else:
            raise DamagedError(f"cannot read {self._source.given}", why="it is not JSON")
        self._peek()  # to the end, where damage of a compressed file may show
        if self._damaged > MAX_NOTES:
            # One row for all, instead of a screen of them.
            text = f"events are unreadable, the first near byte {self._first_damage}"
            others = [q for q in self.quality if q.kind != "damaged_events"]
            self.quality = [*others, Quality("damaged_events", "error", text, self._damaged)]
        if self._repaired:
            text = "events with strings or numbers as only Kineto writes them are repaired"
            self.quality.append(Quality("repaired_events", "info", text, self._repaired))
        if self.trace.early_end:
            self._truncated(self.trace.position)
        self._tell()

    def _object(self) -> None:
        while True:
            char = self._peek()
            if char == "}":
                return
            try:
                if char == "":
                    raise ValueError("end of file")
                key = self._value()
                if self._peek() != ":":
                    raise ValueError("no ':' after a key")
                self.trace.advance(1)
                if key == "traceEvents" and self._peek() == "[":
                    self.trace.advance(1)
                    self._array()
                else:
                    self._peek()
                    self.header[str(key)] = self._value()
            except ValueError as error:
                where = self.trace.position
                is_closed = self._is_closed()
                if self._resync():
                    # What follows the damage looks like events: it is the array's rest.
                    self._array()
                elif not self.has_events and not self.header:
                    raise DamagedError(
                        f"cannot read {self._source.given}",
                        why=f"the JSON ends or breaks near byte {where} ({error})",
                    ) from error
                elif is_closed:
                    text = f"what follows the events is unreadable near byte {where}"
                    self.quality.append(Quality("damaged_header", "info", text))
                    return
                else:
                    self._truncated(where)
                    return

    def _is_closed(self) -> bool:
        """Whether the events' list came to its end, and the object around it does: no cut."""
        rest = self.trace.window(_SEARCH)
        return self.has_events and len(rest) < _SEARCH and rest.rstrip().endswith(b"}")

    def _array(self) -> None:
        self.has_events = True
        while True:
            stop = self.trace.events(_BUDGET)
            self._tell()
            if stop == _ARRAY_END:
                return
            if stop == _END:
                self._truncated(self.trace.position)
                return
            if stop == _REFUSED and not self._judge():
                return

    def _judge(self) -> bool:
        """Read one item that the compiled reader refused. False where nothing follows."""
        at = self.trace.position
        try:
            item = reject_nonstandard(self._value())
            if item is None or self.trace.add(item):
                return True
        except ValueError:
            if self._repair():
                return True
            if not self._resync():
                self._truncated(at)
                return False
        self._damaged += 1
        self._first_damage = at if self._damaged == 1 else self._first_damage
        if self._damaged <= MAX_NOTES:
            self._note(
                "damaged_events",
                f"unreadable near byte {at}; reading resumed at byte {self.trace.position}",
                1,
            )
        return True

    def _repair(self) -> bool:
        """Take the item at the position with its texts escaped, if that makes an event of it."""
        data = self.trace.window(_REPAIR)
        behind = _NEXT_EVENT.search(data, 1) or _LAST_EVENT.search(data)
        if behind is None:
            return False
        text = data[: behind.start()].decode("utf-8", "replace").rstrip().rstrip(",")
        repaired = repair_texts(text)
        if repaired is None:
            return False
        try:
            item = reject_nonstandard(json.loads(repaired, parse_float=str, strict=False))
        except (ValueError, RecursionError):
            return False
        if item is None or not self.trace.add(item):
            return False
        self.trace.advance(behind.start())
        self._repaired += 1
        return True

    def _value(self) -> Any:
        """Decode the value at the position; ValueError where it is damaged or cut off."""
        size = _WINDOW
        while True:
            if size > _WINDOW and self._looked > self._most_looks():
                raise ValueError("it goes on after its window, as many that were damaged do")
            data = self.trace.window(size)
            more = len(data) == size
            # One character for each byte that is no UTF-8, so that bytes can be counted.
            text = data.decode("utf-8", "surrogateescape")
            try:
                value, end = self._decode(text)
            except json.JSONDecodeError as error:
                # At the window's edge the value may only be incomplete; elsewhere it is broken.
                near_edge = error.pos >= len(text) - 16 or "Unterminated" in error.msg
                self._looked += min(error.pos, len(data))
                if not near_edge or not more:
                    raise
            except RecursionError as error:
                self._looked += len(data)
                raise ValueError("nested too deeply") from error
            else:
                # A number at the edge may go on, as in 1.5|, 1|.5 and 1|e+9.
                if len(text) - end >= 3 or not more:
                    taken = text[:end].encode("utf-8", "surrogateescape")
                    self.trace.advance(len(taken))
                    replaced = taken.decode("utf-8", "replace")
                    return value if replaced == text[:end] else self._decode(replaced)[0]
            if size >= MAX_VALUE_BYTES:
                self.too_large = (
                    f"a value of more than {MAX_VALUE_BYTES >> 20} MiB starts near byte "
                    f"{self.trace.position}, which no trace has"
                )
                raise ValueError(self.too_large)
            size *= 4

    def _most_looks(self) -> int:
        return _FREE_LOOKS + _LOOKS_PER_BYTE * self.trace.position

    def _peek(self) -> str:
        """The next character that is neither blank nor a comma; '' at the end."""
        while True:
            data = self.trace.window(_WINDOW)
            text = data.decode("utf-8", "surrogateescape")
            match = _BLANK.match(text)
            assert match is not None
            # The window may end inside a character: what is left of it is not taken for one.
            if match.end() < len(text) - 3 or len(data) < _WINDOW:
                self.trace.advance(len(text[: match.end()].encode()))
                return text[match.end() : match.end() + 1]
            self.trace.advance(len(text[: match.end()].encode()))

    def _resync(self) -> bool:
        """Move to the next thing that looks like an event."""
        self.trace.advance(1)
        size = _WINDOW  # the next event is near in most files, and a window is a copy
        while True:
            data = self.trace.window(size)
            match = _NEXT_EVENT.search(data)
            if match is not None:
                self.trace.advance(match.start())
                return True
            if len(data) < size:
                self.trace.advance(len(data))
                return False
            self.trace.advance(len(data) - 1024)
            size = min(4 * size, _SEARCH)
            self._tell()

    def _tell(self) -> None:
        stored = self.trace.stored
        if self._source.on_read is not None and stored > self._told:
            self._source.on_read(stored - self._told)
        self._told = stored

    def _truncated(self, where: int) -> None:
        early_end = self.trace.early_end
        if early_end:
            self._note("truncated", f"reading stopped early: {early_end}", None)
            return
        self._note(
            "truncated",
            f"the file ends in the middle (near byte {where}): read up to the last whole event",
            None,
            "Let the profiler finish: call stop(), or leave its 'with' block, before the exit.",
        )

    def _note(self, kind: str, text: str, count: int | None, remedy: str | None = None) -> None:
        if not any(q.kind == kind and kind == "truncated" for q in self.quality):
            self.quality.append(Quality(kind, "error", text, count, remedy))


def _scratch() -> Path:
    """A folder for columns that outgrow memory; the files in it have no name."""
    return open_cache_folder()
