"""Traces of a training loop at a moment of the wall clock, to lie beside a history."""

from __future__ import annotations

import json
from pathlib import Path

from support.histories import SECOND


def write_trace(
    path: Path,
    begin_ns: int,
    *,
    steps: int = 3,
    step_s: int = 60,
    rank: int = 0,
    world: int = 1,
    device: int = 0,
    matmul: int | None = None,
) -> Path:
    """A Kineto trace of steps one behind the other: in each, 'forward' for half of the step.

    `begin_ns` is since 1970; one kernel fills each step, of a product of square matrices of
    `matmul` rows in BF16 where that is given.
    """
    events: list[dict[str, object]] = []

    def add(cat: str, name: str, start_s: float, length_s: float, **more: object) -> None:
        place = {"pid": 7, "tid": 7, "args": {}} | more
        times = {"ts": start_s * 1e6, "dur": length_s * 1e6}
        events.append({"ph": "X", "cat": cat, "name": name, **times, **place})

    for n in range(steps):
        at = n * step_s
        key = {"correlation": n + 1, "device": device, "stream": 7}
        add("user_annotation", f"ProfilerStep#{n}", at, step_s)
        add("user_annotation", "forward", at, step_s / 2)
        if matmul is not None:
            shapes = [[matmul, matmul]] * 2
            args = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * 2}
            add("cpu_op", "aten::mm", at, 2e-5, args=args)
        add("cuda_runtime", "cudaLaunchKernel", at, 1e-5, args=key)
        add("kernel", "gemm", at + 1e-3, step_s - 2e-3, pid=device, tid=7, args=key)
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": device, "name": "NVIDIA H200"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "baseTimeNanoseconds": begin_ns // SECOND * SECOND,
    }
    path.write_text(json.dumps({**head, "traceEvents": events}))
    return path
