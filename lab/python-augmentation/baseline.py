"""Training with an augmentation written in plain Python: one number after the other."""

import random

import torch
from torch import nn

import sightline as sl

STEPS = 120
IMAGES, PIXELS = 16, 1024


def augment(batch: list[list[float]]) -> torch.Tensor:
    """Mirror every other image and add noise."""
    done = []
    for number, image in enumerate(batch):
        pixels = image[::-1] if number % 2 else image
        done.append([value + random.gauss(0.0, 0.1) for value in pixels])
    return torch.tensor(done)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    batch = torch.rand(IMAGES, PIXELS).tolist()
    labels = torch.randint(0, 10, (IMAGES,))
    model = nn.Sequential(nn.Linear(PIXELS, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        images = augment(batch)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
