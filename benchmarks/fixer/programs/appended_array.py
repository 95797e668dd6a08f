"""Grows a NumPy array by one value after the other."""

import numpy as np


def collect(count: int) -> np.ndarray:
    values = np.empty(0)
    for number in range(count):
        values = np.append(values, number * 0.5)
    return values


def main() -> None:
    print(collect(35_000).sum())


if __name__ == "__main__":
    main()
