"""Pages over a continuous profile: jobs, a job over time, a window, and stacks over any span.

    /                     every job, its nodes, its last window
    /job?job=&metric=     a metric over time, its changes, its windows
    /window?id=           what its time went into, and what changed against the one before
    /flame?job=&from=&to= stacks of all windows of a span (ns since 1970), or of one: ?id=
    /profile.pb.gz        the same as pprof, as servers of profiles read it (Parca, Pyroscope)

Plain pages, made when they are asked for: a person clicks through them, and nothing is kept.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import polars as pl

from sightline.capture.counting import PREFIX
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.errors import RequestError
from sightline.flames import html as flame_page
from sightline.flames import pprof
from sightline.history.history import describe_series, list_names
from sightline.history.profiles import compare_windows, read_stacks, read_values, read_windows
from sightline.views.comparison.comparison import render_comparison
from sightline.views.comparison.history import format_value
from sightline.views.html.history import draw_series

Query = Mapping[str, str]
Answer = tuple[str, bytes]  # content type, body
_HTML, _PROFILE = "text/html; charset=utf-8", "application/octet-stream"
_POINTS = 500  # what a person takes in, and 0.2 s of looking for changes (doors/cli/history.py)
_LISTED = 100
_COMPARED = 5  # windows before one: what varies among them is told apart from what changed
# Windows of a week, one each ten minutes, are 1,008; their stacks are read in some seconds.
_MOST_STACKS = 1500
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}td,th{padding:.25em .6em;text-align:left;
border-bottom:1px solid #ddd}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
a{color:#205493}nav{margin-bottom:1em}pre{overflow:auto;font-size:13px}
.bar{display:inline-block;height:.75em;background:#3b6ea5;vertical-align:baseline}
@media(prefers-color-scheme:dark){body{background:#16191d;color:#ddd}a{color:#7fb2e5}
td,th{border-color:#3a3f46}}
"""


