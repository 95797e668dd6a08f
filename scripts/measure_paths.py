"""Print on what the critical path of each recording rests: recorded, inferred, guessed, nothing.

    python scripts/measure_paths.py [CORPUS] [--least PCT]

CORPUS is the folder of the recordings; those without device operations are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

import sightline
from sightline.errors import SightlineError

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
FOLDERS = ("kineto", "nsys", "rocpd", "rocprofv3")
ENDINGS = (".json", ".json.gz", ".sqlite", ".nsys-rep", ".db", "_kernel_trace.csv")
NOTHING = "not explained"


def list_recordings(corpus: Path) -> list[Path]:
    """Timelines of the corpus, in order of their names."""
    files = (f for name in FOLDERS for f in (corpus / name).rglob("*"))
    return sorted(f for f in files if f.is_file() and f.name.endswith(ENDINGS))


def measure_bases(path: Path) -> tuple[int, dict[str, float]] | None:
    """The path's length (ns) and the share of each basis (%); None where there is none."""
    try:
        run = sightline.open(str(path))
        if not run.rows("device_ops"):
            return None
        pieces = run.ask("critical_path")
    except SightlineError:
        return None
    whole = pieces.get_column("duration_ns").sum()
    if not whole:
        return None
    by = pieces.group_by(pl.col("basis").fill_null(NOTHING)).agg(pl.col("duration_ns").sum())
    return whole, {basis: 100 * ns / whole for basis, ns in by.rows()}


def main() -> None:
    """One line for each recording, the least explained first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--least", type=float, default=0.0, help="leave out what has less, %%")
    args = parser.parse_args()
    rows = [
        (path, *found) for path in list_recordings(args.corpus) if (found := measure_bases(path))
    ]
    rows.sort(key=lambda row: (-row[2].get(NOTHING, 0.0), row[0]))
    print(f"{NOTHING:>14}{'guessed':>9}{'inferred':>10}{'path':>14}  recording")
    for path, whole, shares in rows:
        nothing, guessed, inferred = (
            shares.get(basis, 0.0) for basis in (NOTHING, "guessed", "inferred")
        )
        if nothing >= args.least:
            print(
                f"{nothing:13.2f} {guessed:8.2f} {inferred:9.2f} "
                f"{whole / 1e6:10.3f} ms  {path.relative_to(args.corpus)}"
            )
    explained = sum(row[2].get(NOTHING, 0.0) <= 3.0 for row in rows)
    print(f"not explained in at most 3 % of the path: {explained} of {len(rows)}")


if __name__ == "__main__":
    main()
