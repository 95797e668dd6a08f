"""The page: a template built from web/, a list of panels as JSON, and the timeline's columns.

Both are deflated and stand in the page as base64, in elements that no browser runs. Schema
"sightline-page/1", checked by web/src/report/data.ts.
"""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from sightline import __version__, registry
from sightline.errors import MissingDataError
from sightline.model.run import Run
from sightline.report.html.declare import View
from sightline.report.html.headline import about
from sightline.report.summary import summary
from sightline.text import printable

SCHEMA = "sightline-page/1"
# By it a later report knows that it may write over an earlier one.
MARK = b'<meta name="generator" content="sightline report">'


def write(run: Run, data: dict[str, Any] | None = None, title: str | None = None) -> bytes:
    """The report of a run. `data` is the answer of summary(run) where the caller has it."""
    view = View(run, data if data is not None else summary(run))
    template = _template()
    name = title or _title(view.summary)
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": name,
        "about": [printable(part) for part in about(view.summary)],
        "origin_ns": str(view.span[0]),  # beyond what a float64 holds
        "length_ns": view.span[1] - view.span[0],
        "panels": _panels(view),
    }
    packed = zlib.compress(json.dumps(content, ensure_ascii=False, allow_nan=False).encode(), 6)
    page = template.replace("<title>sightline</title>", f"<title>{escape(name)}</title>", 1)
    head, rest = page.split("/*DATA*/", 1)
    middle, tail = rest.split("/*COLUMNS*/", 1)
    return b"".join(
        [head.encode(), base64.b64encode(packed), middle.encode(),
         base64.b64encode(bytes(view.packed.body)), tail.encode()]
    )  # fmt: skip


def _panels(view: View) -> list[dict[str, Any]]:
    modules = sorted(
        (module for _, module in registry.members("report.html.panels")),
        key=lambda m: (m.PANEL.order, m.PANEL.name),
    )
    shown = []
    for module in modules:  # "Recording" is last, and tells which of the others are absent
        panel = module.PANEL
        try:
            blocks = module.data(view)
        except MissingDataError as missing:
            view.absent.append((panel.title, missing.why or missing.what))
            continue
        shown.append({"name": panel.name, "title": panel.title, "blocks": blocks})
    return shown


def _title(data: dict[str, Any]) -> str:
    paths = [Path(r["path"]) for r in data["recordings"]]
    if len(paths) == 1:
        return printable(paths[0].name)
    parents = {p.parent.name for p in paths}
    where = f" of {printable(min(parents))}" if len(parents) == 1 and min(parents) else ""
    return f"{len(paths)} recordings{where}"


def _template() -> str:
    source = files("sightline") / "assets" / "report.html"
    if not source.is_file():
        raise MissingDataError(
            "the HTML page is not part of this installation",
            why="it is built from web/ with Node.js when the package is built",
            hint="Build it:  python scripts/build_web.py\nOr write another form: -o report.md",
        )
    return source.read_text(encoding="utf-8")


def is_ours(target: Path) -> bool:
    """Whether a file is a report that sightline wrote."""
    with target.open("rb") as file:
        return MARK in file.read(4096)
