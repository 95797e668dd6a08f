"""One simulated program in every format: the breakdown and the first finding of each.

    scripts/same_program.py

Prints the table of docs/accuracy.md, "The same program in every format". The recordings are
written by tests/support/one_program.py, from the formats' descriptions.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sightline
from sightline.core.units import format_ns

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.one_program import TRUTH, WRITERS

PARTS = ("compute_ns", "exposed_copy_ns", "idle_ns", "window_ns")


def main() -> int:
    print("| format | compute | copies | idle | window | first finding | fix gains up to |")
    print("|---|---|---|---|---|---|---|")
    print(f"| the program | {' | '.join(f'{TRUTH[p]:,} ns' for p in PARTS)} | | |")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, write) in enumerate(WRITERS.items()):
            place = Path(folder) / str(number)
            place.mkdir()
            run = sightline.open(str(write(place)))
            found = run.ask("breakdown").row(0, named=True)
            cells = [_compare(found[part], TRUTH[part]) for part in PARTS]
            first = next(f for f in run.findings() if not f.abstained)
            gain = "—" if first.gain_ns is None else format_ns(first.gain_ns)
            print(f"| {name} | {' | '.join(cells)} | {first.rule} | {gain} |")
    return 0


def _compare(found: int, true: int) -> str:
    return "equal" if found == true else f"{found - true:+,} ns"


if __name__ == "__main__":
    sys.exit(main())
