"""The terminal of `sightline top`: keys, mouse, details of a GPU, all around `screen`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from sightline.core.text import clean_text
from sightline.core.units import format_bytes, format_ns, format_rate
from sightline.core.watched_metrics import METRICS, Metric
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import GPU, Entity, Source
from sightline.record.monitor.rounds import MachineClock, run_rounds
from sightline.record.monitor.top.owners import Owner
from sightline.record.monitor.top.screen import (
    LEGEND,
    draw_columns,
    draw_events,
    draw_gpus,
    draw_heading,
    draw_host,
    draw_processes,
)

_ORDERS = ("memory used", "GPU utilization")


class Details(ModalScreen[None]):
    """Every metric of one GPU, and why others have no value."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]
    CSS = """
    Details { align: center middle; }
    #all { width: 90%; height: 90%; border: round $primary; }
    """

    def __init__(self, latest: Latest, entity: Entity) -> None:
        super().__init__()
        self._latest, self._entity = latest, entity

    def compose(self) -> ComposeResult:
        """One scrolling text."""
        with VerticalScroll(id="all"):
            yield Static(id="text")

    def on_mount(self) -> None:
        """Draw now, and every second."""
        self.set_interval(1, self.draw)
        self.draw()

    def draw(self) -> None:
        """Draw what is known now."""
        self.query_one("#text", Static).update(Group(*list_details(self._latest, self._entity)))


def list_details(latest: Latest, entity: Entity) -> list[Text]:
    """A line for each metric of a GPU: value and unit, or why it is missing."""
    device = latest.devices.get(entity.device_id or 0)
    name = f"GPU {entity.device_id}" + (f"  {clean_text(device.name)}" if device else "")
    values, missing = latest.values(entity), latest.missing(entity)
    lines = [Text(name, style="bold"), Text("")]
    for metric in METRICS.values():
        if metric.name in values:
            lines.append(Text(f"{metric.name:<36}{show_value(metric, values[metric.name])}"))
    lines += [Text(f"{name:<34}{clean_text(why)}", style="dim") for name, why in missing.items()]
    return lines


def show_value(metric: Metric, value: float) -> str:
    """A value with its unit, in 14 columns before the unit."""
    if metric.unit in ("bytes", "bytes/s"):
        show = format_bytes if metric.unit == "bytes" else format_rate
        number, _, unit = show(value).partition(" ")
    elif metric.unit == "ns":
        number, _, unit = format_ns(value).partition(" ")
    else:
        number, unit = f"{value:,.2f}".rstrip("0").rstrip("."), metric.unit.replace("bits", "")
    return f"{number:>14} {unit}".rstrip()


class TopApp(App[None]):
    """GPUs above, processes and events below; a thread of its own reads the sources."""

    TITLE = "sightline top"
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #gpus { height: auto; max-height: 75%; }
    #rest { height: 1fr; }
    #heading, #host { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("up,k", "select(-1)", "Up", show=False),
        Binding("down,j", "select(1)", "Next GPU"),
        Binding("enter", "open_details", "All metrics"),
        Binding("s", "sort", "Sort processes"),
        Binding("space", "pause", "Pause"),
        Binding("l", "legend", "Legend"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        sources: Sequence[Source],
        latest: Latest,
        owners: Callable[[int], Owner],
        period_s: float,
    ) -> None:
        super().__init__()
        self._sources, self._latest, self._owners = sources, latest, owners
        self._period_s = period_s
        self._clock = MachineClock()
        self._reader = threading.Thread(target=self._read, daemon=True, name="sightline-top")
        self._selected: int | None = None
        self._order = 0
        self._is_paused = False
        self._rows: list[int] = []  # the GPU that each line of the list is of

    def compose(self) -> ComposeResult:
        """Heading, GPUs, host, the rest, keys."""
        yield Static(id="heading")
        with VerticalScroll(id="gpus", can_focus=False):
            yield Static(id="list")
        yield Static(id="host")
        with VerticalScroll(id="rest", can_focus=False):
            yield Static(id="processes")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read, and to draw twice a round."""
        self._reader.start()
        self.set_interval(max(0.1, self._period_s / 2), self.draw)
        self.draw()

    def on_unmount(self) -> None:
        """Let the reader end."""
        self._clock.stop()
        self._reader.join(2)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.draw()

    def _read(self) -> None:
        for now in run_rounds(self._sources, self._period_s, self._clock):
            self._latest.note_devices(self._sources)
            self._latest.put(now)

    def draw(self) -> None:
        """Draw what is known now, unless the screen is to stand still."""
        if self._is_paused or not self.is_running or not self.screen.is_current:
            return
        if len(self.screen_stack) > 1:
            return
        latest, width = self._latest, max(40, self.size.width - 2)
        heading = [draw_heading(latest, width), draw_columns(width)]
        self.query_one("#heading", Static).update(Group(*heading))
        lines, self._rows = self._list_gpus(width)
        self.query_one("#list", Static).update(Group(*lines))
        self.query_one("#host", Static).update(draw_host(latest, width))
        order = _ORDERS[self._order]
        rest = draw_processes(latest, self._owners, width, order)
        rest = rest if len(rest) > 1 else [Text("no process on a GPU", style="dim")]
        self.query_one("#processes", Static).update(Group(*draw_events(latest, width, 3), *rest))

    def _list_gpus(self, width: int) -> tuple[list[Text], list[int]]:
        lines: list[Text] = []
        rows: list[int] = []
        for place, mine in enumerate(draw_gpus(self._latest, width, self._selected)):
            lines += mine
            rows += [place] * len(mine)
        return lines, rows

    def on_click(self, event: Click) -> None:
        """Select the GPU that was clicked; a second click shows all of it."""
        if event.widget is None or event.widget.id != "list" or not 0 <= event.y < len(self._rows):
            return
        place = self._rows[event.y]
        if place == self._selected:
            self.action_open_details()
        self._selected = place
        self.draw()

    def action_select(self, step: int) -> None:
        """The next or the previous GPU."""
        count = len(self._latest.list_entities(GPU))
        if count:
            at = -1 if self._selected is None and step > 0 else self._selected or 0
            self._selected = (at + step) % count
            self.draw()
            top = self._rows.index(self._selected)
            height = self._rows.count(self._selected)
            region = Region(0, top, 1, height)
            self.query_one("#gpus", VerticalScroll).scroll_to_region(region, animate=False)

    def action_open_details(self) -> None:
        """Every metric of the selected GPU."""
        gpus = self._latest.list_entities(GPU)
        if gpus:
            self.push_screen(Details(self._latest, gpus[self._selected or 0]))

    def action_sort(self) -> None:
        """Processes by memory, or by use."""
        self._order = (self._order + 1) % len(_ORDERS)
        self.draw()

    def action_pause(self) -> None:
        """Let the screen stand still; reading goes on."""
        self._is_paused = not self._is_paused
        self.clear_notifications()
        if self._is_paused:
            self.notify("Paused; press space to go on.", title="Paused", timeout=3600)
        self.draw()

    def action_legend(self) -> None:
        """What the columns are."""
        self.clear_notifications()
        self.notify(LEGEND, title="Columns")
