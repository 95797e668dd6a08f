"""Recordings of jobs while they run: asked for by a person or by a rule, made by a command.

The command is the configuration's, without a shell; of a job only its number and nodes go into it,
which were confined as they came in. What it leaves in the folder becomes a report.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sightline.cluster.config import Tracing
from sightline.cluster.documents import split_key
from sightline.cluster.notes import DONE, FAILED, Notes
from sightline.core.text import clean_text
from sightline.errors import RequestError
from sightline.subjects.jobs.job import Job

_LONGEST_S = 600.0
_MOST_HOSTS = 64  # of larger jobs the first: a recording of some ranks says what is slow
MakeReport = Callable[[Path, Path], None]  # what was recorded, the page to write


class Tracer:
    """Asks for recordings, a few at a time."""

    def __init__(
        self,
        root: Path,
        notes: Notes,
        tracing: Tracing,
        make_report: MakeReport,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = root / "traces"
        self._notes, self._tracing, self._make_report = notes, tracing, make_report
        self._environment = environment
        self._room = threading.Semaphore(max(1, tracing.most))
        self._asked: set[str] = set()

    def find_report(self, number: int) -> Path | None:
        """The page of a recording, where there is one."""
        path = self._folder / f"{number}.html"
        return path if path.is_file() else None

    def ask(self, key: str, hosts: Sequence[str], by: str, why: str) -> int:
        """Begin to record a job; the recording's number. Raises RequestError: too many."""
        if not self._room.acquire(blocking=False):
            raise RequestError("other jobs are being recorded; ask again in a minute")
        try:
            number = self._notes.ask_trace(key, by, why)
        except BaseException:
            self._room.release()
            raise
        threading.Thread(target=self._record, args=(number, key, list(hosts)), daemon=True).start()
        return number

    def heed(self, key: str, job: Job, problems: Sequence[Mapping[str, object]]) -> None:
        """Ask for a job that runs where a rule of `on` found something, once a job."""
        if job.row["state"] != "running" or key in self._asked:
            return
        found = [p["rule"] for p in problems if p["judged"] and p["rule"] in self._tracing.on]
        if not found or self._notes.list_traces(key):
            return
        try:
            self.ask(key, [str(n["host"]) for n in job.nodes], "rule", str(found[0]))
        except RequestError:
            return  # full for now: the next round asks again
        self._asked.add(key)

    def _record(self, number: int, key: str, hosts: list[str]) -> None:
        state, note = FAILED, "it could not be recorded"
        try:
            output = self._folder / f"{number}.sightline"
            self._folder.mkdir(exist_ok=True)
            said = self._run(key, hosts, output)
            if not output.exists():
                note = said or "the command left nothing"
            else:
                self._make_report(output, self._folder / f"{number}.html")
                state, note = DONE, ""
        except Exception as error:  # told on the page of the job
            note = clean_text(str(error))
        finally:
            self._room.release()
            self._notes.end_trace(number, state, note)

    def _run(self, key: str, hosts: list[str], output: Path) -> str:
        """The last words of the command."""
        words = {
            "{job}": split_key(key)[1],
            "{hosts}": ",".join(hosts[:_MOST_HOSTS]),
            "{output}": str(output),
        }
        command = [words.get(word, word) for word in self._tracing.command]
        try:
            done = subprocess.run(  # noqa: S603  # of the configuration, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_LONGEST_S,
                check=False,
                env=None if self._environment is None else dict(self._environment),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return clean_text(str(error))
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return clean_text(" ".join(lines[:3]))
