"""Two sides against each other for a person: the verdict first, then what a step is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from rich.text import Text

from sightline.compare.comparability import LOST_KERNELS
from sightline.compare.statistics import ALPHA
from sightline.core.text import fit_text, fit_texts
from sightline.core.units import (
    format_bytes,
    format_count,
    format_note,
    format_ns,
    format_pct,
    format_several,
)
from sightline.views.terminal.screen import wrap_text

WIDTH, MOST, PROSE = 80, 200, 100
MAX_PAIRS, MAX_CAUSES, MAX_FINDINGS, MAX_SHIFTS, MAX_HOST = 8, 4, 6, 3, 5
BAR = 12
MAX_RUNS = 30  # that anybody would record to see so small a difference
# Worth a line of its own from a thousandth of the step on (ours: less rounds to 0.1 %).
WORTH = 0.001

PART_LABELS = {
    "compute": "compute",
    "exposed_comm": "exposed comm",
    "exposed_copy": "copies",
    "unknown": "unknown",
    "idle": "idle",
    "operators": "CPU operators",
    "other": "outside operators",
}
_STYLES = {"faster": "bold green", "slower": "bold red", "not comparable": "bold yellow"}


def render_comparison(data: dict[str, Any], width: int = WIDTH) -> Text:
    """The whole screen; what is wider than 80 columns gives room to names and sentences."""
    width = min(max(width, WIDTH), MOST)
    prose = min(width, PROSE)
    blocks = [
        list(_head(data, prose)),
        list(_verdict(data, prose)),
        list(_waterfall(data, width)),
        list(_pairs(data, width, prose)),
        list(_shifts(data, prose)),
        list(_host(data, width)),
        list(_findings(data, width)),
        list(_metrics(data)),
        list(_limits(data, prose)),
    ]
    return Text("\n\n").join(Text("\n").join(block) for block in blocks if block)


def render_causes(data: dict[str, Any], width: int = WIDTH) -> Text:
    """What made the difference, without a verdict: the waterfall, operations, and the host."""
    width = min(max(width, WIDTH), MOST)
    prose = min(width, PROSE)
    blocks = [
        list(_waterfall(data, width)),
        list(_pairs(data, width, prose)),
        list(_host(data, width)),
    ]
    return Text("\n\n").join(Text("\n").join(block) for block in blocks if block)


def format_change(ns: float) -> str:
    """A duration with its sign: '+4.400 µs', '−12 ns'."""
    return f"{_sign(ns)}{format_ns(abs(ns))}"


def format_change_pct(pct: float | None) -> str:
    """A share with its sign; '-' where there is none."""
    if pct is None:
        return "-"
    # Beyond, a share of so little says nothing, and fits no column.
    return f"{_sign(pct)}{format_pct(abs(pct))}" if abs(pct) < 999.5 else f"{_sign(pct)}>999 %"


def _sign(value: float) -> str:
    return "+" if value > 0 else "−" if value < 0 else "±"


def describe_sides(data: dict[str, Any]) -> list[str]:
    """The two sides' names, and what each has."""
    paths = [PurePath(data["sides"][side][0]["name"]) for side in ("before", "after")]
    # What is called alike differs by its folder.
    parts = 1 if paths[0].name != paths[1].name else 2
    names, counts = [], []
    for side, path in zip(("before", "after"), paths, strict=True):
        runs = data["sides"][side]
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        names.append("/".join(path.parts[-parts:]) + more)
        steps = sum(run["steps"] for run in runs)
        known = format_several(steps, "step") if runs[0]["source"] else "whole recording"
        kind = "GPU" if runs[0]["has_device"] else "CPU process"
        devices = format_several(runs[0]["devices"], kind, f"{kind}es" if kind[-1] == "s" else None)
        runs_text = f"{format_several(len(runs), 'run')}, " if len(runs) > 1 else ""
        counts.append(f"{runs_text}{known}, {devices}")
    told = counts[0] if counts[0] == counts[1] else f"{counts[0]} → {counts[1]}"
    return [f"{names[0]} → {names[1]}", told]


