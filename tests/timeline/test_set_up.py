"""Devices alone were recorded: one pause before nearly all of the work is a host's set-up."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl

HEAD = "Index,KernelName,gpu-id,queue-id,BeginNs,EndNs"


def write_csv(folder: Path, ops: list[tuple[str, int, int]]) -> sl.Session:
    """rocprof's results.csv: name, begin and length in µs."""
    rows = [
        f'{n},"{name}",0,0,{1000 * begin},{1000 * (begin + length)}'
        for n, (name, begin, length) in enumerate(ops)
    ]
    (folder / "results.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    return sl.open(str(folder / "results.csv"))


# Levels of a search, of no common length, in an order of kernels that does not come back thrice.
LEVELS = [40, 90, 700, 2500, 1800, 300, 120, 60, 30, 20, 10, 10]


def list_levels(start: int) -> list[tuple[str, int, int]]:
    """The kernels of the levels, each ten µs behind the one before."""
    ops, at = [], start
    for n, length in enumerate(LEVELS):
        ops.append((f"level_{n * n % 5}(int)", at, length))
        at += length + 10
    return ops


def test_the_set_up_is_no_part_of_the_window(tmp_path: Path) -> None:
    run = write_csv(tmp_path, [("fill(int)", 0, 100), *list_levels(50_000)])
    segments = [
        (name, (end - start) // 1000)
        for name, start, end in run.ask("segments").select("segment", "start_ns", "end_ns").rows()
    ]
    assert segments == [("start-up", 50_000), ("repeating", sum(LEVELS) + 10 * 11)]
    found = {f.rule: f for f in run.findings()}
    assert found["start-up"].cost_ns == 50_000_000
    assert "gpu-idle" not in found
    assert "steps" not in found["start-up"].summary
    # What the kernels do is what its owner can change; what the host did, nobody recorded.
    first = next(f for f in run.findings() if not f.abstained)
    assert first.rule != "start-up"


@pytest.mark.parametrize(
    "ops",
    [
        # A quarter of the work before the pause: two phases of a program.
        [*list_levels(0)[:4], *list_levels(50_000)],
        # Few kernels behind it.
        [("fill(int)", 0, 100), *list_levels(50_000)[:4]],
        # A pause that is not most of the window.
        [("fill(int)", 0, 100), *list_levels(4_000)],
    ],
    ids=["work before it", "few kernels", "a short one"],
)
def test_other_pauses_are_idle_time(tmp_path: Path, ops: list[tuple[str, int, int]]) -> None:
    run = write_csv(tmp_path, ops)
    assert run.ask("segments").is_empty()
