"""Record a small, real PyTorch training loop, as input for sightline.

    python examples/record.py -o trace.json.gz                  on a CPU or a GPU
    python examples/record.py --problem sync -o slow.json.gz    with one planted mistake
    sightline trace.json.gz

The loop is an image classifier on generated pictures: a DataLoader, copies to the device on a
stream of their own, mixed precision on a GPU, SGD. `--problem` plants one common mistake, so that
a prediction of sightline can be checked against the recording without it:

    none          pinned batches, copied ahead on a side stream
    dataloader    pictures are decoded slowly, in the training process
    sync          the loss is read back after every layer's step: .item()
    pageable      batches are copied from pageable memory, on the main stream
    tiny-kernels  a small model of many small operations
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

PROBLEMS = ("none", "dataloader", "sync", "pageable", "tiny-kernels")


class Pictures(Dataset):
    """Generated pictures; `slow_s` seconds of extra work for each, as decoding would take."""

    def __init__(self, count: int, side: int, slow_s: float) -> None:
        self.count, self.side, self.slow_s = count, side, slow_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, self.side, self.side, generator=generator)
        until = time.perf_counter() + self.slow_s
        while time.perf_counter() < until:
            picture = picture.flip(-1)
        return picture, index % 10


def convolutions(width: int, depth: int) -> nn.Module:
    """A plain convolutional classifier."""
    layers: list[nn.Module] = []
    channels = 3
    for _ in range(depth):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def many_small_layers(depth: int) -> nn.Module:
    """Operations so small that launching them takes longer than running them."""
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 64)]
    for _ in range(depth):
        layers += [nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def batches(
    loader: DataLoader, device: torch.device, ahead: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches on the device; with `ahead`, the next one is copied while this one is used."""
    if not ahead or device.type != "cuda":
        for pictures, labels in loader:
            yield pictures.to(device), labels.to(device)
        return
    side = torch.cuda.Stream()
    waiting: tuple[torch.Tensor, torch.Tensor] | None = None
    for pictures, labels in loader:
        with torch.cuda.stream(side):
            moved = pictures.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if waiting is not None:
            yield waiting
        torch.cuda.current_stream().wait_stream(side)
        for tensor in moved:
            tensor.record_stream(torch.cuda.current_stream())
        waiting = moved
    if waiting is not None:
        yield waiting


def train(args: argparse.Namespace, device: torch.device) -> tuple[object, list[float]]:
    """Run the loop under the profiler; the profiler, and each active step's seconds."""
    torch.manual_seed(0)
    on_gpu = device.type == "cuda"
    problem = args.problem
    side, width, depth, batch = (96, 128, 8, 128) if on_gpu else (32, 16, 3, 16)
    model = (many_small_layers(40) if problem == "tiny-kernels" else convolutions(width, depth)).to(
        device
    )
    warmup, active = 5, args.steps
    steps = warmup + 1 + active
    slow = problem == "dataloader"
    data = Pictures(steps * batch, side, 0.4e-3 if slow else 0.0)
    loader = DataLoader(
        data,
        batch_size=batch,
        num_workers=0 if slow or not on_gpu else 8,
        pin_memory=on_gpu and problem != "pageable",
        persistent_workers=False,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    seconds: list[float] = []
    with profile(
        activities=activities,
        schedule=schedule(wait=warmup, warmup=1, active=active, repeat=1),
        record_shapes=args.shapes,
        with_stack=args.stacks,
        profile_memory=args.memory,
    ) as profiler:
        started = time.perf_counter()
        for pictures, labels in batches(loader, device, ahead=problem != "pageable"):
            optimizer.zero_grad(set_to_none=True)
            with torch.profiler.record_function("forward"):
                precise = contextlib.nullcontext() if not on_gpu else torch.autocast("cuda")
                with precise:
                    if problem == "sync":
                        hidden = pictures
                        for layer in model:
                            hidden = layer(hidden)
                            hidden.float().mean().item()
                        outputs = hidden
                    else:
                        outputs = model(pictures)
                    loss = loss_of(outputs.float(), labels)
            with torch.profiler.record_function("backward"):
                loss.backward()
            with torch.profiler.record_function("optimizer"):
                optimizer.step()
            profiler.step()
            if len(seconds) == steps - 1 and on_gpu:
                torch.cuda.synchronize()
            now = time.perf_counter()
            seconds.append(now - started)
            started = now
    return profiler, seconds[warmup + 1 :]


def without_identity(trace: str) -> str:
    """The trace without the machine's name and the path it was written to."""
    return re.sub(r'"(host_name|traceName)":\s*"[^"]*"', r'"\1": ""', trace)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("trace.json.gz"))
    parser.add_argument("--problem", choices=PROBLEMS, default="none")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--stacks", action="store_true", help="record Python stacks")
    parser.add_argument("--shapes", action="store_true", help="record input shapes")
    parser.add_argument("--memory", action="store_true", help="record allocations")
    args = parser.parse_args()
    kind = args.device
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    profiler, seconds = train(args, torch.device(kind))
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch) / "trace.json"
        profiler.export_chrome_trace(str(raw))
        text = without_identity(raw.read_text())
    if args.output.suffix == ".gz":
        # No time in the header, so that equal recordings are equal files.
        args.output.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        args.output.write_text(text)
    mean = sum(seconds) / len(seconds) if seconds else 0.0
    print(f"{args.output}: {args.problem}, {kind}, mean step {mean * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
