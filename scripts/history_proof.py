"""How often `sightline history` sees a change of level: in flat series, and where one was planted.

Series of so many values, off by 1 %, of which each follows the one before; the planted change is
3 %, anywhere in the middle half, and counts as found within three values of its place. Beside it
Apache Otava where it is installed, as it is set (window 50, p 0.001). With --quick a tenth.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence

from sightline.core.algebra.change_points import find_changes

TRIALS = 1000
SIZES, FOLLOWS = (20, 50, 100, 200), (0.0, 0.3, 0.6)
NOISE, CHANGE, NEAR = 0.01, 1.03, 3


def simulate_series(dice: random.Random, n: int, follows: float, at: int | None) -> list[float]:
    """Values around 1; from `at` on times CHANGE."""
    drift, values = dice.gauss(0, 1), []
    for number in range(n):
        drift = follows * drift + math.sqrt(1 - follows**2) * dice.gauss(0, 1)
        level = CHANGE if at is not None and number >= at else 1.0
        values.append(level * math.exp(NOISE * drift))
    return values


def find_ours(values: Sequence[float]) -> list[int]:
    """The places that sightline names."""
    return [change.at for change in find_changes(values)]


def find_otava(values: Sequence[float]) -> list[int]:
    """The places that Apache Otava names, as it is set."""
    from otava.analysis import compute_change_points

    points, _ = compute_change_points(values, window_len=50, max_pvalue=0.001)
    return [point.index for point in points]


METHODS: dict[str, Callable[[Sequence[float]], list[int]]] = {"sightline": find_ours}
try:
    import otava  # noqa: F401

    METHODS["Otava"] = find_otava
except ImportError:
    pass


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of all")
    trials = TRIALS // (10 if parser.parse_args().quick else 1)
    print(f"of {trials} flat series, and of {trials // 4} with a change of 3 %")
    names = "".join(f"{name + ' false':>18}{name + ' found':>18}" for name in METHODS)
    print(f"{'values':>6}{'follows':>9}{names}")
    for n in SIZES:
        for follows in FOLLOWS:
            dice = random.Random(f"{n} {follows}")
            flat = [simulate_series(dice, n, follows, None) for _ in range(trials)]
            places = [dice.randrange(n // 4, 3 * n // 4) for _ in range(trials // 4)]
            moved = [simulate_series(dice, n, follows, at) for at in places]
            line = f"{n:>6}{follows:>9}"
            for find in METHODS.values():
                false = sum(bool(find(values)) for values in flat)
                found = sum(
                    any(abs(at - place) <= NEAR for place in find(values))
                    for at, values in zip(places, moved, strict=True)
                )
                line += f"{100 * false / trials:>16.1f} %{100 * found / len(places):>16.1f} %"
            print(line, flush=True)


if __name__ == "__main__":
    main()
