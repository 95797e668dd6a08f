"""The distances between all pairs of points, pair by pair."""

import numpy as np


def sum_distances(points: np.ndarray) -> float:
    total = 0.0
    for one in range(len(points)):
        for other in range(one):
            step = points[one] - points[other]
            total += float(np.sqrt((step * step).sum()))
    return total


def main() -> None:
    points = np.random.default_rng(0).random((620, 3))
    print(round(sum_distances(points), 3))


if __name__ == "__main__":
    main()
