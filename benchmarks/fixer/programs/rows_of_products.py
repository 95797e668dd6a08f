"""A product of matrices, one inner product after the other."""

import numpy as np


def multiply(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    out = np.empty((len(left), right.shape[1]))
    for row in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[row, column] = np.dot(left[row], right[:, column])
    return out


def main() -> None:
    generator = np.random.default_rng(0)
    left, right = generator.random((800, 300)), generator.random((300, 800))
    print(round(float(multiply(left, right).sum()), 3))


if __name__ == "__main__":
    main()
