"""The same, leaving it to the operating system when lines reach the disk."""

import tempfile
from typing import TextIO

import torch
from torch import nn

import sightline as sl

STEPS = 120


def log_gradients(model: nn.Module, file: TextIO) -> None:
    """A line per parameter, in the file's buffer."""
    for name, parameter in model.named_parameters():
        print(name, parameter.grad.abs().max().item(), file=file)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.NamedTemporaryFile("w", dir=".", suffix=".log") as file:
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            log_gradients(model, file)
            optimizer.step()
            sl.step()


if __name__ == "__main__":
    main()
