"""The screen of `sightline top` as lines: GPUs, MIG instances, host, processes, what happened.

A GPU has a line of figures, and below it what it does in words. Wider terminals show more
columns and longer histories. Figures without a reading are a dash.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.text import Text

from sightline.core.text import clean_text, fit_text
from sightline.core.units import format_bytes, format_rate
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import GPU, HOST, INSTANCE, PROCESS, Entity, read_pid
from sightline.record.monitor.top.owners import Owner
from sightline.record.monitor.watching import describe
from sightline.record.monitor.words import BAD, GOOD, POOR, QUIET, describe_gpu
from sightline.timeline.use_thresholds import find_busiest_pipe

STYLES = {GOOD: "green", POOR: "yellow", BAD: "bold red", QUIET: "dim"}
# What the sparkline shows, best first: the true use, else nvidia-smi's.
DRAWN = ("SM active", "GPU utilization")
_BLOCKS = " ▁▂▃▄▅▆▇█"
_NONE = "—"
_SPACE = 2
_INDENT = "    "
_WIDEST = 60  # columns of a sparkline: a minute
_DRAWN_HEADING = "SM, each round"


class Column(NamedTuple):
    """A column of the GPUs: heading, width, the figure as text, from which width of screen on."""

    heading: str
    width: int
    show: Callable[[Mapping[str, float]], str]
    least: int = 0


def _pct(metric: str) -> Callable[[Mapping[str, float]], str]:
    return lambda v: f"{v[metric]:.0f} %" if metric in v else _NONE


def _show_pipe(values: Mapping[str, float]) -> str:
    _, share = find_busiest_pipe(values)
    return _NONE if share is None else f"{share:.0f} %"


def _show_memory(values: Mapping[str, float]) -> str:
    if not {"memory used", "memory total"} <= values.keys():
        return _NONE
    return f"{values['memory used'] / 1e9:.0f}/{values['memory total'] / 1e9:.0f} GB"


def _show_power(values: Mapping[str, float]) -> str:
    if "power" not in values:
        return _NONE
    limit = f"/{values['power limit']:.0f}" if "power limit" in values else ""
    return f"{values['power']:.0f}{limit} W"


def _show_link(sent: str, received: str) -> Callable[[Mapping[str, float]], str]:
    def show(values: Mapping[str, float]) -> str:
        if sent not in values or received not in values:
            return _NONE
        return f"{values[sent] / 1e9:.1f}/{values[received] / 1e9:.1f}"

    return show


def _unit(metric: str, unit: str) -> Callable[[Mapping[str, float]], str]:
    return lambda v: f"{v[metric]:.0f} {unit}" if metric in v else _NONE


_COLUMNS = (
    Column("smi", 6, _pct("GPU utilization")),
    Column("SM", 6, _pct("SM active")),
    Column("occup.", 6, _pct("SM occupancy"), 100),
    Column("pipe", 6, _show_pipe),
    Column("DRAM", 6, _pct("DRAM active")),
    Column("memory", 11, _show_memory),
    Column("power", 10, _show_power),
    Column("temp", 5, _unit("temperature", "C")),
    Column("SM clock", 9, _unit("SM clock", "MHz")),
    Column("PCIe GB/s", 10, _show_link("PCIe sent", "PCIe received"), 110),
    Column("NVLink GB/s", 12, _show_link("NVLink sent", "NVLink received"), 130),
)
LEGEND = (
    "smi: time with any kernel, as nvidia-smi has it   SM: SMs with a warp, the real use   "
    "pipe: the busiest pipe   DRAM: cycles with the memory's bus busy   right: SM, each round"
)


def list_columns(width: int) -> list[Column]:
    """The columns that a screen of this width has."""
    return [column for column in _COLUMNS if width >= column.least]


def draw_heading(latest: Latest, width: int) -> Text:
    """One line: when, what machine, what a round costs."""
    names = sorted({d.name for d in latest.devices.values() if d.name})
    drivers = sorted({d.driver for d in latest.devices.values() if d.driver})
    count = len(latest.devices)
    machine = f"{count} × {' and '.join(names)}" if names else "no GPU"
    parts = [time.strftime("%H:%M:%S", time.localtime(latest.wall_ns / 1e9)), machine]
    parts += [f"driver {drivers[0]}"] if drivers else []
    text = " · ".join(clean_text(part) for part in parts)
    return Text(fit_text(f"sightline top · {text}", width), style="bold")


def draw_columns(width: int) -> Text:
    """The headings of the GPUs' columns."""
    cells = [f"{c.heading:>{c.width}}" for c in list_columns(width)]
    line = f"GPU {' '.join(cells)}"
    if width - len(line) > len(_DRAWN_HEADING) + _SPACE:
        line += " " * _SPACE + _DRAWN_HEADING
    return Text(line[:width], style="dim")


