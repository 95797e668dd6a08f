"""The edge to the terminal: whatever is printed, no character of it steers the terminal.

Texts of recordings, rules, file names and the system's errors may hold escape sequences (OSC 52
writes the clipboard, OSC 8 hides an address, CSI moves and hides text), C1 controls and marks of
writing direction. Our own colours and progress lines go by `write_raw`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO, cast

from sightline.core.talk import Talk
from sightline.core.text import clean_text

if TYPE_CHECKING:  # pathlib takes 5 ms to load
    from pathlib import Path


class _Edge:
    """A text stream that prints no control characters but line ends and tabs."""

    def __init__(self, stream: TextIO, *, may_be_data: bool) -> None:
        self._stream = stream
        # Data for another program stays as it is, where a person does not see it.
        self._as_it_is = may_be_data and not stream.isatty()

    def write(self, text: str) -> int:
        self.write_raw(text if self._as_it_is else clean_text(text))
        return len(text)

    def write_raw(self, text: str) -> None:
        """Write our own escape sequences; what the encoding lacks becomes a plain letter or '?'."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        # cli/_shared.accept_any_encoding has the stream replace letters by like ones.
        errors = getattr(self._stream, "errors", None) or "strict"
        errors = "replace" if errors == "strict" else errors
        self._stream.write(text.encode(encoding, errors).decode(encoding))

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Closed(io.TextIOBase):
    """Standard output that was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


@contextlib.contextmanager
def guard_terminal() -> Iterator[None]:
    """For the time of a command, standard output and standard error print only what is harmless."""
    out, err = sys.stdout, sys.stderr
    # Python has none where it was closed before we began: an answer that nobody can read is an
    # error, a word that nobody can read is none.
    shown = out if out is not None else cast(TextIO, _Closed())
    talk = Talk(err)
    sys.stdout = cast(TextIO, _Edge(shown, may_be_data=True))
    sys.stderr = cast(TextIO, _Edge(cast(TextIO, talk), may_be_data=False))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        talk.close()


def keep_talk(folder: Path, name: str) -> None:
    """Let what standard error does not take go to a log in the folder that a command works on."""
    keep = getattr(sys.stderr, "keep_in", None)  # where the command is run as a command
    if keep is not None:
        keep(folder, name)


def silence_output() -> None:
    """Nothing more is written: what Python still holds back would be an error at the end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_reader_gone() -> bool:
    """Whether nobody reads standard output any more; also where that cannot be found out."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # errors are told in any case (poll(2))
        return bool(poll.poll(0))
    return True


@contextlib.contextmanager
def let_reader_go() -> Iterator[None]:
    """For what is printed when the work is done: its exit code is not whether one reads on."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence_output()


def write_raw(stream: TextIO, text: str) -> None:
    """Write a text with escape sequences of our own; nothing of a recording may be in it."""
    getattr(stream, "write_raw", stream.write)(text)


class Raw:
    """A stream for rich, whose colours are escape sequences; texts in it are cleaned before."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        write_raw(self._stream, text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_screen(screen: Any, stream: TextIO, width: int) -> None:
    """A rich.text.Text laid out for `width` columns, in colour where the terminal has some."""
    write_raw(stream, draw_screen(screen, stream, width))


def draw_screen(screen: Any, stream: TextIO, width: int) -> str:
    """What print_screen writes to that stream."""
    # Character by character, so that styles stay where they are.
    screen.plain = clean_text(screen.plain)
    # As rich decides it (Console.is_terminal); where it is none, its console, 12 ms, adds nothing.
    forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    if not (forced or stream.isatty()):
        return f"{screen.plain}\n"
    from rich.console import Console

    console = Console(width=width, highlight=False, soft_wrap=True, file=cast(TextIO, Raw(stream)))
    with console.capture() as drawn:
        console.print(screen, markup=False)
    return drawn.get()


def describe_terminal(stream: TextIO, width: int) -> list[str | None]:
    """All that decides how a screen is drawn: what rich asks, and the width."""
    names = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    return [str(width), str(stream.isatty()), *map(os.environ.get, names)]
