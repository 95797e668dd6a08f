"""Values that show themselves: findings, breakdown, flame graph, timeline, comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.core.displayed import Displayed
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run

if TYPE_CHECKING:
    import polars as pl

    from sightline.flames.stacks import Stacks


class Findings(Displayed, list[Finding]):
    """A list of findings, the largest gain first; `breakdown` are the devices' rows."""

    display = "findings"
    breakdown: tuple[dict[str, Any], ...] = ()


@dataclass(repr=False)
class Breakdown(Displayed):
    """Where each device's window went: `frame` is the analysis of that name."""

    display = "breakdown"
    frame: pl.DataFrame


@dataclass(repr=False)
class Flame(Displayed):
    """A flame graph: stacks, what their frames' widths are, and a title."""

    display = "flame"
    stacks: Stacks
    weight: str
    title: str


@dataclass(repr=False)
class Timeline(Displayed):
    """The device operations of one step, of median length where steps are known."""

    display = "timeline"
    run: Run


class Comparison(Displayed, dict[str, Any]):
    """What `sightline compare --json` prints, as a dictionary that shows itself."""

    display = "comparison"
