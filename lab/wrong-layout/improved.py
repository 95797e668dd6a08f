"""The same with scale and shift in the images' own layout."""

import torch
from torch import nn

import sightline as sl

STEPS = 120


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = torch.rand(8, 128, 128, 24)
    scale, shift = torch.rand(24), torch.rand(24)
    head = nn.Linear(24, 10)
    with torch.inference_mode():
        for _ in range(STEPS):
            pixels = images * scale + shift
            head(pixels.mean(dim=(1, 2)))
            sl.step()


if __name__ == "__main__":
    main()
