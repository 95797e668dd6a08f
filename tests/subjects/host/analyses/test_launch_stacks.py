"""launch_stacks: kernels by the sampled CPU stack that is closest to their launching call."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.launch_samples import IN_LAUNCH, LOADING, MAIN, opened
from support.traces import TID, kernel, launch


def test_each_launch_has_the_closest_sample_of_its_thread(tmp_path: Path) -> None:
    events = [
        launch(100, 4, 1), kernel("inside", 110, 50, 1),
        launch(200, 4, 2), kernel("before", 210, 40, 2),
        launch(300, 4, 3), kernel("after", 310, 30, 3),
        launch(400, 4, 4), kernel("far", 410, 20, 4),
        kernel("nobody", 500, 10, 99),
    ]  # fmt: skip
    samples = [
        (102, TID, IN_LAUNCH),  # during the first call
        (197, TID, LOADING),  # 3 µs before the second
        (309, TID, MAIN),  # 5 µs after the third's end, and 8 after the end of no other
        (291, TID, LOADING),  # 9 µs before the third
        (401, TID + 1, IN_LAUNCH),  # another thread's
        (415, TID, LOADING),  # 11 µs after the fourth: more than a period
    ]
    run = opened(tmp_path, samples, events)
    assert rows(
        run, "launch_stacks", "name", "place", "match", "launches", "device_ns", "apart_ns"
    ) == [
        ("inside", "train_step", "exact", 1, 50_000, 0),
        ("before", "load_batch", "near", 1, 40_000, 3_000),
        ("after", "main", "near", 1, 30_000, 5_000),
        ("far", None, "unmatched", 1, 20_000, None),
        ("nobody", None, "unmatched", 1, 10_000, None),
    ]  # fmt: skip


def test_all_device_time_is_in_the_rows(tmp_path: Path) -> None:
    """Launches of one kernel from two places are two rows, whose times add up."""
    events = []
    for i in range(40):
        events += [launch(100 * i, 4, i + 1), kernel("k", 100 * i + 10, 5 + i, i + 1)]
    samples = [(100 * i + 1, TID, IN_LAUNCH if i % 4 else LOADING) for i in range(30)]
    found = rows(
        opened(tmp_path, samples, events),
        "launch_stacks",
        "place",
        "match",
        "launches",
        "device_ns",
    )
    assert {row[:3] for row in found} == {
        ("train_step", "exact", 22), ("load_batch", "exact", 8), (None, "unmatched", 10),
    }  # fmt: skip
    assert sum(row[3] for row in found) == 1000 * sum(5 + i for i in range(40))
