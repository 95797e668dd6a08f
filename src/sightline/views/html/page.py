"""The page: a template built from web/, a list of panels as JSON, and the timeline's columns.

Both are deflated and stand in the page as text (core/page_text.py), in elements that no browser
runs. Schema "sightline-page/2", checked by web/src/report/data.ts.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.answer.answer import Answer
from sightline.answer.panels import make_blocks
from sightline.core import registry
from sightline.core.installation import load_page
from sightline.core.model.describe import find_run_folder
from sightline.core.model.run import Run
from sightline.core.page.declare import Block
from sightline.core.page_text import encode_bytes
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.errors import MissingDataError
from sightline.session import Session
from sightline.timeline.segments import select_repeating
from sightline.version import __version__
from sightline.views.html.first_view import write_first_view, write_panel_list
from sightline.views.html.view import PageView

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule

SCHEMA = "sightline-page/2"
# Of a page with less data the script has drawn all as soon as a browser would have painted the
# first view (benchmarks/page_opening.py: 0.2 MB in all, 96 ms without it and 100 with it).
FIRST_VIEW_BYTES = 200_000
# Polars keeps all cores busy where it can; two threads fill what its single-core parts leave.
THREADS = 2


def write(
    run: Run,
    answer: Answer | None = None,
    title: str | None = None,
    own: Sequence[OwnRule] = (),
) -> bytes:
    """The report of a run. `answer` is where the caller has it.

    `own` are rules that a person wrote; they are asked where there is no `answer`.
    """
    if answer is None:
        with begin_page(run) as finish:
            return finish(Session.of(run).answer(own), title)
    return _write_page(PageView(select_repeating(run), answer), {}, title)


@contextmanager
def begin_page(run: Run) -> Iterator[Callable[..., bytes]]:
    """What needs no findings is made on threads of its own, while the caller runs the rules.

    Gives the function that takes the answer, and a title, and returns the page.
    """
    view = PageView(select_repeating(run))
    view.span  # noqa: B018 - read once, before the threads want it
    with ThreadPoolExecutor(THREADS, "page") as pool:
        early = {"timeline": pool.submit(lambda: view.timeline.events.height and view.columns)}
        early |= {
            module.PANEL.name: pool.submit(make_blocks, module, view)
            for module in list_modules()
            if not module.PANEL.needs_findings
        }

        def finish(answer: Answer, title: str | None = None) -> bytes:
            view.answer = answer
            early.pop("timeline").result()
            return _write_page(view, early, title)

        try:
            yield finish
        finally:
            pool.shutdown(cancel_futures=True)


def _write_page(view: PageView, early: dict[str, Any], title: str | None) -> bytes:
    name = title or set_title(view.answer.recordings)
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": name,
        "about": [make_printable(part) for part in view.answer.about],
        "origin_ns": str(view.span[0]),  # beyond what a float64 holds
        "length_ns": view.span[1] - view.span[0],
        "panels": _panels(view, early),
    }
    return load_template(content, name, bytes(view.packed.body))


def load_template(
    content: dict[str, Any], title: str, columns: bytes = b"", *, served: bool = False
) -> bytes:
    """The page with its data in it. Where it is served it may ask its own server, and only that."""
    # What stands in the first view as text is not needed again.
    data = {key: value for key, value in content.items() if key not in ("title", "about")}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Small blocks, each with codes of its own, are 1 % less of a large page than the usual ones.
    deflate = zlib.compressobj(9, memLevel=7)
    packed = deflate.compress(text.encode()) + deflate.flush()
    page = load_page("report", "-o report.md").replace(
        "<title>sightline</title>", f"<title>{escape(title)} · sightline</title>", 1
    )
    is_large = len(packed) + len(columns) >= FIRST_VIEW_BYTES
    for place, markup in (
        ("<!--TITLE-->", escape(content["title"])),
        ("<!--ABOUT-->", escape(" · ".join(content["about"]))),
        ("<!--PANELS-->", write_panel_list(content)),
        ("<!--FIRST-->", write_first_view(content) if is_large else ""),
    ):
        page = page.replace(place, markup, 1)
    if served:
        page = page.replace("default-src 'none';", "default-src 'none'; connect-src 'self';", 1)
    head, rest = page.split("/*DATA*/", 1)
    middle, tail = rest.split("/*COLUMNS*/", 1)
    return b"".join(
        [
            head.encode(),
            encode_bytes(packed),
            middle.encode(),
            encode_bytes(columns),
            tail.encode(),
        ]
    )


def list_modules() -> list[Any]:
    """The panels' modules, in the page's order."""
    return sorted(
        (module for _, module in registry.load_members("panels")),
        key=lambda m: (m.PANEL.order, m.PANEL.name),
    )


def _panels(view: PageView, early: dict[str, Future[list[Block]]]) -> list[dict[str, Any]]:
    shown = []
    for module in list_modules():  # "Recording" is last, and tells which of the others are absent
        panel = module.PANEL
        try:
            made = early.get(panel.name)
            blocks = made.result() if made else make_blocks(module, view)
        except MissingDataError as missing:
            view.absent.append((panel.title, missing.why or missing.what))
            continue
        shown.append({"name": panel.name, "title": panel.title, "blocks": blocks})
    return shown


def set_title(recordings: list[dict[str, Any]]) -> str:
    """The page's name: the recording's, or how many they are and where."""
    paths = [Path(r["path"]) for r in recordings]
    if (folder := find_run_folder(recordings)) is not None:
        return make_printable(folder)
    if len(paths) == 1:
        return make_printable(paths[0].name)
    parents = {p.parent.name for p in paths}
    where = f" of {make_printable(min(parents))}" if len(parents) == 1 and min(parents) else ""
    return f"{format_several(len(paths), 'recording')}{where}"
