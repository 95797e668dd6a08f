"""The panels of a served run, and the marks of its findings: each made once, and kept as text.

What a panel is made of can be gigabytes, and a run holds each table that it has read. So where a
run is large, a panel is made by a process of its own, which gives all of it back when it ends; the
server reads what it kept.

A panel that takes more memory than is free is made of a part of the run, the events around its
middle, and says so; so is every panel of a range that a person asks for.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sightline.answer.cache import identify_run
from sightline.answer.panels import make_blocks
from sightline.core import registry
from sightline.core.model.run import Run
from sightline.core.model.span import Span
from sightline.core.page.blocks import make_text
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_bytes, format_count, format_ns, format_several
from sightline.errors import MissingDataError, RequestError
from sightline.opening.answers import find_answer, keep_answer
from sightline.session import Session
from sightline.timeline.segments import select_repeating
from sightline.views.html.page import list_modules
from sightline.views.html.panels.timeline import make_marks
from sightline.views.html.view import PageView
from sightline.views.serve.index import Index
from sightline.views.serve.part import open_part

MARKS = "marks"
# What shows findings. "Recording" only comes after them in a page from disk, whose absent panels it
# lists; a served page has none.
ASK_RULES = (MARKS, "summary")
# What making a panel takes at its peak, measured for 9 999 987 events, each panel in a process of
# its own (benchmarks/serve_page.py --make), and a tenth more: tables and analyses of other runs
# weigh differently. Of panels that are not here the most. All together take 1 400 at most, measured
# for 1 000 065 events (benchmarks/report_page.py).
PANEL_BYTES = {
    # These look at what is known of the run, or at tables of their own, and not at its events.
    **dict.fromkeys(("counters", "memory", "profile", "recording", "roofline", "sql"), 10),
    "kernels": 75,
    "copies": 90,
    "communication": 220,
    "steps": 480,
    "flame": 520,
    "ops": 600,
    "idle": 690,
}
MOST_BYTES = 1_340
BYTES_PER_EVENT = 1_400
# Of so many events the analyses take 1.4 GB, and all panels half a minute.
MOST_OF_A_PART = 1_000_000
LEAST_OF_A_PART = 10_000  # 14 MB, which there are
# The rest is for what else the machine does, and for runs that take more than the measured one.
SHARE_OF_FREE = 0.8
# The timeline is looked at meanwhile, and goes first.
NICE = 10
# What the server may hold itself: a run that takes less is not worth a process a panel.
HELD_BYTES = 300_000_000


class Panels:
    """Makes and keeps the panels of a run. May be asked by several threads."""

    def __init__(self, run: Run, index: Index) -> None:
        self.run, self.index = run, index
        self.span = (index.origin_ns, index.origin_ns + index.length_ns)
        # One at a time: two would want the same memory, and mostly the same analyses.
        self._making = threading.RLock()
        self._texts: dict[str, str] = {}  # what could not be kept, or is not worth it
        self._here = PageView(run, served=True)
        self._here.span = self.span

    def find(self, name: str, wanted: Span | None = None) -> str:
        """The JSON of a panel or of the marks of findings; of a part of the run if `wanted`.

        A panel is {"blocks": [...], "part": [from, to] or null, "large": whether parts of the run
        can be asked for}, both moments in ns from the run's first event, as those of `wanted`.
        Raises RequestError where the range has no event, or more than the memory is free for.
        """
        part = self._choose_part(name) if wanted is None else self._check_part(wanted)
        kept_as = name if part is None else f"{name}-{part[0]}-{part[1]}"
        if (text := self._kept(kept_as)) is not None:
            return text
        with self._making:
            if (text := self._kept(kept_as)) is not None:
                return text
            text = self.make_text(name, part)
            if name != MARKS:
                text = self._describe(text, name, part, is_chosen=wanted is not None)
            if self.large:
                keep_answer(self._file_name(kept_as), text)
            if not self.large or find_answer(self._file_name(kept_as)) is None:
                self._texts[kept_as] = text
        return text

    def make_ahead(self) -> None:
        """Make all panels, in the page's order, before they are asked for."""
        for name in (MARKS, *(m.PANEL.name for m in list_modules() if m.PANEL.name != "timeline")):
            with contextlib.suppress(Exception):  # who asks for it hears of it
                self.find(name)

    @property
    def large(self) -> bool:
        """Whether panels are made by processes of their own, and kept in the cache."""
        return self._rows * BYTES_PER_EVENT > HELD_BYTES and not registry.has_outsiders()

    @property
    def _rows(self) -> int:
        return sum(self.run.rows(t) for t in ("device_ops", "host_ops", "device_ranges"))

    @cached_property
    def _prefix(self) -> str:
        return identify_run(self.run)

    def _file_name(self, name: str) -> str:
        return f"{self._prefix}-served-{name}"

    def _kept(self, name: str) -> str | None:
        if name in self._texts:
            return self._texts[name]
        return find_answer(self._file_name(name)) if self.large else None

    def make_text(self, name: str, part: Span | None) -> str:
        """A panel as JSON: here, or of a large recording in a process of its own."""
        if not self.large:
            return answer_panel(self._here if part is None else self._view(part), name)
        # Not forked: the server has threads, and Polars', too.
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        given = (sender, self.run, self.span, name, part)
        process = context.Process(target=answer_apart, args=given, daemon=True)
        process.start()
        sender.close()
        try:
            found: str | Exception = receiver.recv()
        except EOFError:
            raise RequestError(
                f"the process that made the panel '{name}' ended before it was done",
                why="most often the system ended it because memory ran out",
                hint="sightline sql answers questions about a recording of this size.",
            ) from None
        finally:
            receiver.close()
            process.join()
        if isinstance(found, Exception):
            raise found
        return found

    def _view(self, part: Span) -> PageView:
        return view_part(self.run, self.span, part)

    def _choose_part(self, name: str) -> Span | None:
        """The part that a panel is made of; None where all of the run fits into memory."""
        free = available_bytes()
        if free is None or self._need(name) <= SHARE_OF_FREE * free:
            return None
        return self._middle

    def _need(self, name: str) -> int:
        return self._rows * PANEL_BYTES.get(name, MOST_BYTES)

    @cached_property
    def _middle(self) -> Span:
        """One part for all panels: they speak of the same events."""
        return self.index.find_middle(self._most_of_a_part())

    def _most_of_a_part(self) -> int:
        free = available_bytes()
        room = MOST_OF_A_PART if free is None else int(SHARE_OF_FREE * free) // MOST_BYTES
        return max(LEAST_OF_A_PART, min(MOST_OF_A_PART, room))

    def _check_part(self, wanted: Span) -> Span:
        events, most = self.index.count_between(*wanted), self._most_of_a_part()
        if not events:
            raise RequestError("no event begins in this range", hint="Choose another one.")
        if events > most:
            raise RequestError(
                f"this range has {format_several(events, 'event')}, more than {format_count(most)}",
                why="its tables are made from all of them; the timeline is not",
                hint="Zoom in and ask again.",
            )
        return wanted

    def _describe(self, text: str, name: str, part: Span | None, *, is_chosen: bool) -> str:
        """A panel with what it is made of, which is said first where that is not all of the run."""
        panel = json.loads(text)
        if part is not None:
            events = format_count(self.index.count_between(*part))
            said = (
                f"Made of {events} of {format_several(self.index.events, 'event')}: those from "
                f"{format_ns(part[0])} to {format_ns(min(part[1], self.index.length_ns))}, "
            )
            if is_chosen:
                said += "the range that you chose."
            else:
                said += (
                    f"around the middle of the run. All of them would take about "
                    f"{format_bytes(self._need(name))} of memory, more than is free."
                )
            panel["blocks"].insert(0, make_text(said))
        return _write({**panel, "part": part, "large": self.large})