def draw_gpus(latest: Latest, width: int, selected: int | None = None) -> Iterator[list[Text]]:
    """The lines of each GPU in turn, those of its MIG instances below its own."""
    instances = latest.list_entities(INSTANCE)
    for place, entity in enumerate(latest.list_entities(GPU)):
        mine = [i for i in instances if i.device_id == entity.device_id]
        yield [
            *draw_gpu(latest, entity, width, is_selected=place == selected),
            *(draw_instance(latest, i, width) for i in mine),
        ]


def draw_gpu(
    latest: Latest, entity: Entity, width: int, *, is_selected: bool = False
) -> list[Text]:
    """Figures with a sparkline, and below them what the GPU does."""
    values, missing = latest.values(entity), latest.missing(entity)
    words = describe_gpu(values, missing)
    style = STYLES[words.grade]
    cells = [f"{c.show(values):>{c.width}}" for c in list_columns(width)]
    first = Text(f"{entity.device_id:>3} {' '.join(cells)}", style="reverse" if is_selected else "")
    room = min(width - len(first) - _SPACE, _WIDEST)
    if room > 3:
        first.append(" " * _SPACE)
        first.append(draw_history(find_history(latest, entity), room), style="cyan")
    wrapped = textwrap.wrap(clean_text(words.text), width - len(_INDENT)) or [""]
    return [first, *(Text(f"{_INDENT}{line}", style=style) for line in wrapped)]


def find_history(latest: Latest, entity: Entity) -> Sequence[float | None]:
    """The last values of what is drawn, in per cent."""
    for metric in DRAWN:
        line = latest.history(entity, metric)
        if any(value is not None for value in line):
            return line
    return []


def draw_history(values: Sequence[float | None], room: int) -> str:
    """A sparkline of shares, the newest at the right; a blank where there was no reading."""
    shown = list(values)[-room:]
    blocks = [
        " " if value is None else _BLOCKS[1 + min(7, int(max(value, 0) / 100 * 8))]
        for value in shown
    ]
    return "".join(blocks).rjust(room)


def draw_instance(latest: Latest, entity: Entity, width: int) -> Text:
    """One line of a MIG instance, under its GPU."""
    values = latest.values(entity)
    parts = [f"SM {_pct('SM active')(values)}", f"pipe {_show_pipe(values)}"]
    parts += [f"DRAM {_pct('DRAM active')(values)}", _show_memory(values)]
    return Text(fit_text(f"      {entity.source}: {', '.join(parts)}", width))


def draw_host(latest: Latest, width: int) -> Text:
    """One line of the host."""
    values: dict[str, float] = {}
    for entity in latest.list_entities(HOST):
        if entity.source is None:
            values = latest.values(entity)
    parts = []
    if "CPU utilization" in values:
        parts.append(f"CPU {values['CPU utilization']:.0f} % of {values.get('CPUs', 0):.0f}")
    if "host memory used" in values:
        used, total = values["host memory used"], values["host memory total"]
        parts.append(f"memory {used / 1e9:.1f}/{total / 1e9:.1f} GB")
    for label, read, written in (
        ("disk", "disk read", "disk written"),
        ("network", "network received", "network sent"),
    ):
        if read in values:
            moved = values[read] + values.get(written, 0)
            parts.append(f"{label} {format_rate(moved)}")
    return Text(fit_text("host  " + "   ".join(parts), width), style="bold")


def draw_processes(
    latest: Latest, owners: Callable[[int], Owner], width: int, order: str = "memory used"
) -> list[Text]:
    """Headings and a line for each process on a GPU, the largest first."""
    found = latest.list_entities(PROCESS)
    found.sort(key=lambda e: -latest.values(e).get(order, 0.0))
    lines = [Text(f"{'GPU':>3} {'PID':>8} {'memory':>10} {'SM':>6}  user      command", "dim")]
    for entity in found:
        values = latest.values(entity)
        pid = read_pid(entity)
        owner = owners(pid)
        memory = format_bytes(int(values["memory used"])) if "memory used" in values else _NONE
        share = _pct("GPU utilization")(values)
        line = f"{entity.device_id:>3} {pid:>8} {memory:>10} {share:>6}  {owner.user:<9.9} "
        lines.append(Text(fit_text(line + clean_text(owner.command), width)))
    return lines


def draw_events(latest: Latest, width: int, most: int) -> list[Text]:
    """The last events, newest last."""
    lines = []
    for event in list(latest.events)[-most:]:
        at = time.strftime("%H:%M:%S", time.localtime(event.time_ns / 1e9))
        lines.append(Text(fit_text(f"{at}  {clean_text(describe(event))}", width), style="yellow"))
    return lines


def draw_screen(
    latest: Latest, owners: Callable[[int], Owner], width: int, selected: int | None = None
) -> list[Text]:
    """All of it, from top to bottom."""
    lines = [draw_heading(latest, width)]
    lines += [draw_columns(width)] if latest.list_entities(GPU) else []
    for mine in draw_gpus(latest, width, selected):
        lines += mine
    lines.append(draw_host(latest, width))
    processes = draw_processes(latest, owners, width)
    if len(processes) > 1:
        lines += [Text(""), *processes]
    events = draw_events(latest, width, 5)
    if events:
        lines += [Text(""), *events]
    return lines
