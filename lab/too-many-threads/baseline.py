"""Training with eight threads for each CPU, as eight ranks with default settings would have."""

import os

import torch
from torch import nn

import sightline as sl

STEPS = 120


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(8 * len(os.sched_getaffinity(0)))
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    model = nn.Sequential(
        nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
