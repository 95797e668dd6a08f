"""Inverts the same matrix in each step of a filter."""

import numpy as np


def run_filter(matrix: np.ndarray, state: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        gain = np.linalg.inv(matrix)
        state = state * 0.9 + gain @ np.ones(len(state)) * 0.1
    return state


def main() -> None:
    size = 220
    matrix = np.eye(size) * 4 + np.random.default_rng(0).random((size, size)) * 0.01
    print(round(float(run_filter(matrix, np.zeros(size), 80).sum()), 6))


if __name__ == "__main__":
    main()
