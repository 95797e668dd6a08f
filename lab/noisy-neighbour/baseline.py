"""Training that shares its CPU with another busy process."""

import multiprocessing
import os

import torch
from torch import nn

import sightline as sl

STEPS = 120
OTHER_CPU = False


def keep_busy(cpu: int) -> None:
    """What runs beside the training: a monitoring agent gone wild, say."""
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


def main() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    other = multiprocessing.get_context("spawn").Process(
        target=keep_busy, args=(cpus[-1] if OTHER_CPU else cpus[0],), daemon=True
    )
    other.start()
    os.sched_setaffinity(0, {cpus[0]})
    torch.manual_seed(0)
    torch.set_num_threads(1)
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
