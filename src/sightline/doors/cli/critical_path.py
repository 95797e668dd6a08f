"""What the run's length is made of: the critical path, its kinds, and slack.

sightline critical-path trace.json
sightline critical-path rank*.json --json     the shares, and every piece
sightline stats critical_path trace.json      the pieces as a table
sightline stats slack trace.json              how much slower each may become
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._output import add_target, wants_json
from sightline.doors.cli._shared import add_recordings, open_recordings

if TYPE_CHECKING:
    import polars as pl

HELP = "the critical path, and the slack of everything else"

TOP = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    import json

    import polars as pl

    from sightline.core.kernel_labels import label_kernels
    from sightline.core.text import fit_text
    from sightline.core.units import format_count, format_ns, format_pct

    run = open_recordings(args)
    pieces = run.ask("critical_path")
    whole = max(int(pieces.get_column("duration_ns").sum()), 1)
    shares = _shares(pieces, ["part"])
    if wants_json(args):
        data = {
            "path_ns": whole,
            "parts": shares.with_columns(pct=100 * pl.col("total_ns") / whole).to_dicts(),
            "pieces": pieces.to_dicts(),
        }
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    print(f"critical path {format_ns(whole)}, {format_count(pieces.height)} pieces\n")
    for part, n, ns in shares.rows():
        print(
            f"{part:<24}{format_pct(100 * ns / whole):>9}{format_ns(ns):>12}{format_count(n):>10}"
        )
    print("\nLargest on the path")
    largest = _shares(pieces, ["part", "name"]).head(TOP)
    labels = label_kernels(largest.get_column("name"))
    for part, name, _, ns in largest.rows():
        label = fit_text(labels[name], 34)
        print(f"  {label:<36}{part:<22}{format_pct(100 * ns / whole):>8}{format_ns(ns):>12}")
    print("\nSlack: how much slower it may become before the run gets longer (median)")
    slack = run.ask("slack").head(TOP)
    labels = label_kernels(slack.get_column("name"))
    for row in slack.iter_rows(named=True):
        critical = f"{format_count(row['critical'])} of {format_count(row['instances'])} critical"
        label = fit_text(labels[row["name"]], 34)
        print(f"  {label:<36}{format_ns(row['median_slack_ns']):>12}   {critical}")
    return 0


def _shares(pieces: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    import polars as pl

    return (
        pieces.group_by(by)
        .agg(pieces=pl.len(), total_ns=pl.col("duration_ns").sum())
        .sort("total_ns", *by, descending=[True] + [False] * len(by))
    )
