"""The same with all gradients in one bucket: one collective a step."""

import torch
import torch.distributed as dist
from torch import nn

import sightline as sl

STEPS = 60
BATCH = 2048


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Replace each gradient by the mean of all ranks."""
    gradients = [parameter.grad for parameter in parameters]
    bucket = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(bucket)
    bucket /= dist.get_world_size()
    for gradient, part in zip(gradients, bucket.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


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
