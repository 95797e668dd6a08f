"""A plan of MIG instances as one offline page: each GPU with its slots, what is free and wasted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.page import blocks
from sightline.core.page.declare import Block
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.mig.commands import MOST_OF_ONE_MACHINE, list_steps, write_script
from sightline.mig.placements import fill_up
from sightline.mig.planner import Alternative, CutGpu, Plan
from sightline.mig.sharing import MANNERS, Advice
from sightline.version import __version__
from sightline.views.html.page import SCHEMA, load_template

_WIDTH, _ROW, _TOP = 900, 64, 20
_MOST_PICTURES = 24
# Ink, grid and ground, then a fill for each want in turn: on white, and on the page's dark ground.
_LIGHT = (
    "#222222",
    "#777777",
    "#ffffff",
    "#bcd6f2",
    "#cfe8cf",
    "#f6dcb8",
    "#e4d0ee",
    "#f3cccc",
    "#d5e3e3",
)
_DARK = (
    "#eeeeee",
    "#8a949c",
    "#1b1f24",
    "#25476b",
    "#2a4f33",
    "#5d4423",
    "#4d3760",
    "#5f3030",
    "#2f4a4a",
)


def write_page(
    plan: Plan, available: int, others: Sequence[Alternative], advice: Advice | None
) -> bytes:
    """The page of a plan."""
    served = sum(want.count for want in plan.wants) - sum(plan.unserved)
    about = (
        f"{format_several(served, 'workload')} on {plan.used} of {format_several(available, 'GPU')}"
    )
    panel = {"name": "mig", "title": "MIG", "blocks": list(_make_blocks(plan, others, advice))}
    content = {
        "schema": SCHEMA,
        "version": __version__,
        "title": "MIG plan",
        "about": [about],
        "origin_ns": "0",
        "length_ns": 0,
        "panels": [panel],
    }
    return load_template(content, "MIG plan")


def _make_blocks(
    plan: Plan, others: Sequence[Alternative], advice: Advice | None
) -> Iterator[Block]:
    if advice is not None:
        yield blocks.make_text(f"Suits: {advice.manner}: {advice.why}.", "lead")
    first = 0
    for gpu in plan.gpus[:_MOST_PICTURES]:
        light, dark = (draw_gpu(gpu, plan, dark=on) for on in (False, True))
        yield blocks.make_text(_name_group(gpu, first))
        yield {"kind": "image", "svg": light, "dark": dark, "alt": _name_group(gpu, first)}
        first += gpu.count
    if len(plan.gpus) > _MOST_PICTURES:
        yield blocks.make_text(
            f"{format_several(len(plan.gpus) - _MOST_PICTURES, 'more kind')} of cuts are not drawn."
        )
    rows = [
        {
            "workload": make_printable(want.name),
            "need": want.describe(),
            "wanted": want.count,
            "unserved": count,
        }
        for want, count in zip(plan.wants, plan.unserved, strict=True)
    ]
    yield blocks.make_table(
        "Workloads",
        pl.DataFrame(rows),
        (
            text("workload", "its name"),
            text("need", "what one needs"),
            number("wanted", "how many"),
            number("unserved", "how many found no place"),
        ),
    )
    if others:
        yield _tabulate_alternatives(plan, others)
    if advice is not None:
        yield _tabulate_manners(advice)
    if plan.used <= MOST_OF_ONE_MACHINE:
        lines = [line.partition(" # ") for line in write_script(list_steps(plan)).splitlines()]
        rows = [
            {"command": " ".join(words.split()), "what": why.strip() or None}
            for words, _, why in lines
        ]
        columns = (text("command", "what to type"), text("what", "what it does"))
        frame = pl.DataFrame(rows, schema_overrides={"what": pl.String})
        yield blocks.make_table("Commands, in this order", frame, columns)


def _name_group(gpu: CutGpu, first: int) -> str:
    last = first + gpu.count - 1
    who = f"GPU {first}" if gpu.count == 1 else f"GPUs {first} to {last}, each"
    return f"{who}: {gpu.model.name}" + (", not cut" if gpu.whole_for is not None else "")


def _tabulate_alternatives(plan: Plan, others: Sequence[Alternative]) -> Block:
    rows = [{"cut": "this plan", "gpus": plan.used, "unserved": sum(plan.unserved)}]
    for one in others:
        names = one.plan.gpus[0].model.sizes if one.plan.gpus else {}
        mix = ", ".join(f"{n} x {names[key].name if key in names else key}" for key, n in one.mix)
        unserved = sum(one.plan.unserved)
        rows.append({"cut": f"all: {mix}", "gpus": one.plan.used, "unserved": unserved})
    columns = (
        text("cut", "how the GPUs are cut"),
        number("gpus", "how many are used"),
        number("unserved", "workloads without a place"),
    )
    return blocks.make_table("One cut for all GPUs instead", pl.DataFrame(rows), columns)


def _tabulate_manners(advice: Advice) -> Block:
    counts = {"MIG": advice.mig, "MPS": advice.mps, "time-slicing": advice.time_slicing}
    rows = [
        {
            "way": one.name,
            "gpus": counts.get(one.name),
            "isolation": one.isolation,
            "costs": one.cost,
            "limits": one.limit,
        }
        for one in MANNERS
    ]
    columns = (
        text("way", "to share a GPU"),
        number("gpus", "that it takes; empty: it cannot serve all, or is not computed"),
        text("isolation", "between workloads"),
        text("costs", "what it costs"),
        text("limits", "what it cannot do"),
    )
    schema = {"gpus": pl.Int64}
    return blocks.make_table("Ways to share", pl.DataFrame(rows, schema_overrides=schema), columns)


def draw_gpu(gpu: CutGpu, plan: Plan, *, dark: bool = False) -> str:
    """One GPU as SVG: its memory slots, instances in the colour of their want, the rest hatched."""
    colours = _DARK if dark else _LIGHT
    ink, grid, ground, *fills = colours
    memory = gpu.model.family.memory
    slot = _WIDTH / memory
    parts = [
        f'<pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<path d="M0 8L8 0" stroke="{grid}" stroke-width="1"/></pattern>'
    ]
    if gpu.whole_for is not None:
        name = make_printable(plan.wants[gpu.whole_for].name)
        fill = fills[gpu.whole_for % len(fills)]
        parts += _draw_cell(0, _WIDTH, fill, ink, "the whole GPU", name)
    else:
        parts.append(
            f'<rect x="0" y="{_TOP}" width="{_WIDTH}" height="{_ROW}" fill="url(#hatch)" '
            f'stroke="{grid}"/>'
        )
        for item in fill_up(gpu.model.family, gpu.layout):
            width = gpu.model.family.find_shape(item.key).memory * slot
            words = gpu.model.sizes[item.key].name
            parts += _draw_cell(item.start * slot, width, ground, grid, f"free: {words}", "")
        for one in gpu.instances:
            width = gpu.model.family.find_shape(one.key).memory * slot
            name = make_printable(plan.wants[one.want].name)
            profile = gpu.model.sizes[one.key].name
            fill = fills[one.want % len(fills)]
            second = "" if name == profile else name
            parts += _draw_cell(one.start * slot, width, fill, ink, profile, second)
    parts += [
        f'<text x="{place * slot + 4:.1f}" y="14" fill="{grid}">{place}</text>'
        for place in range(memory)
    ]
    waste = gpu.measure_waste()
    sms = "" if not waste.sms else f", {waste.sms} of {gpu.model.sms} SMs"
    family = gpu.model.family
    words = (
        f"in no instance: {waste.compute} of {family.compute} compute slices, "
        f"{waste.memory} of {family.memory} memory slots{sms}"
    )
    parts.append(f'<text x="0" y="{_TOP + _ROW + 18}" fill="{ink}">{escape(words)}</text>')
    body = "\n".join(parts)
    height = _TOP + _ROW + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(gpu.model.name)}">\n{body}\n</svg>\n'
    )


def _draw_cell(x: float, width: float, fill: str, ink: str, first: str, second: str) -> list[str]:
    room = max(3, int(width / 7))  # characters of 12 px that fit
    cell = (
        f'<rect x="{x + 1:.1f}" y="{_TOP}" width="{width - 2:.1f}" height="{_ROW}" rx="3" '
        f'fill="{fill}" stroke="{ink}" stroke-width="1"/>'
    )
    texts = [
        f'<text x="{x + 8:.1f}" y="{_TOP + 24 + 20 * row}" fill="{ink}">'
        f"{escape(words[:room])}</text>"
        for row, words in enumerate((first, second))
        if words
    ]
    return [cell, *texts]
