"""The same augmentation with operators on the whole batch."""

import torch
from torch import nn

import sightline as sl

STEPS = 120
IMAGES, PIXELS = 16, 1024


def augment(batch: torch.Tensor) -> torch.Tensor:
    """Mirror every other image and add noise."""
    done = batch + 0.1 * torch.randn_like(batch)
    done[1::2] = done[1::2].flip(1)
    return done


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    batch = torch.rand(IMAGES, PIXELS)
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
