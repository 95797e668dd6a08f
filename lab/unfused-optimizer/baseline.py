"""A deep, narrow network whose AdamW updates one tensor after the other."""

import torch
from torch import nn

import sightline as sl

STEPS = 120


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [layer for _ in range(40) for layer in (nn.Linear(48, 48), nn.LayerNorm(48))]
    model = nn.Sequential(nn.Linear(64, 48), *layers, nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, amsgrad=True, foreach=False)
    features, labels = torch.randn(128, 64), torch.randint(0, 10, (128,))
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
