"""What is said of programs beside what the clock says of them, measured without a profiler.

    python tests/support/clock_truth.py FOLDER...

Each folder holds `truth.jsonl` (name, step_ns_before, step_ns_after, rounds, gain_pct) and the
recordings NAME.before and NAME.after, .json.gz or .sightline. Prints three tables: a step as
recorded and as estimated without the recorder, what `compare` says of each pair, and what the first
finding of each program before its fix would gain.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sightline
from sightline.compare.comparison import compare_samples
from sightline.compare.sample import take_sample
from sightline.core.model.run import Run
from sightline.replay.unrecorded import remove_recorder
from sightline.timeline.step_clock import list_steady_steps

NEAR, HOST_NEAR, POINTS = 0.10, 0.15, 10.0
GAIN_NEAR, GAIN_POINTS = 0.15, 5.0


@dataclass(frozen=True)
class Side:
    """One recording's step, ns: by the clock, recorded, estimated, and the estimate's range."""

    name: str
    rounds: tuple[int, ...]
    clock: int
    recorded: int
    estimate: int
    low: int
    high: int
    is_host_bound: bool

    @property
    def ratio(self) -> float:
        """The estimate over the clock's."""
        return self.estimate / self.clock

    @property
    def is_near(self) -> bool:
        """Within 10 % of the clock's, or within the range of its rounds."""
        return abs(self.ratio - 1) <= NEAR or min(self.rounds) <= self.estimate <= max(self.rounds)

    @property
    def is_covered(self) -> bool:
        """Whether the range meets the range of the rounds."""
        return self.low <= max(self.rounds) and min(self.rounds) <= self.high


def read_truth(folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Path]]]:
    """The programs of a folder with their recordings, by side."""
    for line in (folder / "truth.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield (
            row,
            {
                side: path
                for side in ("before", "after")
                for ending in (".json.gz", ".sightline")
                if (path := folder / f"{row['name']}.{side}{ending}").exists()
            },
        )


def measure_side(row: dict[str, Any], side: str, path: Path) -> Side | None:
    """The step of one recording; None where it has none that one could be sure of."""
    run: Run = sightline.open(str(path))
    steps = list_steady_steps(run)
    sure = steps.filter(steps.get_column("confidence") != "low")
    if sure.is_empty() or not row.get(f"step_ns_{side}"):
        return None
    whole = sure.get_column("end_ns") - sure.get_column("start_ns")
    recorded = round(float(whole.sum()) / sure.height)
    known = remove_recorder(run)
    rounds = tuple(row["rounds"][side])
    clock, name = int(row[f"step_ns_{side}"]), f"{row['name']} {side}"
    if known is None:
        low, high = round(0.95 * recorded), round(1.05 * recorded)
        return Side(name, rounds, clock, recorded, recorded, low, high, is_host_bound=False)
    return Side(
        name, rounds, clock, recorded, known.ns, known.low_ns, known.high_ns, is_host_bound=True
    )


def compare_pair(before: Path, after: Path) -> tuple[str, float]:
    """The verdict of `compare`, and the change of a step, %."""
    samples = [take_sample(sightline.open(str(p)), p.name) for p in (before, after)]
    data = compare_samples(samples[:1], samples[1:])
    step = data["step"]
    return data["verdict"]["word"], 100 * (step["after_ns"] / step["before_ns"] - 1)


def find_first(path: Path) -> tuple[str, float]:
    """The rule of the first finding above a remark, and its gain, %."""
    found = sightline.findings(sightline.open(str(path)))
    said = [f for f in found if not f.abstained and f.severity != "info"]
    return (said[0].rule, said[0].gain_pct or 0.0) if said else ("none", 0.0)


def print_gains(found: list[tuple[dict[str, Any], str, float]]) -> None:
    """The table of first findings, and how many gains are near the clock's."""
    print("| program | clock, % | first finding | its gain, % |")
    print("|---|---:|---|---:|")
    close = 0
    for row, rule, gain in found:
        is_near = abs(gain - row["gain_pct"]) <= max(GAIN_POINTS, GAIN_NEAR * row["gain_pct"])
        close += is_near
        mark = "" if is_near else " ×"
        print(f"| {row['name']} | {row['gain_pct']:.1f} | `{rule}` | {gain:.1f}{mark} |")
    print()
    print(f"within 15 % of the clock's, or 5 points: {close} of {len(found)}")


def main(folders: list[str]) -> None:
    """Print the tables."""
    sides, pairs, first = [], [], []
    for folder in map(Path, folders):
        for row, paths in read_truth(folder):
            if row.get("gain_pct") and "before" in paths:
                first.append((row, *find_first(paths["before"])))
            if "rounds" not in row:  # steps of C++ programs are not marked
                continue
            for side, path in paths.items():
                if (measured := measure_side(row, side, path)) is not None:
                    sides.append(measured)
            if len(paths) == 2 and row.get("gain_pct"):
                pairs.append((row, *compare_pair(paths["before"], paths["after"])))
    print("| step | clock, ms | recorded | estimate (range) | estimate / clock |")
    print("|---|---:|---:|---:|---:|")
    for s in sides:
        clock, recorded, low, high = (ns / 1e6 for ns in (s.clock, s.recorded, s.low, s.high))
        estimate = f"{s.estimate / 1e6:.2f} ({low:.2f} to {high:.2f})" if s.is_host_bound else "="
        mark = "" if s.is_near else " ×"
        print(f"| {s.name} | {clock:.2f} | {recorded:.2f} | {estimate} | {s.ratio:.2f}{mark} |")
    host = [s for s in sides if s.is_host_bound]
    print()
    print(
        f"near the clock's (10 %, or its rounds): {sum(s.is_near for s in sides)} of {len(sides)}"
    )
    near = sum(abs(s.ratio - 1) <= HOST_NEAR or s.is_near for s in host)
    print(f"of those with a recorder's cost, within 15 % or its rounds: {near} of {len(host)}")
    print(f"range meets the clock's rounds: {sum(s.is_covered for s in sides)} of {len(sides)}")
    print()
    print("| pair | clock, % | compare, % | verdict |")
    print("|---|---:|---:|---|")
    for row, word, change in pairs:
        print(f"| {row['name']} | {-row['gain_pct']:+.1f} | {change:+.1f} | {word} |")
    close = sum(abs(change + row["gain_pct"]) <= POINTS for row, _, change in pairs)
    wrong = sum(change * -row["gain_pct"] < 0 for row, _, change in pairs)
    print()
    print(f"within {POINTS:.0f} points: {close} of {len(pairs)}, wrong sign: {wrong}")
    print()
    print_gains(first)


if __name__ == "__main__":
    main(sys.argv[1:])
