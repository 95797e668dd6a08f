"""How often `sightline compare` is right: pairs of simulated programs whose change is known.

The recordings are those of tests/compare/programs.py: runs off by 1 %, steps off by 1 % that follow
each other by 0 to 0.6. Beside it, on the same steps, what others would say: Welch's t-test and a
bootstrap over all steps, and Apache Otava where it is installed. With --quick a tenth of the pairs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compare.programs import KERNELS, Program, write_runs
from sightline.compare.comparison import compare_samples
from sightline.compare.sides import open_side

PAIRS = 300
ALPHA = 0.05


@dataclass(frozen=True)
class Pair:
    """Two programs, what was planted, and which kernel it is in."""

    kind: str
    before: Program
    after: Program
    runs: int
    culprit: str | None = None

    @property
    def change(self) -> float:
        """How much longer a step is, as a share, without noise."""
        return self.after.step_us / self.before.step_us - 1


def list_pairs(count: int) -> Iterator[Pair]:
    """Pairs over kinds of change, sizes, noise and numbers of runs; the same each time."""
    dice = random.Random("pairs")
    kinds = (
        "nothing",
        "nothing",
        "kernel",
        "kernel",
        "fusion",
        "synchronization",
        "clock",
        "ranks",
    )
    for number in range(count):
        kind = kinds[number % len(kinds)]
        size = 10 ** dice.uniform(-1, 1)
        program = Program(
            kernels={k: v * size for k, v in KERNELS.items()},
            steps=dice.choice([12, 30]),
            follows=dice.choice([0.0, 0.3, 0.6]),
            step_noise=dice.choice([0.002, 0.01, 0.03]),
            clock_mhz=1400.0 if kind == "clock" else None,
        )
        runs = dice.choice([3, 5])
        after, culprit = program, None
        if kind == "kernel":
            culprit = dice.choice(list(KERNELS))
            factor = 1 + dice.choice([-1, 1]) * dice.uniform(0.05, 0.5)
            after = program.slowed(culprit, factor)
        elif kind == "fusion":
            after = program.fused("layer_norm", "elementwise_add", dice.uniform(0.4, 0.8))
            culprit = "triton_poi_fused_add_native_layer_norm_0"
        elif kind == "synchronization":
            after = replace(program, sync_us=program.step_us * dice.uniform(0.05, 0.3))
            culprit = "idle"
        elif kind == "clock":
            ratio = dice.uniform(0.8, 0.92)
            after = replace(program, clock=ratio, clock_mhz=1400.0 * ratio)
        elif kind == "ranks":
            after = replace(program, world=4)
        yield Pair(kind, program, after, runs, culprit)


def judge_pair(pair: Pair, folder: Path, seed: str) -> dict[str, bool | float]:
    """What came of a pair: `right`, `decided`, `culprit`; of a flat one, who raised an alarm."""
    sides = [
        open_side(write_runs(folder / name, program, pair.runs, f"{seed} {name}"))
        for name, program in (("before", pair.before), ("after", pair.after))
    ]
    data = compare_samples(*sides)
    word = data["verdict"]["word"]
    steps = [[x for sample in side for x in sample.steps] for side in sides]
    if pair.kind in ("clock", "ranks"):
        clock = data["equal_clock"]
        fair = pair.kind == "ranks" or abs(clock["ratio"] - 1) < 0.05
        return {"right": word == "not comparable" and fair, "decided": True}
    if pair.kind == "nothing":
        return {"right": word == "no change", "decided": True} | {
            name: test(*steps) for name, test in OTHERS.items()
        }
    wanted = "slower" if pair.change > 0 else "faster"
    # What lies below the resolution that was stated is rightly not seen.
    hidden = 100 * abs(pair.change) <= data["verdict"]["visible_pct"]
    first = next(p for p in data["pairs"] if pair.culprit == "idle" or p["part"] != "idle")
    named = first["part"] == "idle" if pair.culprit == "idle" else first["label"] == pair.culprit
    return {
        "right": word == wanted or (hidden and word == "no change"),
        "decided": word == wanted,
        "culprit": named,
    }


def test_welch(before: list[float], after: list[float]) -> bool:
    """Whether Welch's t-test over all steps sees a change."""
    return bool(stats.ttest_ind(before, after, equal_var=False).pvalue < ALPHA)


def test_bootstrap(before: list[float], after: list[float]) -> bool:
    """Whether zero lies outside the middle 95 % of 1,000 resampled differences of means."""
    dice = random.Random(0)
    found = sorted(
        fmean(dice.choices(after, k=len(after))) - fmean(dice.choices(before, k=len(before)))
        for _ in range(1000)
    )
    return not found[25] <= 0 <= found[974]


def test_otava(before: list[float], after: list[float]) -> bool:
    """Whether Apache Otava sees a change point in the steps one after the other, as it is set."""
    from otava.analysis import compute_change_points

    points, _ = compute_change_points([*before, *after], window_len=50, max_pvalue=0.001)
    return bool(points)


OTHERS: dict[str, Callable[[list[float], list[float]], bool]] = {
    "Welch": test_welch,
    "bootstrap": test_bootstrap,
}
try:
    import otava  # noqa: F401

    OTHERS["Otava"] = test_otava
except ImportError:
    pass


def prove(count: int) -> dict[str, list[dict[str, bool | float]]]:
    """The answers to so many pairs, by kind."""
    answers = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for number, pair in enumerate(list_pairs(count)):
            found = judge_pair(pair, Path(folder) / str(number), str(number))
            answers[pair.kind].append(found)
    return answers


def share(answers: list[dict[str, bool | float]], what: str) -> str:
    """The share of the answers that have it, %, or a dash where none was asked."""
    known = [a[what] for a in answers if what in a]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "-"


def print_table(answers: dict[str, list[dict[str, bool | float]]]) -> None:
    """The answers by kind, and the false alarms of others."""
    columns = ("right", "decided", "culprit")
    print(f"{'planted':<18}{'pairs':>6}" + "".join(f"{c:>10}" for c in columns))
    every = [a for rows in answers.values() for a in rows]
    for kind, rows in [*answers.items(), ("all", every)]:
        print(f"{kind:<18}{len(rows):>6}" + "".join(f"{share(rows, c):>10}" for c in columns))
    flat = answers["nothing"]
    alarms = 100 * (1 - fmean(bool(a["right"]) for a in flat))
    print(f"\nfalse alarms where nothing changed ({len(flat)} pairs)")
    print(f"{'sightline':<18}{alarms:.1f} %")
    for name in OTHERS:
        print(f"{name:<18}{share(flat, name)}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the pairs")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how many (default {PAIRS})")
    args = parser.parse_args()
    print_table(prove(args.pairs // 10 if args.quick else args.pairs))


if __name__ == "__main__":
    main()
