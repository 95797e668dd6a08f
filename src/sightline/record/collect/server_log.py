"""What a server wrote into its log while it was recorded, on the clock of its trace.

vLLM and SGLang stamp lines in local time, to the second, vLLM without a year. The server may live
in another time zone, as containers do; its first line tells which, as it was written meanwhile.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sightline.errors import InputError

MOST_BYTES = 64 << 20  # a line of 250 bytes a step: a quarter of a million steps
# A line of load or of a step (vllm/v1/metrics/loggers.py; SGLang's metrics_reporter.py).
_TELLS = re.compile(r"Avg prompt throughput:|Iteration\(\d+\):|\] (?:Prefill|Decode) batch")
_STEP = re.compile(r"Iteration\(\d+\):|\] (?:Prefill|Decode) batch")
_STAMP = re.compile(r"^(.{0,60}?\b)(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d:\d\d:\d\d)\b", re.MULTILINE)
_ZONE = timedelta(minutes=15)  # time zones are whole quarters of an hour (tz database)


class ServerLog:
    """A log, from where it ended when this was made. Raises InputError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = datetime.now(UTC)
        self._from = self._measure()

    def _measure(self) -> int:
        try:
            state = self._path.stat()
        except OSError as error:
            raise self._refuse((error.strerror or str(error)).lower()) from error
        if not stat.S_ISREG(state.st_mode):  # to open a pipe would wait for its writer
            raise self._refuse("it is not a file")
        return state.st_size

    def _refuse(self, why: str) -> InputError:
        return InputError(
            f"cannot read the server's log {self._path}",
            why=why,
            hint="Name the file that its standard output goes to:  --server-log serve.log",
        )

    def read(self) -> str:
        """The lines since then, in UTC. Raises InputError."""
        try:
            # A log that was begun anew is shorter than it was.
            start = self._from if self._measure() >= self._from else 0
            with self._path.open("rb") as file:
                file.seek(start)
                text = file.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError as error:
            raise self._refuse((error.strerror or str(error)).lower()) from error
        return move_stamps(text, self._began)


def move_stamps(text: str, began: datetime) -> str:
    """The text with its stamps in UTC and with a year, where its first one is in some time zone."""
    first = _STAMP.search(text)
    moment = None if first is None else _read_stamp(first, began)
    if moment is None:
        return text
    zone = round((began - moment) / _ZONE) * _ZONE

    def move(found: re.Match[str]) -> str:
        stamp = _read_stamp(found, began)
        return found[0] if stamp is None else f"{found[1]}{stamp + zone:%Y-%m-%d %H:%M:%S}"

    return _STAMP.sub(move, text)


def _read_stamp(found: re.Match[str], began: datetime) -> datetime | None:
    """A stamp as if it were in UTC; of those without a year the one that is nearest."""
    _, year, month, day, clock = found.groups()
    years = [int(year)] if year else [began.year - 1, began.year, began.year + 1]
    moments = []
    for one in years:
        with suppress(ValueError):
            moments.append(datetime.fromisoformat(f"{one:04}-{month}-{day} {clock}+00:00"))
    return min(moments, key=lambda moment: abs(moment - began), default=None)


def tells_load(text: str) -> bool:
    """Whether any line says what the server computed, or how much it had to do."""
    return _TELLS.search(text) is not None


def tells_steps(text: str) -> bool:
    """Whether any line is of a step."""
    return _STEP.search(text) is not None
