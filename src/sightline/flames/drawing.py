"""Stacks as a file: a page, a picture, or what other tools read, by the ending of its name."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.errors import RequestError
from sightline.flames.stacks import Stacks


@dataclass(frozen=True)
class Style:
    """How a picture is drawn: only SVG has all of it."""

    palette: str = "gpu"
    icicle: bool = False  # root at the top
    split: bool = False  # ranks, threads, steps and layers by themselves


def draw_stacks(
    built: Stacks,
    weight: str,
    title: str,
    name: str,
    style: Style | None = None,
    before: tuple[Stacks, float] | None = None,
) -> bytes:
    """The file of that name; `before` are earlier stacks, and how much steps vary (a ratio).

    Raises RequestError for an ending that is not known, or a difference that is not a page.
    """
    from sightline.flames import folded, html, pprof, speedscope, svg
    from sightline.flames.instances import merge_instances

    style, ending = style or Style(), name.lower()
    if ending.endswith((".html", ".htm")):
        stacks, noise = before or (None, 0.0)
        return html.write(built, weight, title, before=stacks, noise_ratio=noise)
    if before is not None:
        raise RequestError(
            "a difference can only be drawn as a page (.html)", hint="Write  -o diff.html"
        )
    if ending.endswith(".svg"):
        shown = built if style.split else merge_instances(built)
        return svg.write(shown, weight, title, palette=style.palette, icicle=style.icicle).encode()
    if ending.endswith((".folded", ".txt")):
        return folded.write(built, weight).encode()
    if ending.endswith(".json"):
        return speedscope.write(built, weight, title).encode()
    if ending.endswith((".pb.gz", ".pprof")):
        return pprof.write(built)
    raise RequestError(
        f"cannot write {name}",
        why="its ending must be .html, .svg, .folded, .speedscope.json or .pb.gz",
    )
