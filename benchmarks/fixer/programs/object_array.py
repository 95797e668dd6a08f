"""Numbers as Python objects in an array."""

import numpy as np


def read_numbers(count: int) -> np.ndarray:
    return np.array([number % 1000 for number in range(count)], dtype=object)


def smooth(values: np.ndarray) -> np.ndarray:
    return values[:-2] + values[1:-1] * 2 + values[2:]


def main() -> None:
    values = read_numbers(400_000)
    total = 0
    for _ in range(14):
        total += int(smooth(values).max())
    print(total)


if __name__ == "__main__":
    main()
