"""A run in one line, and as a small HTML table: what an interpreter or a notebook shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from sightline.core.model.run_folder import FOLDER_ENDING
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_several

# What says most about a run, in this order, with the noun for one row of it.
_COUNTED = (
    ("device_ops", "GPU operation"),
    ("profiled_kernels", "profiled kernel"),
    ("host_ops", "CPU range"),
    ("stacks", "stack"),
)
_USES = ("run.findings()", "run.report()", 'run.ask("breakdown")', 'run.table("device_ops")')


class Described(Protocol):
    """What is needed of a run (core/model/run.py, which shows itself by this module)."""

    window: str | None

    def table(self, name: str) -> pl.DataFrame:
        """A table in memory."""

    def columns(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of a table."""

    def rows(self, name: str) -> int:
        """How many rows a table has."""

    def present(self) -> list[str]:
        """The tables that have rows."""


def describe_run(run: Described) -> list[str]:
    """Its recording, tool, devices, counts and window, each as a text; nothing is computed."""
    recordings = run.table("recordings").select("path", "rank", "tool").to_dicts()
    parts = name_recordings(recordings)
    parts += sorted({r["tool"] for r in recordings if r["tool"]})
    devices = _list_devices(run).get_column("name").to_list()
    if devices:
        kinds = sorted({fit_text(name or "GPU of unknown name", 48) for name in devices})
        parts.append(f"{len(devices)} × {', '.join(kinds)}")
    counts = [(run.rows(table), noun) for table, noun in _COUNTED]
    parts += [f"{format_count(n)} {noun}{'s' * (n != 1)}" for n, noun in counts if n][:2]
    if run.window is not None:
        parts.append(f"window {run.window}")
    return parts


def find_run_folder(recordings: Sequence[Mapping[str, Any]]) -> str | None:
    """The name of the run folder that holds all of them; None where there is no such folder.

    Its files are one execution: how many there are tells a person nothing.
    """
    folders = {Path(r["path"]).parent for r in recordings}
    name = folders.pop().name if len(folders) == 1 else ""
    return name if name.endswith(FOLDER_ENDING) else None


def count_recordings(recordings: Sequence[Mapping[str, Any]]) -> str | None:
    """How many recordings there are, or ranks of a run folder; None where it is one."""
    if find_run_folder(recordings) is None:
        return format_several(len(recordings), "recording") if len(recordings) > 1 else None
    ranks = len({r["rank"] for r in recordings})
    return format_several(ranks, "rank") if ranks > 1 else None


def name_recordings(recordings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The one recording's name, or the run folder's and its ranks, or how many they are."""
    name, several = find_run_folder(recordings), count_recordings(recordings)
    if name is None and several is None:
        name = Path(recordings[0]["path"]).name
    return [fit_text(part, 48) for part in (name, several) if part]


def _list_devices(run: Described) -> pl.DataFrame:
    """The devices that did something, or all that are known if none did."""
    place = ("rank", "device_id")
    devices = run.table("devices").select(*place, "name")
    if not run.rows("device_ops"):
        return devices
    used = run.columns("device_ops", place).unique()
    return devices.join(used, on=list(place), how="semi")


def write_repr(run: Described) -> str:
    """One line."""
    return f"<sightline run: {' · '.join(describe_run(run))}>"


def write_html(run: Described) -> str:
    """The line, its tables with their rows, and what can be asked."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td style='text-align:right'>{run.rows(name):,}</td></tr>"
        for name in run.present()
    )
    uses = " · ".join(f"<code>{escape(use)}</code>" for use in _USES)
    return (
        f"<div><b>{escape(' · '.join(describe_run(run)))}</b>"
        f"<details><summary>tables</summary><table><tr><th>table</th><th>rows</th></tr>{rows}"
        f"</table></details><div>{uses}</div></div>"
    )
