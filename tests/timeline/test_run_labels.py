"""A kernel has one name on every screen, in `stats`, `sql` and exports."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.timeline.run_labels import label_run_kernels
from support.command import sightline as command
from support.traces import kernel, launched, write

# As DeepSeek's training has them: one kernel's name in three namespaces.
NAMES = [
    f"void cutlass::device_kernel<lib::gemm::{space}::GemmKernel>"
    f"(lib::gemm::{space}::GemmKernel::Params)"
    for space in ("m_grouped_fp8", "fp8", "fp8_acc")
]


def record(folder: Path) -> Path:
    """Kernels of these names, the first the longest; and two that only a number tells apart."""
    events, at = [], 0
    for n, name in enumerate([*NAMES, "a(int)", "a(long)"]):
        events += launched(at, kernel(name, at + 10, 500 - 50 * n))
        at += 600
    return write(folder, events)


def test_namespaces_distinguish_before_numbers_do(tmp_path: Path) -> None:
    labels = label_run_kernels(sightline.open(str(record(tmp_path))))
    assert [labels[name] for name in NAMES] == [
        "GemmKernel<m_grouped_fp8>",
        "GemmKernel<fp8>",
        "GemmKernel<fp8_acc>",
    ]


def test_every_screen_has_the_same_name(tmp_path: Path) -> None:
    path = record(tmp_path)
    labels = label_run_kernels(sightline.open(str(path)))
    report = command("report", path, "--no-html").out
    table = command("stats", "kernels", path).out
    query = "SELECT DISTINCT label FROM device_ops JOIN kernel_labels USING (name)"
    asked = command("sql", path, query, "--format", "csv").out.splitlines()[1:]
    assert {line.strip('"') for line in asked} == set(labels.values())
    for label in labels.values():
        assert label in report
        assert label in table