def write_verdict(data: dict[str, Any]) -> str:
    """The verdict as one sentence, without its reasons."""
    word, step = data["verdict"]["word"], data["step"]
    pct = None if step["ratio"] is None else 100 * (step["ratio"] - 1)
    interval = ""
    if step["low"] is not None and step["high"] is not None:
        low, high = (format_change_pct(100 * (step[k] - 1)) for k in ("low", "high"))
        interval = f" (95 % interval {low} to {high})"
    if word in ("faster", "slower"):
        return f"{word.capitalize()} by {format_pct(abs(pct or 0))}{interval}."
    if word == "no change":
        return f"No measurable change: {format_change_pct(pct)}{interval}."
    if word == "not comparable":
        return "Not comparable, because:"
    return f"Inconclusive: {format_change_pct(pct)}{interval}."


def explain_equal_clock(data: dict[str, Any]) -> str | None:
    """What the step would be at the clock of before, where the clocks differ."""
    clock = data["equal_clock"]
    checked = next((c for c in data["checks"] if c["check"] == "clock"), None)
    if clock is None or checked is None or checked["effect"] == "ok":
        return None
    pct = 100 * (clock["ratio"] - 1)
    word = "slower" if pct > 0 else "faster"
    return (
        f"At equal clock it is {format_pct(abs(pct))} {word}, if all compute follows the clock "
        "(what memory bounds follows it less)."
    )


def _count_launches(told: str) -> str:
    return f"{told} launch" if told == "1" else f"{told} launches"


def explain_pair(row: dict[str, Any]) -> str:
    """What happened to a pair of operations, as a sentence; nothing of time in no operation."""
    where = " in ".join(t for t in (row["operator"], row["place"]) if t)
    launches = [row["before_instances"], row["after_instances"]]
    each = [
        row[f"{side}_total_ns"] / n if n else None
        for side, n in zip(("before", "after"), launches, strict=True)
    ]
    if not any(launches):
        return ""
    told = [_number(n) for n in launches]
    kind = row["kind"]
    if kind in ("appeared", "vanished"):
        at = kind == "appeared"
        text = f"{_count_launches(told[at])} a step, {format_ns(each[at])} each"
        return f"{text}, {where}" if where else text
    several = len(row["before_names"]) + len(row["after_names"]) > 2
    if kind in ("fused", "split") or (several and told[0] != told[1]):
        of = f" of {where}" if where else ""
        change = 100 * row["delta_ns"] / row["before_ns"] if row["before_ns"] else None
        return f"{told[0]} launches{of} became {told[1]}, {format_change_pct(change)}"
    text = f"{told[0]} → {told[1]} launches a step" if told[0] != told[1] else f"{told[0]} a step"
    text += f", {format_ns(each[0])} → {format_ns(each[1])} each"
    if kind == "replaced" and row["before_labels"] != row["after_labels"]:
        more = len(row["before_labels"]) - 1
        text = f"was {row['before_labels'][0]}{f' and {more} more' if more else ''}: {text}"
    return f"{text}, {where}" if where else text


def _number(value: float) -> str:
    """A mean count: whole where it is whole."""
    whole = round(value)
    return format_count(whole) if abs(value - whole) < 0.05 else f"{value:,.1f}"


def grade_certainty(row: dict[str, Any]) -> str:
    """Whether a pair's change is more than noise, in two words."""
    rate = row["false_discovery_rate"]
    if rate is None:
        return "new" if row["kind"] == "appeared" else "gone" if row["kind"] == "vanished" else ""
    if rate >= ALPHA:
        return "within noise"
    return "real" if row["level"] == "runs" else "differs here"


def _head(data: dict[str, Any], width: int) -> Iterator[Text]:
    first, second = describe_sides(data)
    yield Text(fit_text(first, width), style="bold")
    yield Text(fit_text(second, width))


def _verdict(data: dict[str, Any], width: int) -> Iterator[Text]:
    verdict = data["verdict"]
    style = _STYLES.get(verdict["word"], "bold")
    for line in wrap_text(write_verdict(data), "", "", width):
        line.stylize(style)
        yield line
    mark = "  · " if verdict["word"] == "not comparable" else ""
    for reason in verdict["reasons"]:
        sentence = reason if mark else f"{reason[:1].upper()}{reason[1:]}."
        yield from wrap_text(sentence, mark, " " * len(mark), width)
    needed = verdict["runs_needed"]
    if verdict["word"] == "no change" and needed and needed <= MAX_RUNS:
        yield from wrap_text(
            f"{format_several(needed, 'run')} a side would tell whether the "
            "difference that was measured is real.",
            "",
            "",
            width,
        )
    clock = explain_equal_clock(data)
    if clock is not None:
        yield from wrap_text(clock, "", "", width)


