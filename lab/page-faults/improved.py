"""The same solver writing into arrays that it keeps."""

import torch

import sightline as sl

STEPS = 60
CELLS = 12_000_000


def main() -> None:
    torch.set_num_threads(1)
    state, velocity = torch.zeros(CELLS), torch.ones(CELLS)
    force, change = torch.empty(CELLS), torch.empty(CELLS)
    for _ in range(STEPS):
        torch.mul(state, -0.5, out=force)
        torch.add(velocity, torch.mul(force, 0.01, out=change), out=velocity)
        torch.add(state, torch.mul(velocity, 0.01, out=change), out=state)
        sl.step()


if __name__ == "__main__":
    main()
