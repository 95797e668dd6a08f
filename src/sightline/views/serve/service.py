"""What a served page can ask for: a name, its parameters, an answer. No HTTP here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock
from typing import Any

from sightline.answer.sql import Bounds, answer_query
from sightline.core.model.run import Run
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.page.series import make_tracks
from sightline.core.text import make_printable
from sightline.core.units import format_ns, format_several
from sightline.errors import RequestError
from sightline.version import __version__
from sightline.views.html.page import SCHEMA, list_modules, load_template, set_title
from sightline.views.html.timeline.tracks import CLASSES
from sightline.views.html.view import PageView
from sightline.views.serve import answers
from sightline.views.serve.index import Index
from sightline.views.serve.panels import MARKS, Panels
from sightline.views.serve.view import window

# Values of counters that are read to be drawn under the timeline, about 1 GB at most; more are in
# the panel, where they fit.
MANY_COUNTERS = 10_000_000
# A question of a person at a screen; `sightline sql` has no bounds.
BOUNDS = Bounds(rows=5_000, seconds=30, memory_bytes=2_000_000_000)
LONGEST_QUERY = 10_000
_TYPES = {
    "json": "application/json; charset=utf-8",
    "bytes": "application/octet-stream",
    "html": "text/html; charset=utf-8",
}

Query = Mapping[str, str]
Answer = tuple[str, bytes]  # content type, body


class Service:
    """A run, its index, and the answers about them. May be asked by several threads."""

    def __init__(self, run: Run, index: Index) -> None:
        self.run, self.index = run, index
        self.view = PageView(run, served=True)
        # Known already; PageView would read whole tables for it.
        self.view.span = (index.origin_ns, index.origin_ns + index.length_ns)
        self.panels = Panels(run, index)
        self._slow = Lock()

    def answer(self, name: str, query: Query) -> Answer | None:
        """The answer, or None where there is no such question. Raises SightlineError."""
        known: dict[str, Callable[[Query], Answer]] = {
            "": self._page,
            "window": self._window,
            "event": self._event,
            "facts": self._facts,
            "next": self._next,
            "instances": self._instances,
            "breakdown": self._breakdown,
            "panel": self._panel,
            "marks": self._marks,
            "sql": self._sql,
        }
        return known[name](query) if name in known else None

    # -- the page -----------------------------------------------------------------------------

    def _page(self, _: Query) -> Answer:
        return _TYPES["html"], self._document

    @cached_property
    def _document(self) -> bytes:
        title = set_title([p.facts for p in self.run.parts])
        tools = sorted({str(p.facts.get("tool") or p.facts["format"]) for p in self.run.parts})
        about = [
            ", ".join(tools),
            format_several(self.index.events, "event"),
            f"{format_ns(self.index.length_ns)} long",
            "from a local server",
        ]
        content = {
            "schema": SCHEMA,
            "version": __version__,
            "title": title,
            "about": [make_printable(part) for part in about],
            "origin_ns": str(self.index.origin_ns),
            "length_ns": self.index.length_ns,
            "panels": [
                self._listed(module)
                for module in list_modules()
                if self.index.events or module.PANEL.name != "timeline"
            ],
        }
        return load_template(content, title, served=True)

    def _listed(self, module: Any) -> dict[str, Any]:
        panel = module.PANEL
        found: list[Block] | None = None
        if panel.name == "timeline":
            block: Block = {
                "kind": "timeline",
                **answers.listed(self.index),
                "columns": {},
                "details": [],
                "classes": list(CLASSES),
                "in_tables": self.index.events,
                "merged": 0,
                "counters": self._counters(),
                "marks": [],
                "windows": [],
                "served": True,
            }
            found = [block]
        return {"name": panel.name, "title": panel.title, "blocks": found}

    def _counters(self) -> list[Block]:
        rows = self.run.rows("counters") + self.run.rows("memory_events")
        return make_tracks(self.view) if rows <= MANY_COUNTERS else []

    def _panel(self, query: Query) -> Answer:
        wanted = query.get("name", "")
        if wanted == "timeline" or wanted not in {m.PANEL.name for m in list_modules()}:
            raise RequestError(f"there is no panel '{wanted}'")
        part = _range(query) if "from" in query else None
        return _TYPES["json"], self.panels.find(wanted, part).encode()

    def _marks(self, _: Query) -> Answer:
        return _TYPES["json"], self.panels.find(MARKS).encode()

    def _sql(self, query: Query) -> Answer:
        text = query.get("q", "")
        if len(text) > LONGEST_QUERY:
            raise RequestError(f"the query is longer than {LONGEST_QUERY:,} characters")
        with self._slow:
            rows = answer_query(self.run, text, bounds=BOUNDS)
        title = f"{rows.height:,} {'row' if rows.height == 1 else 'rows'}"
        if rows.height == BOUNDS.rows:
            title = f"The first {format_several(BOUNDS.rows, 'row')}"
        return _json({"blocks": [blocks.make_plain_table(title, rows, BOUNDS.rows)]})

    # -- events -------------------------------------------------------------------------------

    def _window(self, query: Query) -> Answer:
        lanes = [_whole(part, "lanes") for part in query.get("lanes", "").split(",") if part]
        if any(not 0 <= lane < len(self.index.lanes) for lane in lanes) or len(lanes) > 2_000:
            raise RequestError("there are no such lanes")
        try:
            column = float(query.get("column", ""))
        except ValueError:
            column = -1.0
        if not 0 < column < 1e18:
            raise RequestError("'column' must be a length of time in ns")
        first, last = _range(query)
        return _TYPES["bytes"], window(self.index, first, last, column, sorted(set(lanes)))

    def _event(self, query: Query) -> Answer:
        return _json(answers.event(self.index, _number(query, "id")))

    def _facts(self, query: Query) -> Answer:
        return _json(answers.facts(self.run, self.index, _number(query, "id")))

    def _next(self, query: Query) -> Answer:
        names = self.index.names
        if "name" in query:
            place = _number(query, "name")
            if not 0 <= place < len(names):
                raise RequestError(f"there is no name {place}")
            wanted = [place]
        else:
            text = query.get("q", "").lower()
            wanted = [i for i, name in enumerate(names) if text in make_printable(name).lower()]
        direction = 1 if query.get("direction") != "-1" else -1
        moment, after = _number(query, "at"), _number(query, "after")
        found = answers.find_following(self.index, moment, after, wanted, direction)
        return _json(None if found is None else answers.event(self.index, found))

    def _instances(self, query: Query) -> Answer:
        return _json(answers.instances(self.index, query.get("name", "")))

    def _breakdown(self, query: Query) -> Answer:
        return _json(answers.breakdown(self.index, *_range(query)))


def _range(query: Query) -> tuple[int, int]:
    first, last = _number(query, "from"), _number(query, "to")
    if last <= first:
        raise RequestError("'to' must be later than 'from'")
    return first, last


def _number(query: Query, name: str) -> int:
    return _whole(query.get(name, ""), name)


def _whole(text: str, name: str) -> int:
    # At most 2^62, and only digits: int() also takes '1_000' and digits of other scripts.
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit():
        raise RequestError(f"'{name}' must be a whole number")
    if len(text) > 18:
        raise RequestError(f"'{name}' is too large")
    return int(text)


def _json(value: object) -> Answer:
    return _TYPES["json"], json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
