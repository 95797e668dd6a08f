"""Clips and scales an array element by element."""

import numpy as np


def normalize(values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for place in range(len(values)):
        out[place] = min(max(values[place], -1.0), 1.0) * 0.5 + 0.5
    return out


def main() -> None:
    values = np.random.default_rng(0).normal(size=1_200_000)
    print(round(float(normalize(values).sum()), 3))


if __name__ == "__main__":
    main()
