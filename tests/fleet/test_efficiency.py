"""The factors of a job's efficiency, worked out by hand, and what they multiply to."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.fleet.efficiency import measure_efficiency
from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from support.jobs import collective
from support.traces import kernel, write


def test_two_ranks_of_which_one_computes_half_as_long(tmp_path: Path) -> None:
    """60 and 30 µs of compute, then 40 µs of transfer after the later one; no copies."""
    for rank, work in enumerate((60, 30)):
        events = [kernel("gemm", 0, work), collective(work, 100 - work, members=(0, 1))]
        told = {"rank": rank, "world_size": 2}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=told)
    found = measure_efficiency(compose_job(reduce_recordings([str(tmp_path)]).ranks))
    assert (found.length_ns, found.useful_ns) == (100_000, 90_000)
    # Mean 45 of 60; on an ideal network it takes 60, which is all useful; that is 60 of 100.
    pop = (found.load_balance, found.serialisation, found.transfer)
    assert pop == pytest.approx((0.75, 1.0, 0.6))
    assert found.parallel == pytest.approx(90 / 200)
    # TALP counts kernels of communication: both are busy throughout.
    talp = (found.talp_load_balance, found.talp_communication, found.talp_orchestration)
    assert talp == (1.0, 1.0, 1.0)


def test_talps_factors(tmp_path: Path) -> None:
    """Of 200 µs: 40 and 20 µs of kernels, the first copies for 40 µs more, then nothing."""
    for rank, work in enumerate((40, 20)):
        copy = kernel("Memcpy HtoD", 40, 40, cat="gpu_memcpy")
        events = [kernel("gemm", 0, work), *([copy] if rank == 0 else [])]
        last = collective(190, 10, members=(0, 1))
        told = {"rank": rank, "world_size": 2}
        write(tmp_path, [*events, last], f"rank{rank}.json", distributedInfo=told)
    found = measure_efficiency(compose_job(reduce_recordings([str(tmp_path)]).ranks))
    # Kernels 50 and 30 with the collective; active 90 and 30; of 200.
    assert found.talp_load_balance == pytest.approx(80 / 100)
    assert found.talp_communication == pytest.approx(50 / 90)
    assert found.talp_orchestration == pytest.approx(90 / 200)
    assert found.talp_parallel == pytest.approx(80 / 400)
