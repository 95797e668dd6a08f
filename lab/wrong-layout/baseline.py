"""Images are kept channels last and turned over for each operator that wants them otherwise."""

import torch
from torch import nn

import sightline as sl

STEPS = 120


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = torch.rand(8, 128, 128, 24)
    scale, shift = torch.rand(24, 1, 1), torch.rand(24, 1, 1)
    head = nn.Linear(24, 10)
    with torch.inference_mode():
        for _ in range(STEPS):
            planes = images.permute(0, 3, 1, 2).contiguous()
            planes = planes * scale + shift
            pixels = planes.permute(0, 2, 3, 1).contiguous()
            head(pixels.mean(dim=(1, 2)))
            sl.step()


if __name__ == "__main__":
    main()
