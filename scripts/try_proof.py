"""How often `sightline try` is right: simulated programs whose difference is known.

For each kind of noise of tests/experiment/noise.py: false alarms of equal programs, at any look, in
spite of stopping early; how often the last interval misses the planted difference; how often one
that is planted is seen, and after how many rounds. Beside it a t-test at 5 % that is asked after
each round. With --quick a tenth.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from scipy.special import stdtrit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from experiment.noise import MACHINES, simulate_trial
from sightline.compare.sequential import MIN_ROUNDS
from sightline.experiment.judge import Aim, compare_pairs, count_warmup
from sightline.experiment.rounds import Trial

TRIALS, POWER_TRIALS = 20_000, 1_000
EFFECTS = (0.02, 0.05, 0.10)
# Its interval must become narrower than that: so it looks as often as --runs allows.
AIM = Aim(until=math.log(1.0001))


def find_alarm(trial: Trial, aim: Aim) -> int | None:
    """After how many rounds any pair differed at a look of this trial; None: at none."""
    logs = [one.logs for one in trial.rounds]
    for looked in range(MIN_ROUNDS, len(logs) + 1):
        warm = count_warmup(logs[:looked])
        pairs = compare_pairs(logs[warm:looked], aim)
        if any(pair.interval.excludes_zero for pair in pairs):
            return looked
    return None


def is_fooled(trial: Trial) -> bool:
    """Whether a t-test of fixed size that is asked after each round ever sees a difference."""
    for looked in range(MIN_ROUNDS, len(trial.rounds) + 1):
        values = [b - a for a, b in (one.logs for one in trial.rounds[:looked])]
        mean = fmean(values)
        apart = math.sqrt(sum((v - mean) ** 2 for v in values) / (looked - 1) / looked)
        if abs(mean) > float(stdtrit(looked - 1, 0.975)) * apart:
            return True
    return False


def misses(trial: Trial, shift: float) -> bool:
    """Whether the last interval does not hold the planted logarithm of the ratio."""
    logs = [one.logs for one in trial.rounds]
    interval = compare_pairs(logs[count_warmup(logs) :], Aim())[0].interval
    return not interval.low <= shift <= interval.high


def print_line(kind: str, trials: int, variants: int = 2) -> None:
    """One kind of noise."""
    dice = random.Random(f"try {kind} {variants}")
    make = MACHINES[kind]
    flat = [simulate_trial(make(dice), [1.0] * variants, dice, AIM) for _ in range(trials)]
    alarms = 100 * fmean(find_alarm(trial, AIM) is not None for trial in flat)
    few = flat[: max(trials // 10, 1)]
    fooled = f"{100 * fmean(map(is_fooled, few)):.1f}" if variants == 2 else "-"
    cells: list[str] = []
    missed = []
    for effect in EFFECTS if variants == 2 else ():
        ended = [
            simulate_trial(make(dice), [1.0, 1.0 + effect], dice)
            for _ in range(max(trials * POWER_TRIALS // TRIALS, 1))
        ]
        seen = [at for trial in ended if (at := find_alarm(trial, Aim())) is not None]
        missed += [misses(trial, math.log1p(effect)) for trial in ended]
        cells.append(f"{100 * len(seen) / len(ended):.0f} % in {fmean(seen or [0]):.0f}")
    print(
        f"{kind:<14}{variants:>4}{alarms:>10.2f}{fooled:>12}"
        f"{100 * fmean(missed) if missed else 0:>9.2f}" + "".join(f"{cell:>14}" for cell in cells),
        flush=True,
    )


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of all")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"how many (default {TRIALS})")
    args = parser.parse_args(words)
    trials = max(args.trials // (10 if args.quick else 1), 10)
    print(f"{trials:,} trials of equal programs, at most 30 rounds; shares in %, nominal 5")
    effects = "".join(f"{f'+{100 * effect:.0f} %: seen':>14}" for effect in EFFECTS)
    print(f"{'noise':<14}{'of':>4}{'alarms':>10}{'naive t':>12}{'misses':>9}{effects}")
    for kind in MACHINES:
        print_line(kind, trials)
    print_line("normal", trials // 10, variants=4)


if __name__ == "__main__":
    main()
