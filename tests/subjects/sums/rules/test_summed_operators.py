"""Tables of PyTorch's profiler: which operator, and who sets the pace."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.session import Session as Run
from support.rules import answers, assert_silent, assert_speaks

RULE = "summed-operators"
MS = 1_000_000
Row = tuple[str, float, float, int]  # name, self CPU, self CUDA (ms), calls


def printed(folder: Path, rows: list[Row], cpu: float, cuda: float) -> Run:
    rule = "  ".join(["-" * 24, *["-" * 12] * 4])
    head = (
        f"{'Name':>24}  {'Self CPU':>12}  {'CPU total':>12}  {'Self CUDA':>12}  {'# of Calls':>12}"
    )
    lines = [
        f"{name:>24}  {f'{own:.3f}ms':>12}  {f'{own:.3f}ms':>12}  {f'{gpu:.3f}ms':>12}  {calls:>12}"
        for name, own, gpu, calls in rows
    ]
    totals = [f"Self CPU time total: {cpu:.3f}ms", f"Self CUDA time total: {cuda:.3f}ms"]
    path = folder / "table.txt"
    path.write_text("\n".join([rule, head, rule, *lines, rule, *totals, ""]))
    return sightline.open(str(path))


def test_the_device_sets_the_pace(tmp_path: Path) -> None:
    rows = [
        ("aten::mm", 10, 64, 100),
        ("aten::add", 5, 36, 100),
        ("sgemm", 0, 64, 100),
        ("add_kernel", 0, 36, 100),
        ("cudaDeviceSynchronize", 85, 0, 1),
    ]
    found = assert_speaks(
        printed(tmp_path, rows, 100, 100),
        RULE,
        cost_ns=64 * MS,
        gain_ns=None,
        evidence=["aten::mm: 64.00 ms on the device", "85.00 ms of it in synchronizing calls"],
        fix="the longest of all kernels is sgemm",
        states_limit=True,
    )
    assert found.title == "The device sets the pace"
    assert "64.0 % of the device's 100.0 ms" in found.summary
    first = sightline.findings(printed(tmp_path, rows, 100, 100))[0]
    assert first.rule == RULE


def test_the_host_takes_longer(tmp_path: Path) -> None:
    """The device works for a fifth of the host's time, and nothing waits for it."""
    rows = [
        ("aten::mm", 70, 12, 900),
        ("aten::add", 28, 8, 900),
        ("kernel", 0, 20, 900),
    ]
    (found,) = answers(printed(tmp_path, rows, 100, 20), RULE)
    assert found.title == "The host takes longer than the device"
    assert "20.0 % of the 100.0 ms" in found.summary
    assert "aten::mm: 70.00 ms on the host, 900 calls" in found.evidence


def test_rows_that_were_not_printed_cannot_be_waits_for_more_than_the_device_works(
    tmp_path: Path,
) -> None:
    rows = [("aten::mm", 20, 12, 900), ("aten::add", 8, 8, 900), ("k", 0, 20, 1800)]
    (found,) = answers(printed(tmp_path, rows, 100, 20), RULE)
    assert found.title == "The host takes longer than the device"
    assert "72.00 ms of it in rows not printed" in found.evidence[2]


def test_the_host_loads_data(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_"
    rows = [(loader, 80, 0, 9), ("aten::mm", 9, 20, 900), ("sgemm", 0, 20, 900)]
    (found,) = answers(printed(tmp_path, rows, 100, 20), RULE)
    assert "num_workers" in (found.fix or "")


def test_the_older_profiler_measured_from_event_to_event(tmp_path: Path) -> None:
    """Without a kernel in the table nothing is said of who sets the pace."""
    (found,) = answers(printed(tmp_path, [("aten::mm", 60, 99, 900)], 100, 100), RULE)
    assert found.title == "One operator takes more than any other"


def test_nothing_of_a_device(tmp_path: Path) -> None:
    (found,) = answers(printed(tmp_path, [("aten::conv2d", 75, 0, 53)], 100, 0), RULE)
    assert found.title == "Only the host was recorded"
    assert "75.0 % of the host's 100.0 ms are of `aten::conv2d`: 53 calls" in found.summary
    assert "ProfilerActivity.CUDA" in (found.fix or "")


def test_many_small_ones(tmp_path: Path) -> None:
    rows = [(f"aten::op{n}", 9.0, 0.0, 1) for n in range(11)]
    assert_silent(printed(tmp_path, rows, 99, 0), RULE)
