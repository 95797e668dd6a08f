"""Turns a layer's weights into the other layout for each batch."""

import torch


def run_layers(weights: torch.Tensor, batch: torch.Tensor, steps: int) -> torch.Tensor:
    for _ in range(steps):
        turned = weights.t().contiguous()
        batch = torch.tanh(batch @ turned)
    return batch


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    weights = torch.randn(1_500, 1_500) / 40
    print(round(float(run_layers(weights, torch.ones(2, 1_500), 70).abs().sum()), 1))


if __name__ == "__main__":
    main()
