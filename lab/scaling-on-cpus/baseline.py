"""Training on a batch that the ranks share, with a collective for each parameter."""

import torch
import torch.distributed as dist
from torch import nn

import sightline as sl

STEPS = 60
BATCH = 2048


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Replace each gradient by the mean of all ranks."""
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [layer for _ in range(16) for layer in (nn.Linear(128, 128), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = BATCH // dist.get_world_size()
    features, labels = torch.randn(rows, 128), torch.randint(0, 10, (rows,))
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(features), labels).backward()
        average_gradients(list(model.parameters()))
        optimizer.step()
        sl.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
