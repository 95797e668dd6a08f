"""What `sightline try` came to, for a person: which is faster, by how much, why, what is open."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rich.text import Text

from sightline.core.text import fit_text, fit_texts
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.views.comparison.comparison import (
    MOST,
    PROSE,
    WIDTH,
    format_change_pct,
    render_causes,
)
from sightline.views.terminal.screen import format_amount, wrap_text

_STYLES = {"faster": "bold green", "slower": "bold red", "same": "bold", "open": "bold yellow"}
_MOST_DISTURBANCES = 6
_NAME = 24  # columns
_MOST_FUNCTIONS = 5
_WIDE = 100.0  # %: an interval that reaches so far says nothing


def render_trial(data: dict[str, Any], width: int = WIDTH) -> Text:
    """The whole screen: the answer, the variants, why, what limits it, what would tell more."""
    width = min(max(width, WIDTH), MOST)
    prose = min(width, PROSE)
    blocks = [
        list(_answer(data, prose)),
        list(_variants(data, width)),
        list(_limits(data, prose)),
        list(_next(data, prose)),
        list(_why(data, prose)),
    ]
    text = Text("\n\n").join(Text("\n").join(block) for block in blocks if block)
    why = data.get("why")
    if why is None or why["comparison"] is None:
        return text
    return Text("\n\n").join([text, render_causes(why["comparison"], width)])


def describe_pair(pair: dict[str, Any], data: dict[str, Any]) -> str:
    """One difference as a sentence: 'B is 12.3 % faster than A (95 % interval: …)'."""
    one, other = pair["variant"], pair["against"]
    interval, share = _write_interval(pair), format_pct(abs(pair["change_pct"]))
    if pair["answer"] in ("faster", "slower"):
        if data["unit"] == "ns":
            return f"{one} is {share} {pair['answer']} than {other}{interval}."
        word = "higher" if pair["change_pct"] > 0 else "lower"
        return f"The value of {one} is {share} {word} than that of {other}{interval}."
    if pair["answer"] == "same":
        reach = max(abs(pair["low_pct"]), abs(pair["high_pct"]))
        return f"{one} and {other} are the same within ±{format_pct(reach)}{interval}."
    return (
        f"{one} and {other} cannot be told apart yet: {format_change_pct(pair['change_pct'])}"
        f"{interval}."
    )


def _write_interval(pair: dict[str, Any]) -> str:
    if pair["low_pct"] is None:
        return ""
    low, high = (format_change_pct(pair[key]) for key in ("low_pct", "high_pct"))
    return f" (95 % interval {low} to {high})"


def format_value(value: float, unit: str) -> str:
    """A time, or a number that a program printed."""
    return format_ns(value) if unit == "ns" else f"{value:.5g}"


def _answer(data: dict[str, Any], width: int) -> Iterator[Text]:
    first = data["variants"][0]["name"]
    pairs = [pair for pair in data["differences"] if pair["against"] == first]
    for pair in pairs:
        for line in wrap_text(describe_pair(pair, data), "", "  ", width):
            line.stylize(_STYLES[pair["answer"]])
            yield line
    if len(pairs) > 1:
        yield from wrap_text(_name_best(data), "", "  ", width)


def _name_best(data: dict[str, Any]) -> str:
    """Which of several is best, and which of the others it cannot be told from."""
    best = data["fastest"]
    close = [
        pair["against"] if pair["variant"] == best else pair["variant"]
        for pair in data["differences"]
        if best in (pair["variant"], pair["against"]) and pair["answer"] in ("same", "open")
    ]
    word = "Fastest" if data["unit"] == "ns" else "Best"
    if not close:
        return f"{word}: {best}, surely."
    return f"{word}: {best}, though not surely before {' and '.join(close)}."


def _variants(data: dict[str, Any], width: int) -> Iterator[Text]:
    rows = data["variants"]
    names = fit_texts([row["name"] for row in rows], _NAME)
    room = max(map(len, [*names, "variant"]))
    header = "mean" if data["unit"] == "ns" else "value"
    yield Text(
        f"{'variant':<{room}} {header:>10} {'least':>10} {'most':>10} {'varies':>8} {'runs':>5}"
        f" {'CPU time':>10}",
        style="dim",
    )
    for row, name in zip(rows, names, strict=True):
        values = [format_value(row[key], data["unit"]) for key in ("mean", "least", "most")]
        varies = "-" if row["spread_pct"] is None else format_pct(row["spread_pct"])
        yield Text(
            f"{name:<{room}} {values[0]:>10} {values[1]:>10} {values[2]:>10} {varies:>8}"
            f" {row['runs']:>5} {format_ns(row['cpu_ns']):>10}",
            style="bold" if row["name"] == data["fastest"] else "",
        )
    for row, name in zip(rows, names, strict=True):
        yield Text(fit_text(f"{name}: {row['command']}", width), style="dim")
    if any(row["exit_codes"] != [0] for row in rows):
        codes = "; ".join(
            f"{row['name']}: {', '.join(map(str, row['exit_codes']))}" for row in rows
        )
        yield from wrap_text(f"Exit codes: {codes}.", "", "  ", width)
    peaks = [row["peak_bytes"] for row in rows]
    if max(peaks) > 1.1 * min(peaks):  # a tenth more host memory is worth a line (ours)
        told = ", ".join(
            f"{name} {format_bytes(peak)}" for name, peak in zip(names, peaks, strict=True)
        )
        yield from wrap_text(f"Peak host memory: {told}.", "", "  ", width)


def _why(data: dict[str, Any], width: int) -> Iterator[Text]:
    why = data.get("why")
    if why is None:
        return
    if why["problem"] is not None:
        yield from wrap_text(f"The reason is not known: {why['problem']}.", "", "  ", width)
        return
    yield Text(fit_text(f"Why: {why['before']} → {why['after']}", width), style="bold")
    if why["functions"]:
        yield from _functions(why["functions"], width)
        return
    yield from wrap_text(
        "One recorded run of each, compared below: its times include the cost of recording, and "
        "one run of each is less precise than the runs above.",
        "",
        "",
        width,
    )


def _functions(rows: list[dict[str, Any]], width: int) -> Iterator[Text]:
    room = width - 36
    yield Text(f"{'own time, sampled once':<{room}}{'before':>12}{'after':>12}{'change':>12}")
    for row in rows[:_MOST_FUNCTIONS]:
        sides = [format_amount(row[side], row["unit"]) for side in ("before", "after")]
        change = row["after"] - row["before"]
        told = f"{'+' if change > 0 else '−'}{format_amount(abs(change), row['unit'])}"
        name = fit_text(row["name"], room - 1)
        yield Text(f"{name:<{room}}{sides[0]:>12}{sides[1]:>12}{told:>12}")


def _limits(data: dict[str, Any], width: int) -> Iterator[Text]:
    found = data["disturbances"][:_MOST_DISTURBANCES]
    if not found:
        return
    yield Text("What limits this", style="bold")
    for sentence in found:
        yield from wrap_text(sentence, "  · ", "    ", width)


def _next(data: dict[str, Any], width: int) -> Iterator[Text]:
    rounds = data["rounds"] - data["warmup_rounds"]
    order = f"order by seed {data['seed']}" if "seed" in data else "in random order"
    yield from wrap_text(
        f"{format_several(rounds, 'round')} of each variant once, {order}; ended because "
        f"{_STOPPED[data['stopped']]}.",
        "",
        "",
        width,
    )
    first = data["variants"][0]["name"]
    for pair in data["differences"]:
        if pair["against"] == first and not pair["is_known"]:
            yield from wrap_text(_foresee(pair, data), "", "  ", width)


def _foresee(pair: dict[str, Any], data: dict[str, Any]) -> str:
    """What it would take to know more of a difference."""
    apart, known = pair["rounds_to_tell_apart"], pair["rounds_to_know"]
    to = f"±{format_pct(pair['aim_pct'])}"
    name = f"{pair['variant']} against {pair['against']}"
    if known is None:
        return (
            f"{name}: how many rounds would know it to {to} cannot be predicted, or is more than "
            "10,000. Let each run do more work, so that it varies less."
        )
    parts = [f"{_format_rounds(known, data)} to know it to {to} (--runs {data['rounds'] + known})"]
    if pair["answer"] == "open" and apart is not None and apart < known:
        told = f"{_format_rounds(apart, data)} to tell them apart"
        parts.insert(0, f"{told}, if it stays at {format_change_pct(pair['change_pct'])}")
    return f"{name}: about {'; '.join(parts)}."


def _format_rounds(count: int, data: dict[str, Any]) -> str:
    return f"{format_several(count, 'more round')} ({_format_time(count * data['round_ns'])})"


_STOPPED = {
    "decided": "the differences are known well enough",
    "all runs made": "all runs that --runs allows were made",
    "time is up": "another round would not have ended in time (--seconds)",
    "interrupted": "it was interrupted",
}


def _format_time(ns: float) -> str:
    seconds = ns / 1e9
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 1 else "under a second"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def describe_round(data: dict[str, Any], width: int = WIDTH) -> str:
    """One line of progress: what the last round took, and how variants differ so far."""
    count = len(data["variants"])
    last = {run["variant"]: run["value"] for run in data["runs"][-count:]}
    first = data["variants"][0]["name"]
    pairs = [pair for pair in data["differences"] if pair["against"] == first]
    # Of two both values; of more the first, and how the others differ, in their order.
    named = [first, pairs[0]["variant"]] if len(pairs) == 1 else [first]
    values = [f"{name} {format_value(last[name], data['unit'])}" for name in named]
    changes = [format_change_pct(pair["change_pct"]) for pair in pairs]
    reach = max((_find_reach(pair) for pair in pairs), default=math.inf)
    sure = f"(±{format_pct(reach)})" if reach < _WIDE else "(not known yet)"
    return fit_text("  ".join([f"{data['rounds']:>5}", *values, *changes, sure]), width)


def _find_reach(pair: dict[str, Any]) -> float:
    if pair["low_pct"] is None:
        return math.inf
    return float(pair["high_pct"] - pair["low_pct"]) / 2
