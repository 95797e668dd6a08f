"""The same with the statistics in one operator."""

import torch
import torch.distributed as dist
from torch import nn

import sightline as sl

STEPS = 80


def measure_norm(weights: torch.Tensor) -> float:
    """The length of the weights."""
    return weights.norm().item()


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    features, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        if dist.get_rank() == 1:
            measure_norm(model[0].weight)
        bucket = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        dist.all_reduce(bucket)
        optimizer.step()
        sl.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
