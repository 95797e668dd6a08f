"""The chart as PNG, by the optional package resvg-py (pip install resvg-py)."""

from __future__ import annotations

import importlib

from sightline.errors import RequestError

_SCALE = 2.0  # two pixels a point, for screens of today


def draw_png(svg: str) -> bytes:
    """The SVG as a PNG. Raises RequestError where the renderer is not installed."""
    try:
        resvg = importlib.import_module("resvg_py")
    except ImportError as error:
        raise RequestError(
            "a PNG cannot be drawn",
            why="the package resvg-py is not installed",
            hint="Install it:  pip install resvg-py  or write a file that ends in .svg",
        ) from error
    return bytes(resvg.svg_to_bytes(svg_string=svg, zoom=_SCALE))
