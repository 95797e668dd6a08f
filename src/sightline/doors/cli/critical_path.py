"""What the run's length is made of: the critical path, its kinds, and slack.

sightline critical-path trace.json
sightline critical-path rank*.json --json     the shares, and every piece
sightline stats critical_path trace.json      the pieces as a table
sightline stats slack trace.json              how much longer each could take
"""

from __future__ import annotations

import argparse

from sightline.core.units import format_several
from sightline.doors.cli._output import add_target, encode_json, wants_json
from sightline.doors.cli._shared import add_recordings, open_recordings

HELP = "the critical path, and the slack of everything else"

TOP = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    import textwrap

    from sightline.answer.critical_path import describe_path, name_pieces, sum_pieces
    from sightline.answer.path_notes import list_path_notes
    from sightline.core.text import fit_text
    from sightline.core.units import format_count, format_ns, format_pct
    from sightline.timeline.run_labels import label_run_kernels
    from sightline.timeline.segments import select_repeating

    opened = open_recordings(args)
    if wants_json(args):
        print(encode_json(describe_path(opened)).decode(), end="")
        return 0
    run = select_repeating(opened)
    pieces = run.ask("critical_path")
    whole = max(int(pieces.get_column("duration_ns").sum()), 1)
    shares = sum_pieces(pieces, ["part"])
    print(f"critical path {format_ns(whole)}, {format_several(pieces.height, 'piece')}\n")
    for part, n, ns in shares.rows():
        print(
            f"{part:<24}{format_pct(100 * ns / whole):>9}{format_ns(ns):>12}{format_count(n):>10}"
        )
    for note in list_path_notes(run, pieces):
        print(textwrap.fill(note, 80))
    print("\nLargest on the path")
    largest = sum_pieces(name_pieces(run, pieces), ["part", "name"]).head(TOP)
    # A range is no kernel: what stands in its brackets is its name, too.
    labels = label_run_kernels(run)
    for part, name, _, ns in largest.rows():
        label = fit_text(labels.get(name, name), 34)
        print(f"  {label:<36}{part:<22}{format_pct(100 * ns / whole):>8}{format_ns(ns):>12}")
    print("\nSlack: how much longer each could take at no cost (median)")
    slack = run.ask("slack").head(TOP)
    for row in slack.iter_rows(named=True):
        critical = f"{format_count(row['critical'])} of {format_count(row['instances'])} critical"
        label = fit_text(labels.get(row["name"], row["name"]), 34)
        print(f"  {label:<36}{format_ns(row['median_slack_ns']):>12}   {critical}")
    return 0
