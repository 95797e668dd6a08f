"""Both halves of the steps of real recordings against each other: nothing changed between them.

    python scripts/compare_halves.py [FOLDER…]

By default of the recordings beside the checkout (../shared/corpus), and without those that have
fewer steps than a test needs. Steps are marked ones, else those that were found (`--window steady`:
also where that is unsure). Prints a row for each, and the share of alarms. An alarm need not be a
false one: the last column is the rank correlation of a step's length with its place, which no half
knows of. Where that is far from chance, the program truly drifts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scipy.stats import spearmanr

from sightline.compare.sample import take_sample
from sightline.compare.self_test import compare_halves
from sightline.errors import InputError, SightlineError
from sightline.opening.run import open_run

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
MAX_BYTES = 60_000_000


def list_files(folders: Sequence[Path]) -> Iterator[Path]:
    """All files that may be recordings, in order."""
    for folder in folders:
        files = [folder] if folder.is_file() else sorted(folder.rglob("*"))
        for path in files:
            if path.is_file() and 1000 < path.stat().st_size <= MAX_BYTES:
                yield path


def test_recording(path: Path, window: str | None) -> dict[str, object] | None:
    """The row of a recording, or None where it has no steps that can be halved."""
    try:
        run = open_run([str(path)])
        sample = take_sample(run.with_window(window), path.name)
    except (InputError, SightlineError):
        return None
    row = compare_halves(sample)
    if row["differs"] is None:
        return None
    drift = spearmanr(range(len(sample.steps)), sample.steps)
    return {**row, "source": sample.source, "rho": drift.statistic, "drift_p": drift.pvalue}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--window", help="steady: also steps that are unsure")
    args = parser.parse_args()
    folders = args.folders or [CORPUS]
    rows = []
    print(f"{'recording':<48}{'steps':>7}  {'source':<14}{'change':>9}{'p':>8}  drift")
    for path in list_files(folders):
        row = test_recording(path, args.window)
        if row is None:
            continue
        rows.append(row)
        alarm = "  differs" if row["differs"] else ""
        drift = f"{row['rho']:+.2f} (p {row['drift_p']:.1g})"
        change = 100 * (float(str(row["ratio"])) - 1)
        print(
            f"{path.name[-47:]:<48}{row['steps']:>7}  {row['source'] or '':<14}{change:>+8.2f}%"
            f"{float(str(row['p_value'])):>8.3f}  {drift}{alarm}",
            flush=True,
        )
    alarms = sum(bool(row["differs"]) for row in rows)
    share = 100 * alarms / max(len(rows), 1)
    print(f"{len(rows)} recordings, {alarms} differ: {share:.1f} %")
    sys.exit(0 if rows else 2)


if __name__ == "__main__":
    main()
