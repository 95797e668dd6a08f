"""A loss that visits 200 small pieces one by one: four operators for each."""

import torch
from torch import nn

import sightline as sl

STEPS = 120


def penalize(pieces: torch.Tensor) -> torch.Tensor:
    """A soft limit on every piece."""
    return sum((piece * 2 + 1).tanh().sum() for piece in pieces)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    pieces = torch.randn(200, 16)
    features, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), labels)
        (loss + penalize(pieces)).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
