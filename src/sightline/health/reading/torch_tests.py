"""What PyTorch measures where it is installed: matrix products and copies, a second a GPU."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from sightline.health.node import Node
from sightline.health.reading.programs import run_program

_LIMIT_S = 300
# Products of 8192 x 8192 in bfloat16 (1.1 TFLOP each) reach the rate of large ones; copies of
# 256 MiB that of the link. Numbered as NVML does, in the order of PCI addresses.
_PROGRAM = """
import json, os
os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
import torch

def measure(work, count):
    for _ in range(5):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count

found = []
for number in range(torch.cuda.device_count()):
    torch.cuda.set_device(number)
    size = 8192
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(host, device="cuda")
    found.append({
        "matmul_tflops": 2 * size**3 / measure(lambda: a @ a, 50) / 1e12,
        "host_to_device": host.nbytes / measure(lambda: there.copy_(host, True), 20) / 1e9,
        "device_to_host": host.nbytes / measure(lambda: host.copy_(there, True), 20) / 1e9,
    })
    del a, host, there
print(json.dumps(found))
"""
_FACTS = ("matmul_tflops", "host_to_device", "device_to_host")


def measure_compute(node: Node) -> None:
    """Run it, and put into the node what other programs did not measure; else why not."""
    text = run_program((sys.executable, "-c", _PROGRAM), _LIMIT_S)
    rows = _read_rows(text)
    why = "PyTorch is not installed next to sightline, or sees no GPU"
    for gpu in node.gpus:
        row = rows[gpu.number] if gpu.number < len(rows) else {}
        for fact in _FACTS:
            if fact in row and fact not in gpu.values:
                gpu.values[fact] = row[fact]
                gpu.missing.pop(fact, None)
        if "matmul_tflops" not in gpu.values:
            gpu.missing["matmul_tflops"] = why


def _read_rows(text: str | None) -> list[dict[str, float]]:
    """What it printed of each GPU, numbers only."""
    try:
        document: Any = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    if not isinstance(document, list):
        return []
    return [
        {
            fact: float(value)
            for fact in _FACTS
            if isinstance(value := row.get(fact), (int, float)) and math.isfinite(value)
        }
        if isinstance(row, dict)
        else {}
        for row in document
    ]