def answer_panel(view: PageView, name: str) -> str:
    """Make a panel of a view, or the marks of its findings, as JSON."""
    module = None if name == MARKS else registry.load("panels", name)
    if name in ASK_RULES and view.answer is None:
        view.answer = Session.of(view.run).answer()
    if module is None:
        return _write(make_marks(view))
    try:
        found: list[Block] = make_blocks(module, view)
    except MissingDataError as missing:
        text = f"Nothing to show: {missing.why or missing.what}."
        found = [{"kind": "text", "text": make_printable(text), "role": "note"}]
    return _write({"blocks": found})


def view_part(run: Run, span: Span, part: Span) -> PageView:
    """What lies in a part of the run, on the run's own axis."""
    view = PageView(open_part(run, (span[0] + part[0], span[0] + part[1])), served=True)
    view.span = span
    return view


def answer_apart(out: Connection, run: Run, span: Span, name: str, part: Span | None) -> None:
    """Send a panel's text, or why there is none, from a process of its own."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        view = (
            PageView(select_repeating(run), served=True)
            if part is None
            else view_part(run, span, part)
        )
        view.span = span
        found: str | Exception = answer_panel(view, name)
    except Exception as error:
        found = error
    out.send(found)


def _end_with_parent() -> None:
    """End this process when the server has ended, however it did: nobody is left to hear it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def available_bytes() -> int | None:
    """Memory that programs can have without swapping, where the system says so (Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None
