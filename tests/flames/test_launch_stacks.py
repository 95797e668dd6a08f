"""Sampled CPU stacks above the launches that have none of their own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sightline.flames import timeline
from sightline.flames.stacks import Stacks
from support import traces
from support.launch_samples import IN_LAUNCH, LOADING, MAIN, opened
from support.traces import TID, kernel, launch

ROOT = f"rank 0;thread {TID}"
END = "cudaLaunchKernel;GPU 0 stream 7"
NEAR = "[sampled near the launch]"


def paths(stacks: Stacks) -> dict[str, tuple[str, int]]:
    """'frame;frame' without layers, to grade and GPU time."""
    name = dict(stacks.frames.select("frame_id", "name").rows())
    return {
        ";".join(name[f] for f in frames): (match, ns)
        for frames, match, ns in stacks.rows.select("frames", "match", "gpu_time_ns").rows()
    }


def test_each_launch_stands_below_the_stack_that_was_sampled(tmp_path: Path) -> None:
    events = [
        launch(100, 4, 1), kernel("inside", 110, 50, 1),
        launch(200, 4, 2), kernel("near", 210, 40, 2),
        launch(400, 4, 4), kernel("far", 410, 20, 4),
        kernel("nobody", 500, 10, 99),
    ]  # fmt: skip
    samples = [(102, TID, IN_LAUNCH), (197, TID, LOADING), (415, TID, LOADING)]
    # main > train_step > libcudart: what the vendor's library did is no part of who called it.
    assert paths(timeline.stack_device_time(opened(tmp_path, samples, events))) == {
        f"{ROOT};main;train_step;{END};inside": ("exact", 50_000),
        f"{ROOT};{NEAR};main;load_batch;{END};near": ("near", 40_000),
        f"{ROOT};{END};far": ("exact", 20_000),
        "rank 0;[launch not recorded];GPU 0 stream 7;nobody": ("unmatched", 10_000),
    }


def test_python_stands_before_the_operators_and_below_the_annotations(tmp_path: Path) -> None:
    events = [
        traces.host("user_annotation", "forward", 90, 60),
        traces.op("aten::mm", 95, 20),
        launch(100, 4, 1), kernel("gemm", 110, 50, 1),
    ]  # fmt: skip
    run = opened(tmp_path, [(101, TID, IN_LAUNCH)], events)
    (path,) = paths(timeline.stack_device_time(run))
    assert path == f"{ROOT};forward;main;train_step;aten::mm;{END};gemm"


def test_recorded_python_is_kept(tmp_path: Path) -> None:
    events = [
        traces.host("python_function", "train.py(3): step", 90, 60),
        launch(100, 4, 1), kernel("gemm", 110, 50, 1),
    ]  # fmt: skip
    run = opened(tmp_path, [(101, TID, IN_LAUNCH)], events)
    (path,) = paths(timeline.stack_device_time(run))
    assert path == f"{ROOT};train.py(3): step;{END};gemm"


@pytest.mark.parametrize("seed", range(6))
def test_every_total_is_that_without_samples(seed: int, tmp_path: Path) -> None:
    """Whatever was sampled when: each kernel's time stays, and so does every grade's launch."""
    chance = random.Random(seed)
    events: list[Any] = []
    for i in range(60):
        events += [
            launch(100 * i, 4, i + 1, tid=TID + i % 2) if chance.random() < 0.9 else None,
            kernel(f"k{i % 3}", 100 * i + 10, chance.randint(1, 80), i + 1, stream=7 + i % 2),
        ]
        if chance.random() < 0.3:
            events.append(traces.op(f"op{i % 2}", 100 * i - 3, 20))
    events = [event for event in events if event is not None]
    nodes = (IN_LAUNCH, LOADING, MAIN)
    samples = [
        (chance.randint(0, 6000), TID + chance.randint(0, 1), chance.choice(nodes))
        for _ in range(chance.choice([0, 5, 200]))
    ]
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    found = timeline.stack_device_time(opened(tmp_path / "with", sorted(samples), events))
    plain = timeline.stack_device_time(opened(tmp_path / "without", [], events))
    for weight in plain.weights:
        assert found.total(weight) == plain.total(weight)
        assert sum_kernels(found, weight) == sum_kernels(plain, weight)
    # Nothing becomes or stops being a launch that is known.
    assert sum_kernels(found, "gpu_time_ns", "unmatched") == sum_kernels(
        plain, "gpu_time_ns", "unmatched"
    )


def sum_kernels(stacks: Stacks, weight: str, match: str | None = None) -> dict[int, int]:
    """Weight by kernel and stream, from the last two frames of each stack."""
    name = dict(stacks.frames.select("frame_id", "name").rows())
    found: dict[Any, int] = {}
    for frames, grade, value in stacks.rows.select("frames", "match", weight).rows():
        if match in (None, grade):
            key = tuple(name[f] for f in frames[-2:])
            found[key] = found.get(key, 0) + value
    return found