def _waterfall(data: dict[str, Any], width: int) -> Iterator[Text]:
    step = data["step"]
    known = any(run["source"] for side in data["sides"].values() for run in side)
    room = width - 58
    yield Text(f"{'':<{room}}{'before':>11}{'after':>11}{'change':>12}{'of step':>9}", style="dim")
    largest = max((abs(row["delta_ns"]) for row in data["waterfall"]), default=0)
    yield _amounts("mean step" if known else "recording", step, step, 0, room, "bold")
    causes = [p for p in data["pairs"] if p["part"] == "idle"]
    for row in data["waterfall"]:
        yield _amounts(f"  {PART_LABELS[row['part']]}", row, step, largest, room, "")
        if row["part"] == "idle":
            worth = [c for c in causes if abs(c["delta_ns"]) >= WORTH * step["before_ns"]]
            for cause in worth[:MAX_CAUSES]:
                yield _amounts(f"    {cause['label']}", cause, step, 0, room, "dim")


def _amounts(
    label: str,
    row: dict[str, Any],
    step: dict[str, Any],
    largest: int,
    room: int,
    style: str,
) -> Text:
    delta = row["delta_ns"]
    pct = 100 * delta / step["before_ns"] if step["before_ns"] else None
    text = Text(
        f"{fit_text(label, room):<{room}}{format_ns(row['before_ns']):>11}"
        f"{format_ns(row['after_ns']):>11}{format_change(delta):>12}{format_change_pct(pct):>9}",
        style=style,
    )
    if largest and delta:
        cells = max(1, round(BAR * abs(delta) / largest))
        text.append("  ")
        text.append("█" * cells if delta > 0 else "░" * cells, "red" if delta > 0 else "green")
    return text


def _pairs(data: dict[str, Any], width: int, prose: int) -> Iterator[Text]:
    least = WORTH * data["step"]["before_ns"]
    rows = [p for p in data["pairs"] if p["part"] != "idle" and abs(p["delta_ns"]) >= least]
    if not rows:
        return
    is_whole = all(check["check"] != LOST_KERNELS for check in data["checks"])
    heading = "What explains it" if is_whole else "What differs in the record: kernels were lost"
    yield Text(heading, style="bold")
    for row in rows[:MAX_PAIRS]:
        sure = grade_certainty(row)
        room = width - 12 - len(sure) - 2
        colour = "red" if row["delta_ns"] > 0 else "green"
        line = Text(f"{format_change(row['delta_ns']):>11} ", style=colour)
        label = fit_text(row["label"], room)
        line.append(f"{label:<{room}}" if sure else label, style="bold")
        line.append(f"  {sure}" if sure else "", style="dim")
        yield line
        for told in filter(None, (explain_pair(row), explain_shapes(row))):
            for text in wrap_text(told, " " * 12, " " * 12, prose):
                text.stylize("dim")
                yield text
    if len(rows) > MAX_PAIRS:
        rest = sum(row["delta_ns"] for row in rows[MAX_PAIRS:])
        yield Text(
            f"{format_change(rest):>11} {format_several(len(rows) - MAX_PAIRS, 'more pair')}: "
            "--json",
            style="dim",
        )


def explain_shift(shift: dict[str, Any]) -> str:
    """A cost that only moved, as a sentence."""
    return (
        f"under {shift['where']} some operations became {format_ns(shift['lost_ns'])} shorter "
        f"and others {format_ns(shift['won_ns'])} longer: {format_change(shift['net_ns'])} in all"
    )


def explain_shapes(row: dict[str, Any]) -> str | None:
    """Which launch shape of a pair changed most, where it is more than noise, as a sentence."""
    real = [
        shape
        for shape in row["shapes"]
        if shape["false_discovery_rate"] is not None and shape["false_discovery_rate"] < ALPHA
    ]
    if not real:
        return None
    most = max(real, key=lambda shape: abs(shape["after_launch_ns"] - shape["before_launch_ns"]))
    lengths = [format_ns(most[f"{side}_launch_ns"]) for side in ("before", "after")]
    sure = "real" if most["level"] == "runs" else "differs here"
    return (
        f"{len(real)} of {format_several(len(row['shapes']), 'launch shape')} changed; most "
        f"{most['shape']}: {lengths[0]} → {lengths[1]}, {sure}"
    )


