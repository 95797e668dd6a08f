"""An explicit solver that makes new arrays of 48 MB for each expression of a step."""

import torch

import sightline as sl

STEPS = 60
CELLS = 12_000_000


def main() -> None:
    torch.set_num_threads(1)
    state, velocity = torch.zeros(CELLS), torch.ones(CELLS)
    for _ in range(STEPS):
        force = state * -0.5
        velocity = velocity + force * 0.01
        state = state + velocity * 0.01
        sl.step()


if __name__ == "__main__":
    main()
