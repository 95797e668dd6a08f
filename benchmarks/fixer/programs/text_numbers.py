"""Writes numbers as text between two parts of one program."""

import io

import numpy as np


def hand_over(values: np.ndarray) -> np.ndarray:
    text = io.StringIO()
    np.savetxt(text, values)
    text.seek(0)
    return np.loadtxt(text)


def main() -> None:
    values = np.arange(60_000.0)
    for _ in range(8):
        values = hand_over(values) + 1.0
    print(values.sum())


if __name__ == "__main__":
    main()
