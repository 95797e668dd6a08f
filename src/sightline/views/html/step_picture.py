"""A step of either side under one another, on one scale and from the same moment, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import polars as pl

from sightline.compare.sample import Sample
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.text import fit_text
from sightline.core.units import format_ns
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run

MAX_STREAMS = 6
_WIDTH, _LEFT, _RIGHT, _ROW, _HEAD, _FOOT = 960, 92, 12, 22, 24, 40
# What is narrower is drawn together with what is next to it, in pixels.
_FINE = 0.5
# Wide enough for a name, and how many of its letters fit a pixel at 11 px.
_NAMED, _LETTERS = 48, 0.155
# Ink, rule, and the classes: on white, and on the page's dark ground.
_LIGHT = {"ink": "#1f2933", "rule": "#b8c0c8",
          COMPUTE: "#9cc3e6", COMMUNICATION: "#f0b27a", COPY: "#a9d8a1"}  # fmt: skip
_DARK = {"ink": "#e6e9ec", "rule": "#4a535c",
         COMPUTE: "#2f6f9f", COMMUNICATION: "#a5622a", COPY: "#3b7a3b"}  # fmt: skip


class Step(NamedTuple):
    """The operations of a step: `stream`, `name`, `class_`, `start_ns` and `end_ns` from its start.

    `number` is counted from the first of the run's steps, `length_ns` up to the next one.
    """

    number: int
    length_ns: int
    ops: pl.DataFrame


def take_step(sample: Sample) -> Step | None:
    """The step of median length of a run's first device; None where it has no device's timeline."""
    if sample.run is None or not sample.has_device or sample.edges.is_empty():
        return None
    ops = classify_run(sample.run)
    rank, device = ops.select(pl.col("rank", "device_id").sort_by("rank", "device_id").first()).row(
        0
    )
    edges = sample.edges.filter(pl.col("rank") == rank).sort("length", "step")
    if edges.is_empty():
        return None
    start, length, number = edges.select("start_ns", "length", "step").row((edges.height - 1) // 2)
    inside = ops.filter(
        pl.col("rank") == rank,
        pl.col("device_id") == device,
        pl.col("start_ns") < start + length,
        pl.col("end_ns") > start,
    )
    rows = inside.select(
        pl.col("stream_id").fill_null(-1).alias("stream"),
        "name",
        "class_",
        start_ns=(pl.col("start_ns") - start).clip(0, length),
        end_ns=(pl.col("end_ns") - start).clip(0, length),
    )
    return Step(number, length, rows.sort("stream", "start_ns"))


def draw_steps(before: Step, after: Step, *, dark: bool = False) -> str:
    """Both steps as an SVG document."""
    colours = _DARK if dark else _LIGHT
    longest = max(before.length_ns, after.length_ns, 1)
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    body: list[str] = []
    y = 0
    for name, step in (("before", before), ("after", after)):
        streams = _list_streams(step)
        body += _draw_band(name, step, streams, y, scale, colours)
        y += _HEAD + _ROW * max(len(streams), 1) + 10
    body += _draw_legend(y, colours)
    told = (
        f"one step before, {format_ns(before.length_ns)}, and after, {format_ns(after.length_ns)}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + _FOOT}" '
        f'width="{_WIDTH}" height="{y + _FOOT}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="{escape(told)}">\n' + "\n".join(body) + "\n</svg>\n"
    )


def draw_step(step: Step) -> str:
    """One step as an SVG document on a light ground."""
    streams = _list_streams(step)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(step.length_ns, 1)
    foot = _HEAD + _ROW * max(len(streams), 1) + 10
    body = [*_draw_band("", step, streams, 0, scale, _LIGHT), *_draw_legend(foot, _LIGHT)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {foot + _FOOT}" '
        f'width="{_WIDTH}" height="{foot + _FOOT}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="one step, {format_ns(step.length_ns)}">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>' + "\n".join(body) + "\n</svg>\n"
    )


def _list_streams(step: Step) -> list[int]:
    """The busiest streams, in order of their number."""
    busy = step.ops.group_by("stream").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
    top = busy.sort("ns", "stream", descending=[True, False]).head(MAX_STREAMS)
    return sorted(top.get_column("stream"))


def _draw_band(
    name: str, step: Step, streams: Sequence[int], y: int, scale: float, colours: dict[str, str]
) -> Iterator[str]:
    end = _LEFT + step.length_ns * scale
    foot = y + _HEAD + _ROW * max(len(streams), 1)
    yield (
        f'<text x="4" y="{y + 16}" fill="{colours["ink"]}" font-weight="bold">{name}</text>'
        f'<text x="{_LEFT}" y="{y + 16}" fill="{colours["ink"]}">step {step.number}, '
        f"{format_ns(step.length_ns)}</text>"
    )
    for x in (_LEFT, end):
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + _HEAD - 4}" y2="{foot}" '
            f'stroke="{colours["rule"]}"/>'
        )
    for row, stream in enumerate(streams):
        top = y + _HEAD + _ROW * row
        label = "stream" if stream < 0 else f"stream {stream}"
        yield f'<text x="4" y="{top + 14}" fill="{colours["ink"]}">{label}</text>'
        mine = step.ops.filter(pl.col("stream") == stream)
        for x, width, class_, op in _merge_narrow(mine, scale):
            yield (
                f'<rect x="{_LEFT + x:.1f}" y="{top + 2}" width="{width:.1f}" '
                f'height="{_ROW - 4}" fill="{colours[class_]}"/>'
            )
            if op is not None and width >= _NAMED:
                told = fit_text(shorten_kernel_name(op), int(width * _LETTERS))
                yield (
                    f'<text x="{_LEFT + x + 3:.1f}" y="{top + 15}" font-size="11" '
                    f'fill="{colours["ink"]}">{escape(told)}</text>'
                )


def _merge_narrow(
    ops: pl.DataFrame, scale: float
) -> Iterator[tuple[float, float, str, str | None]]:
    """Place, width in pixels, class and name; several of one class so close are one, nameless."""
    open_: list[float] | None = None
    kind, name = "", None
    for start, end, class_, op in ops.select("start_ns", "end_ns", "class_", "name").iter_rows():
        since, until = start * scale, end * scale
        if (
            open_ is not None
            and class_ == kind
            and since - open_[1] < _FINE
            and min(until - since, open_[1] - open_[0]) < 2
        ):
            open_[1], name = max(open_[1], until), None
            continue
        if open_ is not None:
            yield open_[0], max(open_[1] - open_[0], _FINE), kind, name
        open_, kind, name = [since, until], class_, op
    if open_ is not None:
        yield open_[0], max(open_[1] - open_[0], _FINE), kind, name


def _draw_legend(y: int, colours: dict[str, str]) -> Iterator[str]:
    labels = ((COMPUTE, "compute"), (COMMUNICATION, "communication"), (COPY, "copies and memsets"))
    for place, (class_, label) in enumerate(labels):
        x = _LEFT + 150 * place
        yield (
            f'<rect x="{x}" y="{y + 8}" width="12" height="12" fill="{colours[class_]}"/>'
            f'<text x="{x + 18}" y="{y + 18}" fill="{colours["ink"]}">{label}</text>'
        )
