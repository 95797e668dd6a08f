"""wrong-device-idle: processes share a device while another has nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support.rules import assert_abstains, assert_silent, assert_speaks
from support.traces import call, kernel, launched, opened, write
from synth_nsys import Export

RULE, MS = "wrong-device-idle", 1_000_000


def on_devices(folder: Path, *places: tuple[int, int], devices: int = 2) -> Run:
    """A process per (pid, device): ten kernels of 2 ms, at the same time as the others'."""
    export = Export("3.25.0")
    for device in range(devices):
        export.add("TARGET_INFO_GPU", id=device, name="NVIDIA H100", smCount=132)
    for pid, device in places:
        for i in range(10):
            at, number = 10_000 + 2 * MS * i, 100 * pid + i
            export.api("cudaLaunchKernel", at - 9_000, at - 4_000, number, pid, pid)
            export.kernel("gemm", at, at + 2 * MS, number, pid, device)
    return sightline.open(str(export.write(folder / "run.sqlite")))


@pytest.mark.parametrize(
    ("devices", "idle"), [(2, "device 1"), (3, "devices 1, 2"), (8, "devices 1 to 7")]
)
def test_two_processes_on_one_device_and_another_empty(
    tmp_path: Path, devices: int, idle: str
) -> None:
    """Both at once for all of 20 ms: spread, the same work takes half."""
    found = assert_speaks(
        on_devices(tmp_path, (7, 0), (8, 0), devices=devices),
        RULE,
        cost_ns=10 * MS,
        gain_ns=10 * MS,
        evidence=["device 0: 2 processes"],
        fix="cudaSetDevice",
        severity="critical",
    )
    assert idle in found.summary


def test_every_device_in_use(tmp_path: Path) -> None:
    assert_silent(on_devices(tmp_path, (7, 0), (8, 1)), RULE)


def test_one_process_on_one_of_two_devices_is_its_own_affair(tmp_path: Path) -> None:
    """The other device may be another rank's, with a recording of its own."""
    assert_silent(on_devices(tmp_path, (7, 0)), RULE)


def rank(folder: Path, number: int, world: int, *devices: int, listed: int = 2) -> str:
    """A recording of one rank, with a kernel on each of these devices."""
    events = [e for d in devices for e in launched(10 * d, kernel("k", 100, 100, device=d))]
    told = {"rank": number, "world_size": world}
    known = [{"id": d, "name": "NVIDIA H100"} for d in range(listed)]
    return str(
        write(folder, events, f"rank{number}.json", distributedInfo=told, deviceProperties=known)
    )


def test_all_of_the_job_on_one_of_two_devices_is_its_own_affair(tmp_path: Path) -> None:
    assert_silent(sightline.open(rank(tmp_path, 0, 1, 0)), RULE)


def test_ranks_that_name_the_same_device_may_be_on_other_machines(tmp_path: Path) -> None:
    run = sightline.open(rank(tmp_path, 0, 2, 0), rank(tmp_path, 1, 2, 0))
    assert_abstains(run, RULE, "--keep-identity")


def test_ranks_on_devices_of_their_own(tmp_path: Path) -> None:
    run = sightline.open(rank(tmp_path, 0, 2, 0, listed=3), rank(tmp_path, 1, 2, 1, listed=3))
    assert_silent(run, RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
