"""What a replay may run at once: kernels that fill the device do not run beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sightline.replay.gains import replay_gain
from sightline.replay.replay import is_finish, is_op, remove_ops, remove_waits
from sightline.replay.resources import list_shares
from support.traces import call, copy, kernel, launched, opened

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}
FULL, SMALL = {"grid": [4_224, 1, 1]}, {"grid": [20, 1, 1]}
IMAGES = 24


def images(shape: dict[str, Any]) -> list[Any]:
    """Images on two streams in turn: 1 ms each, and a synchronization of the host behind each."""
    events: list[Any] = []
    for n in range(IMAGES):
        at = 1_050 * n
        work = kernel("infer", at + 20, 1_000, stream=7 + n % 2, block=[256, 1, 1], **shape)
        events += [*launched(at, work), call("cudaStreamSynchronize", at + 6, 1_018)]
    return events


def gain_without_waits(run: Any) -> int:
    return replay_gain(run, lambda nodes: remove_waits(nodes, is_finish(nodes))).ns


def test_kernels_that_fill_the_device_follow_each_other(tmp_path: Path) -> None:
    """Without the waits the idle 50 µs behind each image go, and no kernel's millisecond."""
    run = opened(tmp_path, images(FULL), deviceProperties=[A100])
    idle = run.ask("breakdown").item(0, "idle_ns")
    assert idle == 50_000 * (IMAGES - 1)
    assert 0.9 * idle <= gain_without_waits(run) <= idle


def test_kernels_of_few_blocks_run_beside_each_other(tmp_path: Path) -> None:
    run = opened(tmp_path, images(SMALL), deviceProperties=[A100])
    busy = run.ask("breakdown").item(0, "compute_ns")
    assert gain_without_waits(run) == pytest.approx(busy / 2, rel=0.1)


def test_copies_of_one_direction_share_an_engine(tmp_path: Path) -> None:
    """Uploads on two streams: the link is busy all the while, whoever waits for whom."""
    events: list[Any] = []
    for n in range(IMAGES):
        work = copy("Memcpy HtoD (Pinned -> Device)", 1_020 * n + 20, 1_000, 8, stream=7 + n % 2)
        at = 1_020 * n
        events += [
            *launched(at, work, "cudaMemcpyAsync"),
            call("cudaStreamSynchronize", at + 6, 1_016),
        ]
    run = opened(tmp_path, events)
    assert gain_without_waits(run) <= run.ask("breakdown").item(0, "idle_ns")


def test_the_window_begins_where_it_was_recorded(tmp_path: Path) -> None:
    """An upload of 35 µs and, a second later, a kernel: without the upload 35 µs are gone."""
    upload = copy("Memcpy HtoD (Pageable -> Device)", 20, 35, 4_096)
    events = [
        *launched(0, upload, "cudaMemcpy", dur=60),
        *launched(1_000_000, kernel("k", 1_000_010, 5)),
    ]
    run = opened(tmp_path, events)
    ops = run.table("device_ops")
    gone = ops.filter(pl.col("kind") == "memcpy").get_column("device_op_id")
    assert replay_gain(run, lambda nodes: remove_ops(nodes, gone)).ns <= 100_000


def test_what_is_measured_beside_each_other_may_stay_so(tmp_path: Path) -> None:
    """Two full kernels at once, recorded so: a change elsewhere does not push them apart."""
    both = [kernel("infer", 20, 1_000, stream=s, block=[256, 1, 1], **FULL) for s in (7, 8)]
    events = [*launched(0, both[0]), *launched(6, both[1]), *launched(4_000, kernel("k", 4_010, 5))]
    run = opened(tmp_path, events, deviceProperties=[A100])
    nodes = run.ask("dependencies")
    last = nodes.filter(is_op(nodes), pl.col("name") == "k").get_column("ref_id")
    assert replay_gain(run, lambda given: remove_ops(given, last)).ns >= 5_000


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ({}, 1.0),  # nothing is known
        ({"grid_x": 108, "block_x": 1_024}, 0.5),  # two such blocks fit
        ({"grid_x": 108, "block_x": 1_024, "registers_per_thread": 64}, 1.0),  # one by registers
        ({"grid_x": 108, "block_x": 32}, 1 / 32),  # 32 blocks at most, whatever their size
        ({"grid_x": 100_000, "block_x": 128}, 1.0),
    ],
)
def test_share_of_a_launch(shape: dict[str, int], share: float) -> None:
    columns = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
    known = dict.fromkeys([*columns, "static_shared_bytes", "dynamic_shared_bytes"], 1) | {
        "registers_per_thread": None,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
    }
    if not shape:
        known |= dict.fromkeys(columns)
    row = {"rank": 0, "device_id": 0} | known | shape
    ops = pl.DataFrame([row], schema=dict.fromkeys(row, pl.Int64))
    limits = ["max_threads_per_sm", "registers_per_sm", "shared_bytes_per_sm"]
    device = {"rank": 0, "device_id": 0, "sm_count": 108, **dict.fromkeys(limits)}
    devices = pl.DataFrame([device], schema=dict.fromkeys(device, pl.Int64))
    assert list_shares(ops, devices).to_list() == [pytest.approx(share)]


def test_kernels_of_no_length_need_no_room(tmp_path: Path) -> None:
    """All begin and end in the same ns: what part of their time they had beside others is none."""
    run = opened(tmp_path, [*launched(0, kernel("a", 20, 0)), *launched(40, kernel("b", 50, 0))])
    assert run.ask("limits").height
