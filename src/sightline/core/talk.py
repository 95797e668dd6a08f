"""Standard error: what a person is told while something is done. Nobody has to read it.

A reader may have gone (`2>&1 | head -1`), be asleep, or have a full disk; the work goes on all the
same. What could not be told is written into a log in the folder that the work is about.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from _thread import RLock  # threading, which every command would wait for, takes 2 ms to load
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # as pathlib, 5 ms
    from pathlib import Path

CLEAR = "\r\x1b[K"  # what stood in the line is gone
LOG_BYTES = 1 << 20  # a watch goes on for weeks; a month of two lines an hour is 100 kB
_PIECE = select.PIPE_BUF  # what a pipe that is ready takes without waiting (pipe(7))
_PATIENCE_S = 1.0  # a reader that works is slower by milliseconds; the program must not wait
_LINES = 1 << 16  # letters that are kept until it is known where the log lies


class Talk:
    """A text stream that raises nothing and waits for no reader; of what it is made from, else."""

    def __init__(self, stream: TextIO | None) -> None:
        """`stream` None: it was closed before the program began."""
        self._stream = stream
        self._number = _find_number(stream)
        self._waits = self._number is not None and _is_pipe(self._number)
        self._patience_s = _PATIENCE_S
        self._folder: int | None = None
        self._name = ""
        self._lost = ""
        self._lock = RLock()  # a signal's handler may say something, too

    def write(self, text: str) -> int:
        """Tell it, or keep it for the log."""
        with self._lock:
            if not self._pass_on(text):
                self._lost = _drop_cleared(self._lost + text)[-_LINES:]
                self._write_log(ended=False)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        """Whether a person sees it at once."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return self._stream is not None and self._stream.isatty()
        return False

    def keep_in(self, folder: Path, name: str) -> None:
        """Write what is lost into this file of the folder, also what was lost before."""
        with self._lock, contextlib.suppress(OSError):
            opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.close()
            self._folder, self._name = opened, name
            self._write_log(ended=False)

    def close(self) -> None:
        """Let go of the log's folder. The stream stays as it is."""
        with self._lock:
            self._write_log(ended=True)
            if self._folder is not None:
                os.close(self._folder)
                self._folder = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _pass_on(self, text: str) -> bool:
        """Whether all of it was taken."""
        try:
            if self._stream is None:
                return False
            if self._number is None:
                self._stream.write(text)
                self._stream.flush()
                return True
            # Below Python's buffer, which would try again at the end, and turn the exit code.
            data = text.encode(self._stream.encoding, self._stream.errors or "backslashreplace")
            while data:
                if self._waits and not self._is_ready(self._number):
                    return False
                data = data[os.write(self._number, data[:_PIECE]) :]
        except (OSError, ValueError):
            return False
        return True

    def _is_ready(self, number: int) -> bool:
        """Whether a pipe has room within a moment; the next time it must have it at once."""
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        ready = bool(poll.poll(1000 * self._patience_s))
        self._patience_s = _PATIENCE_S if ready else 0.0
        return ready

    def _write_log(self, *, ended: bool) -> None:
        """Append the whole lines that were lost; at the end the rest, too."""
        lines, _, rest = self._lost.rpartition("\n")
        text = self._lost if ended else lines + "\n" * bool(lines)
        if self._folder is None or not text:
            return
        self._lost = "" if ended else rest
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            log = os.open(self._name, flags, 0o644, dir_fd=self._folder)
            try:
                if os.fstat(log).st_size < LOG_BYTES:
                    os.write(log, text.encode("utf-8", "replace"))
            finally:
                os.close(log)


def _drop_cleared(text: str) -> str:
    """A text without the parts of lines that were cleared after them."""
    *cleared, last = text.split(CLEAR)
    return "".join(part[: part.rfind("\n") + 1] for part in cleared) + last


def _find_number(stream: TextIO | None) -> int | None:
    """The descriptor below a stream; None of one that has none, as in a notebook."""
    if stream is None:
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()
        return stream.fileno() if stream.encoding else None
    return None


def _is_pipe(number: int) -> bool:
    with contextlib.suppress(OSError):
        mode = os.fstat(number).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False
