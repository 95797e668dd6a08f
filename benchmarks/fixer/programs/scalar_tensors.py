"""Sums a tensor value by value, each an operator and a number that is read back."""

import torch


def sum_positive(values: torch.Tensor) -> float:
    total = 0.0
    for value in values:
        if value.item() > 0:
            total += value.item()
    return total


def main() -> None:
    torch.set_num_threads(1)
    values = torch.linspace(-1.0, 1.0, 12_000, dtype=torch.float64)
    print(round(sum(sum_positive(values * number) for number in range(1, 10)), 3))


if __name__ == "__main__":
    main()
