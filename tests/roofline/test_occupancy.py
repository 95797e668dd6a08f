"""Theoretical occupancy: by hand, by its laws, and against every real report."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sightline
from sightline.roofline.facts import load_facts
from sightline.roofline.launch import METRICS, read_limits_and_launch
from sightline.roofline.occupancy import Launch, Limits, compute_occupancy, list_neighbors
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures

A100 = Limits(max_warps=64, max_blocks=32, registers=65_536, shared_bytes=167_936)
REPORTS = list_recordings("ncu/**/*.ncu-rep")
launches = st.builds(
    Launch,
    threads=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared_bytes=st.integers(0, 167_936),
)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "warps", "limiters"),
    [
        (256, 32, 1024, 64, ("warps", "registers")),  # 8 warps × 8 blocks; 64 × 1024 registers
        (256, 33, 1024, 48, ("registers",)),  # 1056 → 1280 a warp: 12 a scheduler, 48 in all
        (32, 16, 1024, 32, ("blocks",)),  # one warp a block, 32 blocks
        (1024, 64, 1024, 32, ("registers",)),  # 2048 a warp: 32 warps, one block
        (128, 24, 40_000, 16, ("shared_mem",)),  # 167936 // 40064 = 4 blocks of 4 warps
        (1000, 16, 0, 64, ("warps",)),  # 32 warps each, the last of 8 threads
    ],
)
def test_by_hand(threads, registers, shared, warps, limiters):
    found = compute_occupancy(A100, Launch(threads, registers, shared))
    assert found.active_warps == warps
    assert found.limiters == limiters


@given(launches)
def test_what_fits_fits_and_one_more_does_not(launch):
    """Against the resources themselves, counted warp by warp."""
    found = compute_occupancy(A100, launch)
    warps = -(-launch.threads // 32)

    def fits(blocks: int) -> bool:
        per_warp = -(-launch.registers * 32 // 256) * 256
        used = [0] * 4
        for _ in range(blocks * warps):  # each warp goes to the emptiest scheduler
            used[used.index(min(used))] += per_warp
        shared = -(-launch.shared_bytes // 128) * 128 * blocks
        return (
            blocks <= 32 and blocks * warps <= 64 and max(used) <= 65_536 // 4 and shared <= 167_936
        )

    assert fits(found.active_blocks)
    assert not fits(found.active_blocks + 1)


@given(launches, st.sampled_from(["registers", "shared_bytes"]))
def test_needing_more_never_helps(launch, what):
    more = replace(launch, **{what: getattr(launch, what) + 8})
    assert (
        compute_occupancy(A100, more).active_blocks <= compute_occupancy(A100, launch).active_blocks
    )


def test_neighbours_are_the_nearest_that_differ():
    launch = Launch(256, 40, 1024)
    own = compute_occupancy(A100, launch).pct
    found = {
        (n.setting, n.value > getattr(launch, n.setting)): n for n in list_neighbors(A100, launch)
    }
    assert found["registers", False].value == 32
    assert found["registers", True].value == 41
    for n in found.values():
        step = {"registers": 1, "shared_bytes": 128, "threads": 32}[n.setting]
        low, high = sorted((getattr(launch, n.setting), n.value))
        for value in range(low + step, high, step):
            assert compute_occupancy(A100, replace(launch, **{n.setting: value})).pct == own


def knows_carveout(run):
    """Whether the version that recorded it tells the part of shared memory that is set aside."""
    version = run.table("recordings").get_column("tool_version").item()
    return tuple(map(int, version.split(".")[:2])) >= (2022, 2)


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=name_recording)
def test_theoretical_occupancy_and_limiter_of_every_real_kernel(path):
    run = sightline.open(str(path))
    reported = {
        (kernel, metric.removeprefix("launch__occupancy_limit_")): int(value)
        for kernel, metric, value in run.table("kernel_metrics")
        .filter(pl.col("metric").str.starts_with("launch__occupancy_limit_"))
        .select("kernel_id", "metric", "value")
        .rows()
    }
    rows = run.ask("occupancy").to_dicts()
    assert rows
    for row in rows:
        assert row["theoretical_pct"] == pytest.approx(row["reported_pct"], abs=1e-9)
        limits = {n: v for (k, n), v in reported.items() if k == row["kernel_id"]}
        least = {n for n, v in limits.items() if v == min(limits.values())}
        assert set(row["limiter"].split(", ")) == least
        for name, blocks in limits.items():
            # Tool versions 2020.2 to 2021.3 divide the SM's whole shared memory; since 2022.2 it
            # is the part that is set aside for it, as here. It limits neither way.
            if name != "shared_mem" or knows_carveout(run):
                figure = f"limit of blocks by {name}, kernel {row['kernel_id']}"
                compare_figures(path, figure, row[f"limit_{name}"], blocks)


@pytest.mark.corpus
@pytest.mark.parametrize("path", REPORTS, ids=name_recording)
def test_every_point_of_the_reports_own_sweeps(path):
    """Reports hold the warps per SM for 257 register counts and 65 block sizes of each kernel."""
    run = sightline.open(str(path))
    sweeps = run.table("kernel_metrics").filter(pl.col("instance_id").is_not_null())
    checked = 0
    for f in load_facts(run, METRICS):
        limits, launch = read_limits_and_launch(f)
        if not knows_carveout(run):
            launch = replace(launch, carveout_bytes=None)
        for metric, setting in (
            ("launch__occupancy_per_register_count", "registers"),
            ("launch__occupancy_per_block_size", "threads"),
        ):
            points = sweeps.filter(kernel_id=f.row["kernel_id"], metric=metric)
            for at, warps in points.select("instance_id", "value_int").rows():
                ours = compute_occupancy(limits, replace(launch, **{setting: at})).active_warps
                figure = f"warps at {setting} {at}, kernel {f.row['kernel_id']}"
                compare_figures(path, figure, ours, warps)
                checked += 1
    assert checked == 322 * run.rows("profiled_kernels")