class HistoryService:
    """A history, and the pages about it. May be asked by several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, name: str, query: Query) -> Answer | None:
        """The page, or None where there is none of this name. Raises SightlineError."""
        if name == "":
            return _HTML, self._list_jobs()
        if name == "job":
            return _HTML, self._show_job(query)
        if name == "window":
            return _HTML, self._show_window(query)
        if name in ("flame", "profile.pb.gz"):
            return self._draw_stacks(query, as_page=name == "flame")
        return None

    def _list_jobs(self) -> bytes:
        windows = read_windows(self._folder)
        jobs = windows.group_by("job", maintain_order=True).agg(
            pl.len(), pl.col("node").n_unique().alias("nodes"), pl.col("added_ns").max()
        )
        rows = [
            (
                _link("job", job, job=job),
                f"{count:,}",
                f"{nodes:,}",
                write_moment(last),
            )
            for job, count, nodes, last in jobs.sort("added_ns", descending=True).rows()
        ]
        head = ("job", "windows", "nodes", "last window (UTC)")
        return _write_page(self._folder.name, [_write_table(head, rows)], is_first=True)

    def _show_job(self, query: Query) -> bytes:
        job, metric = query.get("job", ""), query.get("metric", "step_ns")
        windows = self._select(query)
        where = {"job": job} if job != "none" else {}
        data = describe_series(self._folder, metric, where, "window", _POINTS)
        name_moments(data)
        own = list_names(self._folder, windows.get_column("run_id").to_list())
        names = [name for name in own if not name.startswith(("kernel:", "idle:"))]
        choices = " · ".join(_link("job", name, job=job, metric=name) for name in names)
        span = {"job": job, "from": str(_first(windows)), "to": str(_last(windows))}
        parts = [
            f"<p>{choices}</p>",
            f"<h2>{_text(metric)}</h2>",
            f"<figure>{draw_series(data)}</figure>",
            "".join(f"<p>{line}</p>" for line in _describe_changes(data)),
            f"<p>{_link('flame', 'flame graph of all these windows', **span)} · "
            f"{_link('profile.pb.gz', 'as pprof', **span)}</p>",
        ]
        values = {point["label"]: point["value"] for point in data["points"]}
        rows = [
            (
                _link("window", write_moment(at), id=run_id),
                _text(node),
                f"{steps:,}",
                _write_value(metric, values.get(write_moment(at))),
            )
            for run_id, at, node, steps in windows.sort("added_ns", descending=True)
            .head(_LISTED)
            .select("run_id", "added_ns", "node", "steps")
            .rows()
        ]
        parts.append(_write_table(("window (UTC)", "node", "steps", metric), rows))
        return _write_page(f"job {job}", parts)

    def _show_window(self, query: Query) -> bytes:
        windows, row = self._find(query)
        values = read_values(self._folder, row["run_id"])
        step = values.get("step_ns", 0.0)
        parts = [
            f"<p>{format_several(row['steps'], 'step')}, {_text(row['gpu'] or 'no GPU')}, "
            f"node {_text(row['node'])} · {_link('job', 'its job', job=row['job'])} · "
            f"{_link('flame', 'flame graph', id=row['run_id'])} · "
            f"{_link('profile.pb.gz', 'pprof', id=row['run_id'])}</p>",
        ]
        for title, kept in _split_values(values):
            rows = [
                (_text(name), format_value(metric, value), _draw_share(value, step))
                for name, metric, value in kept
            ]
            parts += [f"<h2>{title}</h2>", _write_table(("", "a step", "share of it"), rows)]
        parts += _write_between(values)
        before = windows.filter(
            pl.col("job") == row["job"],
            pl.col("node") == row["node"],
            pl.col("added_ns") < row["added_ns"],
        )
        if before.height:
            others = before.sort("added_ns").tail(_COMPARED)
            ids = others.get_column("run_id").to_list()
            text = render_comparison(compare_windows(self._folder, ids, row["run_id"])).plain
            links = ", ".join(
                _link("window", write_moment(at), id=run_id)
                for run_id, at in others.select("run_id", "added_ns").rows()
            )
            lines = "\n".join(_text(line) for line in text.splitlines())
            parts += [f"<h2>Against the windows before</h2><p>{links}</p><pre>{lines}</pre>"]
        return _write_page(f"window of {write_moment(row['added_ns'])}", parts)

    def _draw_stacks(self, query: Query, *, as_page: bool) -> Answer:
        if "id" in query:
            ids, title = [self._find(query)[1]["run_id"]], "one window"
        else:
            chosen = self._select(query).sort("added_ns")
            ids = chosen.get_column("run_id").to_list()
            step = -(-len(ids) // _MOST_STACKS)
            ids = ids[:: max(step, 1)]
            title = f"{format_several(len(ids), 'window')}, {write_moment(_first(chosen))} to "
            title += write_moment(_last(chosen))
        stacks, weight = read_stacks(self._folder, ids)
        if not as_page:
            return _PROFILE, pprof.write(stacks)
        return _HTML, flame_page.write(stacks, weight, title)

    def _find(self, query: Query) -> tuple[pl.DataFrame, dict[str, Any]]:
        windows = read_windows(self._folder)
        found = windows.filter(pl.col("run_id") == query.get("id", ""))
        if found.is_empty():
            raise RequestError("there is no such window")
        return windows, found.row(0, named=True)

    def _select(self, query: Query) -> pl.DataFrame:
        """The windows of a job, of a span where one is asked for."""
        windows = read_windows(self._folder)
        found = windows.filter(pl.col("job") == query.get("job", ""))
        for key, is_kept in (("from", pl.col("added_ns").ge), ("to", pl.col("added_ns").le)):
            if (text := query.get(key)) is None:
                continue
            if not text.isascii() or not text.isdecimal() or len(text) > 19:
                raise RequestError(
                    f"'{text[:40]}' is not a time", why="it must be in ns since 1970"
                )
            found = found.filter(is_kept(int(text)))
        if found.is_empty():
            raise RequestError("there is no window of this job then")
        return found


def name_moments(data: dict[str, Any]) -> None:
    """Call the points of a series, and what its changes lie between, by their moments."""
    points = data["points"]
    for point in points:
        point["label"] = write_moment(point["added_ns"])
    for change in data["changes"]:
        change["before"] = points[change["at"] - 1]["label"]
        change["after"] = points[change["at"]]["label"]


def write_moment(ns: int) -> str:
    """A moment to the second, in UTC."""
    when = datetime.datetime.fromtimestamp(ns / 1e9, datetime.UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}"


def _describe_changes(data: dict[str, Any]) -> Iterator[str]:
    for change in data["changes"]:
        by = "" if change["ratio"] is None else f"{100 * (change['ratio'] - 1):+.1f} %, "
        before, after = (format_value(data["metric"], change[f"{s}_value"]) for s in _SIDES)
        gone = "; went away since" if change["went_away"] else ""
        yield (
            f"Changed between {_text(change['before'])} and {_text(change['after'])}: "
            f"{by}{_text(before)} to {_text(after)}{gone}."
        )
    if not data["changes"]:
        yield "No change of level that this series shows."


_SIDES = ("before", "after")


def _split_values(values: dict[str, float]) -> Iterator[tuple[str, list[tuple[str, str, float]]]]:
    """What a step is made of, its causes of idle time, its operations: the largest first."""
    for title, prefix, suffix in (
        ("Breakdown", "", "_ns"),
        ("Idle time", "idle:", ""),
        ("Operations", "kernel:", ""),
    ):
        found = [
            (metric.removeprefix(prefix).removesuffix(suffix or " "), metric, value)
            for metric, value in values.items()
            if metric.startswith(prefix) and metric.endswith(suffix) and metric != "step_ns"
            if prefix or not metric.startswith(PREFIX)
        ]
        found.sort(key=lambda one: -one[2])
        if found:
            yield title, found[:20]


def _write_between(values: dict[str, float]) -> list[str]:
    """What the job did since the window before, where that was counted."""
    rows = [
        (_text(name.replace("_ns", "").replace("_", " ")), format_value(f"{PREFIX}{name}", value))
        for metric, value in values.items()
        if metric.startswith(PREFIX) and (name := metric.removeprefix(PREFIX))
    ]
    head = ("of one process", "a second")
    return [f"<h2>Since the window before</h2>{_write_table(head, rows)}"] if rows else []


def _draw_share(value: float, step: float) -> str:
    share = min(max(value / step, 0.0), 1.0) if step else 0.0
    return f'<span class="bar" style="width:{200 * share:.0f}px"></span> {100 * share:.1f} %'


def _write_value(metric: str, value: float | None) -> str:
    return "" if value is None else format_value(metric, value)


def _write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its cells are markup, its head is text."""
    first = "".join(f"<th>{_text(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{first}</tr>{body}</table>"


def _write_page(title: str, parts: list[str], *, is_first: bool = False) -> bytes:
    nav = "" if is_first else '<nav><a href="./">all jobs</a></nav>'
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{_text(title)} · sightline</title><style>{_STYLE}</style>"
        f"{nav}<h1>{_text(title)}</h1>{''.join(parts)}</html>"
    ).encode()


def _link(page: str, text: str, **query: str) -> str:
    return f'<a href="{escape(f"{page}?{urlencode(query)}")}">{_text(text)}</a>'


def _text(words: str) -> str:
    return escape(make_printable(words))


def _first(windows: pl.DataFrame) -> int:
    return int(windows.get_column("added_ns").min())  # type: ignore[arg-type]


def _last(windows: pl.DataFrame) -> int:
    return int(windows.get_column("added_ns").max())  # type: ignore[arg-type]
