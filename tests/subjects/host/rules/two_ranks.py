"""Two ranks with Gloo on the CPU; rank 1 comes 30 ms late to each step.

torchrun --nproc-per-node 2 tests/subjects/host/rules/two_ranks.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

LATE_S = 0.03


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(64, 512)

    def step() -> None:
        if rank == 1:
            time.sleep(LATE_S)
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    plan = schedule(wait=0, warmup=1, active=3, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, with_stack=True) as recorder:
        for _ in range(4):
            step()
            recorder.step()
    recorder.export_chrome_trace(str(folder / f"rank{rank}.json"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
