"""What people add to jobs: tags, and recordings that were asked for. SQLite, in the store's folder.

Texts of people are parameters of statements, and texts on pages; nothing of them is a path: what a
recording's file is called is made here.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.cluster.access import ADMIN, SUPPORT, Visitor
from sightline.cluster.documents import is_key
from sightline.errors import InputError, RequestError

PRIVATE, SHARED = "private", "global"
ASKED, DONE, FAILED = "asked", "done", "failed"
_MOST_TAG, _MOST_TAGS = 40, 50
_TABLES = """
CREATE TABLE IF NOT EXISTS tags (
    job_key TEXT NOT NULL, tag TEXT NOT NULL, scope TEXT NOT NULL, by TEXT NOT NULL,
    at INTEGER NOT NULL, UNIQUE (job_key, tag, scope, by));
CREATE TABLE IF NOT EXISTS traces (
    id INTEGER PRIMARY KEY, job_key TEXT NOT NULL, state TEXT NOT NULL, by TEXT NOT NULL,
    at INTEGER NOT NULL, why TEXT NOT NULL, note TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS traces_of ON traces (job_key);
CREATE TABLE IF NOT EXISTS alarms (
    job_key TEXT NOT NULL, rule TEXT NOT NULL, at INTEGER NOT NULL, ended INTEGER,
    UNIQUE (job_key, rule));
"""


@dataclass(frozen=True)
class Trace:
    """A recording of a job that was asked for: by whom, when (s since 1970), why, how it went."""

    id: int
    job_key: str
    state: str
    by: str
    at: int
    why: str
    note: str


class Notes:
    """Tags and traces of jobs. May be used by several threads."""

    def __init__(self, place: Path) -> None:
        """Open or make it. Raises InputError for one that is damaged."""
        self._place = place
        self._lock = threading.Lock()
        self._held = sqlite3.connect(place, check_same_thread=False, isolation_level=None)
        try:
            self._held.execute("PRAGMA journal_mode=WAL")
            self._held.execute("PRAGMA synchronous=FULL")
            self._held.executescript(_TABLES)
            # What was under way when the service ended will not end any more.
            ended = (FAILED, "ended", ASKED)
            self._ask("UPDATE traces SET state = ?, note = ? WHERE state = ?", *ended)
        # Of damage, the library cannot even decode what it says.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._held.close()
            raise InputError(f"{place} cannot be used", why=str(error)) from error

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._held.close()

    # -- tags ---------------------------------------------------------------------------------

    def add_tag(self, visitor: Visitor, key: str, tag: str, scope: str = PRIVATE) -> None:
        """A person tags a job that they may see. Raises RequestError."""
        text = " ".join(tag.split())
        if not is_key(key) or not 0 < len(text) <= _MOST_TAG or not text.isprintable():
            raise RequestError(f"a tag has 1 to {_MOST_TAG} characters")
        if scope not in (PRIVATE, SHARED):
            raise RequestError("a tag is private or global")
        if scope == SHARED and visitor.role not in (SUPPORT, ADMIN):
            raise RequestError("only support may make global tags")
        with self._lock:
            count = self._held.execute("SELECT count(*) FROM tags WHERE job_key = ?", (key,))
            if count.fetchone()[0] >= _MOST_TAGS:
                raise RequestError(f"a job has at most {_MOST_TAGS} tags")
            self._held.execute(
                "INSERT OR IGNORE INTO tags VALUES (?, ?, ?, ?, ?)",
                (key, text, scope, visitor.name, int(time.time())),
            )

    def remove_tag(self, visitor: Visitor, key: str, tag: str, scope: str) -> None:
        """A person takes a tag of their own away; an admin one of anybody's that all see."""
        mine = "" if visitor.role == ADMIN and scope == SHARED else " AND by = ?"
        query = f"DELETE FROM tags WHERE job_key = ? AND tag = ? AND scope = ?{mine}"  # noqa: S608
        self._ask(query, key, tag, scope, *([visitor.name] if mine else []))

    def list_tags(self, visitor: Visitor, key: str) -> list[tuple[str, str]]:
        """Tags of a job that a person sees, with their scope."""
        rows = self._ask(
            "SELECT DISTINCT tag, scope FROM tags WHERE job_key = ? AND (scope = ? OR by = ?) "
            "ORDER BY tag",
            key, SHARED, visitor.name,
        )  # fmt: skip
        return [(str(tag), str(scope)) for tag, scope in rows]

    def find_tagged(self, visitor: Visitor, tag: str) -> tuple[str, ...]:
        """The jobs that have a tag, as a person sees it."""
        rows = self._ask(
            "SELECT DISTINCT job_key FROM tags WHERE tag = ? AND (scope = ? OR by = ?) LIMIT 10000",
            tag, SHARED, visitor.name,
        )  # fmt: skip
        return tuple(str(key) for (key,) in rows)

    # -- traces -------------------------------------------------------------------------------

    def ask_trace(self, key: str, by: str, why: str) -> int:
        """A recording is asked for; its number. Raises RequestError where one is under way."""
        with self._lock:
            query = "SELECT count(*) FROM traces WHERE job_key = ? AND state = ?"
            if self._held.execute(query, (key, ASKED)).fetchone()[0]:
                raise RequestError("the job is being recorded already")
            made = self._held.execute(
                "INSERT INTO traces (job_key, state, by, at, why, note) VALUES (?, ?, ?, ?, ?, '')",
                (key, ASKED, by, int(time.time()), why),
            )
            return int(made.lastrowid or 0)

    def end_trace(self, number: int, state: str, note: str) -> None:
        """How a recording went."""
        text = note[:500]
        self._ask("UPDATE traces SET state = ?, note = ? WHERE id = ?", state, text, number)

    def list_traces(self, key: str) -> list[Trace]:
        """The recordings of a job, the latest first."""
        query = "SELECT * FROM traces WHERE job_key = ? ORDER BY id DESC LIMIT 50"
        return [Trace(*row) for row in self._ask(query, key)]

    def find_trace(self, number: int) -> Trace | None:
        """A recording by its number."""
        found = [Trace(*row) for row in self._ask("SELECT * FROM traces WHERE id = ?", number)]
        return found[0] if found else None

    # -- alarms -------------------------------------------------------------------------------

    def begin_alarm(self, key: str, rule: str) -> bool:
        """A problem of a job is told; whether it was not before."""
        now = int(time.time())
        query = "INSERT OR IGNORE INTO alarms VALUES (?, ?, ?, NULL) RETURNING 1"
        return bool(self._ask(query, key, rule, now))

    def end_alarm(self, key: str, rule: str) -> bool:
        """It is over; whether it was told, and went on until now."""
        now = int(time.time())
        query = (
            "UPDATE alarms SET ended = ? WHERE job_key = ? AND rule = ? AND ended IS NULL "
            "RETURNING 1"
        )
        return bool(self._ask(query, now, key, rule))

    def list_alarms(self, key: str) -> list[tuple[str, int, int | None]]:
        """What was told of a job: rule, when, and when it was over (s since 1970)."""
        query = "SELECT rule, at, ended FROM alarms WHERE job_key = ? ORDER BY at, rule"
        return [(str(rule), at, ended) for rule, at, ended in self._ask(query, key)]

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, closing(self._held.execute(query, values)) as cursor:
            return cursor.fetchall()