def _shifts(data: dict[str, Any], width: int) -> Iterator[Text]:
    if not data["shifts"]:
        return
    yield Text("Cost that moved and is not a gain", style="bold")
    for shift in data["shifts"][:MAX_SHIFTS]:
        yield from wrap_text(explain_shift(shift), "  · ", "    ", width)


def list_host_changes(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Operators and ranges whose host time changed by a hundredth of the step."""
    step = max(data["step"]["before_ns"], data["step"]["after_ns"])
    return [row for row in data["host"] if abs(row["delta_ns"]) >= 10 * WORTH * step]


def _host(data: dict[str, Any], width: int) -> Iterator[Text]:
    rows = list_host_changes(data)
    if not rows:
        return
    room = width - 53
    yield Text(
        f"{'On the host, per step':<{room}}{'calls':>19}{'before':>11}{'after':>11}{'change':>12}",
        style="bold",
    )
    # Of several names the last: the ranges that enclose it come before.
    names = fit_texts([row["name"].split(" / ")[-1] for row in rows[:MAX_HOST]], room - 1)
    for row, name in zip(rows, names, strict=False):
        calls = f"{_number(row['before_calls'])} → {_number(row['after_calls'])}"
        amounts = "".join(f"{format_ns(row[f'{side}_ns']):>11}" for side in ("before", "after"))
        yield Text(f"{name:<{room}}{calls:>19}{amounts}{format_change(row['delta_ns']):>12}")
    if len(rows) > MAX_HOST:
        yield Text(f"{len(rows) - MAX_HOST} more: --json", style="dim")


def _findings(data: dict[str, Any], width: int) -> Iterator[Text]:
    rows = data.get("findings") or []
    if not rows:
        return
    room = width - 46
    yield Text(f"{'Findings, per step':<{room}}{'':>16}{'before':>15}{'after':>15}", style="bold")
    for row in rows[:MAX_FINDINGS]:
        costs = [format_cost(row, side) for side in ("before", "after")]
        title = fit_text(row["title"], room - 1)
        yield Text(f"{title:<{room}}{row['status']:>16}{costs[0]:>15}{costs[1]:>15}")
        if row["status"] == "fixed" and row["predicted_ns"]:
            yield Text(
                f"   predicted gain up to {format_ns(row['predicted_ns'])}; its cost fell by "
                f"{format_ns(row['realized_ns'])}",
                style="dim",
            )
    if len(rows) > MAX_FINDINGS:
        yield Text(f"{len(rows) - MAX_FINDINGS} more: --json", style="dim")


# The side on which a finding of this status was not found.
ABSENT = {"new": "before", "only after": "before", "fixed": "after", "only before": "after"}


def format_cost(row: dict[str, Any], side: str) -> str:
    """What a finding cost on a side, '-' where it was not judged; what costs 0 was not found."""
    if ABSENT.get(row["status"]) == side:
        return "not found"
    return format_ns(row[f"{side}_ns"])


def format_metric(value: float, unit: str) -> str:
    """A figure beside the step time with its unit."""
    if unit == "bytes":
        return format_bytes(value)
    return format_pct(value) if unit.startswith("%") else _number(value)


def _metrics(data: dict[str, Any]) -> Iterator[Text]:
    for row in data["metrics"]:
        one, other = (format_metric(row[k], row["unit"]) for k in ("before", "after"))
        if one != other:
            yield Text(f"{row['metric']} {one} → {other} {_unit(row['unit'])}".rstrip())


def _unit(unit: str) -> str:
    return "" if unit == "bytes" else unit.removeprefix("% ")


def _limits(data: dict[str, Any], width: int) -> Iterator[Text]:
    limits = [c["text"] for c in data["checks"] if c["effect"] == "limits"]
    if not limits:
        return
    yield Text("What limits this")
    for limit in limits:
        yield from wrap_text(limit, "  · ", "    ", width)


def write_halves(row: dict[str, Any]) -> str:
    """What came of comparing both halves of a recording's steps, as a line."""
    if row["differs"] is None:
        return (
            f"{row['name']}: {format_note(row['steps'], 'steps are too few')}, "
            f"{row['needed']} are needed"
        )
    change = format_change_pct(100 * (row["ratio"] - 1))
    word = "FALSE ALARM, or it drifts" if row["differs"] else "no difference, as it should be"
    return f"{row['name']}: {format_several(row['steps'], 'step')}, {change}, {word}"
