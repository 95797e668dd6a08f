"""One run of a program: how long it took, on how many CPUs, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from sightline.core.text import make_printable
from sightline.errors import RequestError
from sightline.experiment.variants import Variant

_GRACE_S = 10.0  # for a program to end by itself: what `docker stop` gives
# Of what a program prints: enough for its last words, or for the value that is looked for.
_MOST_KEPT = 1 << 20
_DRAIN_S = 0.3  # what it started may hold the pipe for longer than it runs


@dataclass(frozen=True)
class Outcome:
    """A run: `value` is what is compared, ns or what the program printed; null where it failed."""

    value: float | None
    wall_ns: int
    cpu_ns: int
    peak_bytes: int
    code: int  # as a shell shows it: 128 + n for signal n
    last_words: str
    timed_out: bool = False


@dataclass(frozen=True)
class Ruler:
    """What is measured: the wall clock, or the number that `pattern` finds in the output.

    `timeout_s` ends a run; `is_shown`: what programs print comes to standard error; `any_code`: a
    run that fails counts, too.
    """

    pattern: re.Pattern[str] | None = None
    timeout_s: float | None = None
    is_shown: bool = False
    any_code: bool = False


def read_pattern(text: str) -> re.Pattern[str]:
    """A regular expression with one group. Raises RequestError."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise RequestError(f"--value {text} is not a regular expression", why=str(error)) from error
    if pattern.groups != 1:
        raise RequestError(
            f"--value {text} is not a valid value",
            why="one pair of brackets says where the number is",
            hint="As  --value 'step_ms=([0-9.]+)'",
        )
    return pattern


def run_program(variant: Variant, ruler: Ruler) -> Outcome:
    """Run it once to its end, and all that it started where it has to be ended."""
    heard = subprocess.PIPE
    began = time.perf_counter_ns()
    process = subprocess.Popen(  # noqa: S603  # what the person asked for
        variant.command,
        env={**os.environ, **variant.environment},
        stdin=subprocess.DEVNULL,
        stdout=heard if ruler.pattern is not None else 2 if ruler.is_shown else subprocess.DEVNULL,
        stderr=2 if ruler.is_shown and ruler.pattern is None else heard,
        start_new_session=True,
    )
    readers = [_Reader(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    with _end_after(process, ruler.timeout_s) as ended_by_us:
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            end_group(process)
            raise
    wall = time.perf_counter_ns() - began
    process.returncode = code = os.waitstatus_to_exitcode(status)
    texts = [reader.read() for reader in readers]
    value = float(wall) if ruler.pattern is None else _find_value(ruler.pattern, "\n".join(texts))
    return Outcome(
        value if (code == 0 or ruler.any_code) and not ended_by_us else None,
        wall,
        round((usage.ru_utime + usage.ru_stime) * 1e9),
        usage.ru_maxrss * 1024,
        code if code >= 0 else 128 - code,
        texts[-1] if texts else "",
        bool(ended_by_us),
    )


def _find_value(pattern: re.Pattern[str], text: str) -> float | None:
    """The last number that the pattern finds, if it is one, and more than 0."""
    found = None
    for match in pattern.finditer(text):
        found = match[1]
    with contextlib.suppress(TypeError, ValueError):
        value = float(found)  # type: ignore[arg-type]
        return value if 0 < value < float("inf") else None
    return None


class _Reader:
    """Reads a pipe on a thread, so that no program waits for us, and keeps its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._kept = pipe, bytearray()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-try")
        self._thread.start()

    def _run(self) -> None:
        with self._pipe, contextlib.suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self._kept += part
                del self._kept[:-_MOST_KEPT]

    def read(self) -> str:
        """What was read when the program has ended."""
        self._thread.join(_DRAIN_S)
        return bytes(self._kept).decode("utf-8", "replace")


@contextlib.contextmanager
def _end_after(process: subprocess.Popen[bytes], seconds: float | None) -> Iterator[list[bool]]:
    """End the program after so long; the list is filled where that was done."""
    ended: list[bool] = []
    if seconds is None:
        yield ended
        return

    def end() -> None:
        ended.append(True)
        _signal_group(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield ended
    finally:
        timer.cancel()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads its group, and the group: at first asked, then killed."""
    _signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired, ChildProcessError):
        process.wait(_GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired, ChildProcessError):
        process.wait(_GRACE_S)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def explain_failure(variant: Variant, outcome: Outcome, earlier: int, ruler: Ruler) -> RequestError:
    """Why a run has no value, after so many `earlier` runs of the variant that had one."""
    after = f" in run {earlier + 1}, after {earlier} good ones" if earlier else ""
    # The last line says what; Python marks the places of errors with lines of these two.
    words = [line.strip() for line in outcome.last_words.splitlines() if line.strip(" ^~")][-1:]
    line = make_printable(variant.line)
    if outcome.timed_out:
        return RequestError(
            f"{variant.name} was ended after {ruler.timeout_s:g} s{after}",
            why="--timeout",
            hint=line,
        )
    if outcome.code and not ruler.any_code:
        return RequestError(
            f"{variant.name} failed with exit code {outcome.code}{after}",
            why=" ".join(map(make_printable, words)) or "it printed nothing to standard error",
            hint=f"{line}\n--ignore-failure measures programs that fail, too.",
        )
    return RequestError(
        f"{variant.name} printed no value{after}",
        why=f"nothing in its output is a number above 0 by {ruler.pattern.pattern}"
        if ruler.pattern is not None
        else None,
        hint=line,
    )
