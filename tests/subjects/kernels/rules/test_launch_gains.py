"""No rule about launches gains more than its kernels take, nor what an empty kernel takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.subjects.kernels.launch_fill import measure_fill
from support.campaigns import examples
from support.rules import answers
from support.traces import kernel, launched, opened

RULES = ("few-blocks", "small-blocks", "partial-wave", "double-precision", "generator-setup")
NAMES = (
    "solve(float *)",
    "heat(double *)",
    "setup_kernel(curandStateXORWOW *)",
    "ampere_dgemm_64x64_nn",
    "ampere_sgemm_128x64_tn",
)
GPU = {"id": 0, "name": "NVIDIA GeForce RTX 3090", "numSms": 82, "computeMajor": 8}
LAUNCH = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from([1, 7, 41, 82, 83, 100, 1313, 100_000]),
    st.sampled_from([1, 16, 32, 48, 128, 1000]),
    st.integers(2, 3000),
    st.integers(0, 30),
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(launches=st.lists(LAUNCH, min_size=1, max_size=12), streams=st.integers(1, 3))
@pytest.mark.parametrize("rule", RULES)
def test_gains(
    tmp_path: Path, rule: str, launches: list[tuple[str, int, int, int, int]], streams: int
) -> None:
    """Of kernels with gaps between them, on one to three streams."""
    events, begin, spare = [], 200, 0
    for i, (name, blocks, threads, length, gap) in enumerate(launches):
        shape = {"grid": [blocks, 1, 1], "block": [threads, 1, 1], "registers per thread": 32}
        work = kernel(name, begin, length, stream=7 + i % streams, **shape)
        events.append(launched(10 * i, work, dur=2))
        begin += length + gap
        spare += max(0, 1000 * length - 3000)
    run = opened(tmp_path, events, deviceProperties=[{**GPU, "computeMinor": 6}])
    for found in answers(run, rule):
        if not found.abstained:
            assert 0 <= (found.gain_ns or 0) <= spare
            assert (found.gain_ns or 0) <= (found.cost_ns or 0)


@given(
    grid=st.tuples(*[st.integers(1, 2000)] * 3),
    block=st.tuples(*[st.integers(1, 32)] * 3),
    registers=st.integers(0, 255),
    shared=st.integers(0, 100_000),
)
def test_what_is_filled_is_a_part_of_the_gpu(
    grid: tuple[int, int, int], block: tuple[int, int, int], registers: int, shared: int
) -> None:
    sizes = {f"grid_{a}": n for a, n in zip("xyz", grid, strict=True)}
    sizes |= {f"block_{a}": n for a, n in zip("xyz", block, strict=True)}
    resources = {"registers_per_thread": registers, "static_shared_bytes": shared}
    device = {"sm_count": 82, "compute_capability": "8.6", "vendor": "nvidia"}
    fill = measure_fill(sizes | resources, device)
    assert fill is not None
    parts = (fill.sms, fill.schedulers, fill.slots, fill.lanes, fill.wave, fill.share)
    assert all(0 < part <= 1 for part in parts)
    assert fill.share <= min(fill.sms, fill.schedulers, fill.slots, fill.lanes)


@pytest.mark.parametrize(
    ("device", "size"),
    [
        ({"vendor": "nvidia"}, 32),
        ({"vendor": "amd", "compute_capability": "gfx90a"}, 64),
        ({"vendor": "amd", "compute_capability": "gfx1100"}, 32),
        ({"vendor": "amd", "name": "AMD Instinct MI300X"}, 64),
        ({"vendor": "amd", "name": "AMD Instinct MI300X", "warp_size": 32}, 32),
        ({"vendor": "intel"}, None),
    ],
)
def test_waves_by_vendor(device: dict[str, object], size: int | None) -> None:
    """48 threads: 48 of 64 lanes of AMD's one wave or NVIDIA's two warps; nothing where unknown."""
    launch = dict.fromkeys(("grid_x", "block_x"), 48)
    launch |= dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1)
    fill = measure_fill(launch, {"sm_count": 8, **device})
    assert fill is not None
    assert (fill.warp_size, fill.lanes) == (size, 1.0 if size is None else 0.75)
