"""Real programs on the CPU, slow for one reason each, and what its fix makes of them.

    python tests/subjects/host/rules/programs.py NAME {slow,fixed} TRACE [STEPS]

Writes a trace of the PyTorch profiler with Python stacks, and prints the seconds of a step without
the profiler: the median of all.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

Step = Callable[[], None]
THREADS = 1  # one core computes, so that another is free for what a fix moves away


class Images(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pictures that take a while to decode: a wait, as for a disk, so that no core is needed."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.wait_s)
        return torch.full((64,), float(index % 7)), torch.tensor(index % 10)


def make_model(width: int = 512, depth: int = 3) -> nn.Module:
    layers = [nn.Linear(64, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train_on(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator) -> Step:  # type: ignore[type-arg]
    def step() -> None:
        images, labels = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def repeat_batch(rows: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    batch = torch.randn(rows, 64), torch.randint(0, 10, (rows,))
    while True:
        yield batch


def loading(is_fixed: bool) -> Step:
    workers = {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 4}
    loader = DataLoader(Images(1e-3), batch_size=16, **(workers if is_fixed else {}))  # type: ignore[arg-type]
    model = make_model(1024)
    return train_on(model, torch.optim.SGD(model.parameters(), 0.01), iter(loader))


def small_operators(is_fixed: bool) -> Step:
    pieces = [torch.randn(8) for _ in range(150)]
    stacked = torch.stack(pieces)
    model = make_model(256, 1)
    train = train_on(model, torch.optim.SGD(model.parameters(), 0.01), repeat_batch(32))

    def step() -> None:
        if is_fixed:
            ((stacked * 2 + 1).tanh()).sum()
        else:
            sum((piece * 2 + 1).tanh().sum() for piece in pieces)
        train()

    return step


def python_work(is_fixed: bool) -> Step:
    table = torch.rand(40_000)
    rows = table.tolist()
    model = make_model(512, 2)
    train = train_on(model, torch.optim.SGD(model.parameters(), 0.01), repeat_batch(64))

    def normalize(values: list[float]) -> float:
        total = 0.0
        for value in values:
            total += value * value
        return total

    def step() -> None:
        if is_fixed:
            float((table * table).sum())
        else:
            normalize(rows)
        train()

    return step


def optimizer_loop(is_fixed: bool) -> Step:
    model = nn.Sequential(nn.Linear(64, 64), *(nn.Linear(64, 64) for _ in range(30)),
                          nn.Linear(64, 10))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False, fused=is_fixed)
    return train_on(model, optimizer, repeat_batch(256))


def healthy(is_fixed: bool) -> Step:
    del is_fixed
    model = make_model(1536, 3)
    return train_on(model, torch.optim.SGD(model.parameters(), 0.01), repeat_batch(256))


PROGRAMS = {
    "loading": loading,
    "small_operators": small_operators,
    "python_work": python_work,
    "optimizer_loop": optimizer_loop,
    "healthy": healthy,
}


def main(name: str, which: str, path: str, steps: int = 8) -> None:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    step = PROGRAMS[name](which == "fixed")
    for _ in range(3):
        step()
    plan = schedule(wait=0, warmup=1, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=True) as recorder:
        for _ in range(steps + 1):
            step()
            recorder.step()
    recorder.export_chrome_trace(path)
    took = []
    for _ in range(3 * steps):
        began = time.perf_counter()
        step()
        took.append(time.perf_counter() - began)
    sys.stdout.write(f"{statistics.median(took):.6f}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 8)
