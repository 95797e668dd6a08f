"""A recurrent network that carries its state, and with it the graph of all steps before."""

import torch
from torch import nn

import sightline as sl

STEPS = 18


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cell, head = nn.GRUCell(64, 256), nn.Linear(256, 10)
    parameters = [*cell.parameters(), *head.parameters()]
    inputs, labels = torch.randn(STEPS, 64, 64), torch.randint(0, 10, (64,))
    state = torch.zeros(64, 256)
    for step in range(STEPS):
        for parameter in parameters:
            parameter.grad = None
        state = cell(inputs[step], state)
        loss = nn.functional.cross_entropy(head(state), labels)
        loss.backward(retain_graph=True)
        sl.step()


if __name__ == "__main__":
    main()
