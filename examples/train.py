"""A small training loop that marks itself, on one process or on several.

    sightline run -- python examples/train.py
    sightline run -- torchrun --nproc-per-node 2 examples/train.py

It runs the same without sightline. Each rank prints what it did as JSON, so that a recording can
be checked against it.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import sightline as sl


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    distributed = "RANK" in os.environ
    on_gpu = torch.cuda.is_available()
    if distributed:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    layers = [nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 10)]
    model: nn.Module = nn.Sequential(*layers).to(device)
    if distributed:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    loss = torch.zeros(())
    for step in range(args.steps):
        pictures = torch.randn(32, args.width, device=device)
        labels = torch.randint(0, 10, (32,), device=device)
        optimizer.zero_grad(set_to_none=True)
        with sl.annotate("forward"):
            loss = loss_of(model(pictures), labels)
        with sl.annotate("backward"):
            loss.backward()
        with sl.annotate("optimizer"):
            optimizer.step()
        if step == 0:
            sl.checkpoint("after the first step", shapes=pictures)
        sl.step()
    done = {
        "rank": dist.get_rank() if distributed else 0,
        "steps": args.steps,
        "annotations": 3 * args.steps,
        "linears": 2 * args.steps,
        "loss": round(loss.item(), 6),
    }
    # In one piece: torchrun's ranks share the output, which is unbuffered.
    print(json.dumps(done) + "\n", end="", flush=True)
    if distributed:
        # torch 2.13: gloo's thread wants the interpreter to free its last message, and the group's
        # end waits for that thread with the interpreter held. Both are let go here.
        dist.barrier()
        time.sleep(0.1)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
