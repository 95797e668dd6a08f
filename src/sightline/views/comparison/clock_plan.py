"""A plan of clocks as data, and as lines for a terminal: commands that a person may give."""

from __future__ import annotations

from typing import Any

from sightline.core.units import format_pct, format_several
from sightline.fleet.answer import Answer
from sightline.fleet.clock_plan import ClockPlan, list_commands

_SHOWN = 64  # commands, as many as a plan has clocks of its own


def describe_plan(plan: ClockPlan) -> dict[str, Any]:
    """All of it."""
    return {
        "highest_mhz": plan.highest_mhz,
        "length_ns": plan.length_ns,
        "energy_j": plan.energy_j,
        "saved_j": plan.saved_j,
        "saved_j_least": plan.saved_j_least,
        "saved_j_most": plan.saved_j_most,
        "longer_pct": 100 * plan.longer,
        "longer_least_pct": 100 * plan.longer_least,
        "longer_most_pct": 100 * plan.longer_most,
        "ranks": plan.rows.to_dicts(),
        "commands": [command for _, command in list_commands(plan)],
    }


def draw_plan(plan: ClockPlan, answer: Answer) -> list[str]:
    """What it saves and risks, and the commands, by the recordings whose GPUs they are of."""
    commands = list_commands(plan)
    if not commands:
        return ["Clocks: no rank waits long enough to run slower at no cost."]
    seconds = plan.length_ns / 1e9
    saved, least, most = (
        f"{format_pct(100 * joules / plan.energy_j)} ({joules / seconds:,.0f} W)"
        for joules in (plan.saved_j, plan.saved_j_least, plan.saved_j_most)
    )
    lines = [
        f"Clocks: {format_several(len(commands), 'rank')} of {len(answer.job.ranks)} could run "
        "slower while they would wait",
        f"  saves    {saved} of the GPUs' energy; 95 %: {least} to {most}",
        f"  at risk  the job takes {format_pct(100 * plan.longer)} longer; "
        f"{format_pct(100 * plan.longer_least)} to {format_pct(100 * plan.longer_most)}",
        "  Nothing is changed here. On the nodes, as root:",
    ]
    names = dict(answer.excess.select("rank", "recording").iter_rows())
    for rank, command in commands[:_SHOWN]:
        lines.append(f"    {command:<32}# rank {rank}, {names.get(rank) or ''}".rstrip(" ,"))
    if len(commands) > _SHOWN:
        lines.append(f"    … {len(commands) - _SHOWN} more:  --json")
    return [*lines, "    nvidia-smi -rgc                 # undoes it"]
