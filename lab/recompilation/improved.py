"""The same with the length marked as dynamic: one graph for all of them."""

import torch
from torch import nn

import sightline as sl

STEPS = 16


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = STEPS  # as people set it who see its warning
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256))
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        sequence = torch.randn(256 + step, 256)
        optimizer.zero_grad()
        (compiled(sequence) - sequence).square().mean().backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
