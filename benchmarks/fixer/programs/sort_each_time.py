"""Keeps a list in order by sorting all of it after each new value."""

import random


def take_medians(values: list[float]) -> float:
    kept: list[float] = []
    total = 0.0
    for value in values:
        kept.append(value)
        kept = sorted(kept, key=lambda kept_value: kept_value)
        total += kept[len(kept) // 2]
    return total


def main() -> None:
    generator = random.Random(0)
    print(round(take_medians([generator.random() for _ in range(5_000)]), 6))


if __name__ == "__main__":
    main()
