"""What a benchmark of collectives measured, as the table that nccl-tests prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from sightline.answer.bandwidth import FIGURES
from sightline.core.text import make_printable
from sightline.core.units import format_bytes, format_ns, format_several

_BENCHMARKS, _SIZES = 4, 16


_PLACEMENTS = ("out-of-place", "in-place")


def print_bandwidth(benchmarks: Sequence[dict[str, Any]]) -> Iterator[list[Text]]:
    """A table for each of the first benchmarks, of its largest sizes."""
    for number, benchmark in enumerate(benchmarks[:_BENCHMARKS], 1):
        lines = list(_print_one(benchmark))
        if number == _BENCHMARKS < len(benchmarks):
            left = format_several(len(benchmarks) - number, "more benchmark")
            lines.append(Text(f"… {left}: sightline stats bandwidth_by_size", style="dim"))
        yield lines


def _print_one(benchmark: dict[str, Any]) -> Iterator[Text]:
    placements = [p for p in _PLACEMENTS if any(p in row for row in benchmark["sizes"])]
    yield Text(make_printable(_name(benchmark)), style="bold")
    if len(placements) > 1:
        yield Text(f"{'':<11}" + "".join(f"{name:>33}" for name in placements), style="dim")
    heads = f"{'time':>11}{'algbw':>11}{'busbw':>11}" * len(placements)
    yield Text(f"{'size':>11}{heads}", style="dim")
    for row in benchmark["sizes"][-_SIZES:]:
        figures = "".join(_print_figures(row.get(name)) for name in placements)
        yield Text(f"{format_bytes(row['bytes']):>11}{figures}")
    if len(benchmark["sizes"]) > _SIZES:
        left = format_several(len(benchmark["sizes"]) - _SIZES, "row")
        yield Text(f"… {left} before these: sightline stats bandwidth_by_size", style="dim")
    wrong = sum(row[p]["wrong"] or 0 for row in benchmark["sizes"] for p in placements if p in row)
    if wrong:
        yield Text(format_several(wrong, "wrong element"), style="bold red")


def _name(benchmark: dict[str, Any]) -> str:
    """Such as 'all_reduce float sum, 8 ranks on 2 machines, busbw in GB/s'."""
    words = [benchmark["op"] or "collective", benchmark["dtype"], benchmark["reduction"]]
    name = " ".join(word for word in words if word and word != "none")
    if benchmark["group_size"]:
        name += f", {format_several(benchmark['group_size'], 'rank')}"
    if (benchmark["machines"] or 0) > 1:
        name += f" on {benchmark['machines']} machines"
    return f"{name}: bandwidth in GB/s"


def _print_figures(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return f"{'-':>11}" * 3
    rates = (figures[name] for name in FIGURES[1:3])
    shown = "".join(f"{'-' if rate is None else f'{rate:.2f}':>11}" for rate in rates)
    return f"{format_ns(figures['duration_ns']):>11}{shown}"
