"""Tables as nsys stats prints them, of rows in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sightline
from sightline.session import Session as Run

# name, calls, all together in ns, the longest in ns
Row = tuple[str, int, int, int]


def write_table(report: str, count: str, label: str, rows: Sequence[Row]) -> str:
    """A report of times."""
    head = f"[5/8] Executing '{report}' stats report\n\n"
    head = head if rows else ""
    lines = [f" Time (%)  Total Time (ns)  {count}  Avg (ns)  Max (ns)  {label}"] if rows else []
    lines += [
        f"     10.0  {ns:,}  {calls:,}  1.0  {most:,}  {name}" for name, calls, ns, most in rows
    ]
    return head + "\n".join(lines) + "\n\n"


def write_sizes(rows: Sequence[tuple[str, int, float]]) -> str:
    """A report of sizes: name, count, MB together."""
    lines = [f" {size:,.3f}  {count:,}  1.0  {name}" for name, count, size in rows]
    return "\n".join([" Total (MB)  Count  Avg (MB)  Operation", *lines, "", ""]) if rows else ""


def open_sums(
    folder: Path,
    *,
    kernels: Sequence[Row] = (),
    copies: Sequence[Row] = (),
    sizes: Sequence[tuple[str, int, float]] = (),
    calls: Sequence[Row] = (),
) -> Run:
    """A run of printed tables."""
    text = write_table("cuda_api_sum", "Num Calls", "Name", calls)
    text += write_table("cuda_gpu_kern_sum", "Instances", "Name", kernels).replace("5/", "6/")
    text += write_table("cuda_gpu_mem_time_sum", "Count", "Operation", copies).replace("5/", "7/")
    path = folder / "printed.txt"
    path.write_text(text + write_sizes(sizes))
    return sightline.open(str(path))


MS = 1_000_000
UP, DOWN = "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]"
