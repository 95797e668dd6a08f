"""What Score-P writes on a device's stream: kernels, copies as one-sided records, and idle ranges.

Score-P 9, adapters of CUDA (`scorep_cupti_activity.c`), HIP and OpenCL: a device gets from a host
or puts to it, and "COMPUTE IDLE" is an artificial range.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import sightline
from support.corpus import list_recordings, name_recording

otf2 = pytest.importorskip("otf2")
KERNEL, IDLE, COPY = "axpy(float*, int)", "COMPUTE IDLE", 42


def write_archive(folder: Path) -> None:
    """Kernels 100 to 300 and 300 to 450, copies in all directions, and idle time between them."""
    from otf2 import GroupType, LocationGroupType, LocationType, Paradigm, RegionRole, events

    with otf2.writer.open(str(folder), timer_resolution=10**9) as archive:
        define = archive.definitions
        node = define.system_tree_node("node")
        process = define.location_group(
            "Process", LocationGroupType.PROCESS, system_tree_parent=node
        )
        context = define.location_group("Context 1", system_tree_parent=node)
        host = define.location("Master thread", LocationType.CPU_THREAD, group=process)
        stream = define.location("CUDA[0:7]", LocationType.ACCELERATOR_STREAM, group=context)
        members = define.group(
            "CUDA",
            group_type=GroupType.COMM_LOCATIONS,
            paradigm=Paradigm.CUDA,
            members=(host, stream),
        )
        window = define.rma_win("CUDA_WINDOW", comm=define.comm("CUDA", group=members))
        main = define.region("main", region_role=RegionRole.FUNCTION, paradigm=Paradigm.COMPILER)
        kernel = define.region(KERNEL, region_role=RegionRole.FUNCTION, paradigm=Paradigm.CUDA)
        idle = define.region(IDLE, region_role=RegionRole.ARTIFICIAL, paradigm=Paradigm.CUDA)

        written = archive.event_writer_from_location(host)
        written.enter(0, main)
        written.leave(1000, main)
        device = archive.event_writer_from_location(stream)

        def copy(begin: int, end: int, kind: type, remote: int, size: int) -> None:
            device.write(kind(begin, window, remote, size, COPY))
            device.write(events.RmaOpCompleteBlocking(end, window, COPY))

        device.enter(0, idle)
        device.leave(20, idle)
        copy(20, 90, events.RmaGet, 0, 4096)
        for begin, end in ((100, 300), (300, 450)):
            device.enter(begin, kernel)
            device.leave(end, kernel)
        copy(450, 470, events.RmaGet, 1, 512)
        copy(480, 600, events.RmaPut, 0, 2048)
        device.enter(600, idle)
        device.leave(990, idle)
        device.write(events.RmaGet(995, window, 0, 64, COPY))


def test_copies_are_copies_and_idle_is_no_work(tmp_path: Path) -> None:
    write_archive(tmp_path / "run")
    run = sightline.open(str(tmp_path / "run"))
    ops = run.table("device_ops").select("start_ns", "end_ns", "kind", "copy_kind", "bytes", "name")
    assert ops.rows() == [
        (20, 90, "memcpy", "HtoD", 4096, "memory copy HtoD"),
        (100, 300, "kernel", None, None, KERNEL),
        (300, 450, "kernel", None, None, KERNEL),
        (450, 470, "memcpy", "DtoD", 512, "memory copy DtoD"),
        (480, 600, "memcpy", "DtoH", 2048, "memory copy DtoH"),
    ]
    # The copy that begins and does not end is told of.
    quality = run.table("quality").select("kind", "count").rows()
    assert ("unclosed_ranges", 1) in quality


DEFINED = re.compile(r'^(LOCATION|REGION) +(\d+) +Name: "(.*?)" <\d+>.*?(?:Type|Role): (\w+)')
HAPPENED = re.compile(r"^(ENTER|LEAVE|RMA_GET|RMA_PUT|RMA_OP_COMPLETE_BLOCKING) +(\d+) +(\d+)(.*)")


def read_printed(archive: Path) -> dict[str, tuple[int, int]]:
    """Count and ticks of a device's work by class, by the format's own program."""
    said = [
        subprocess.run(
            ["otf2-print", *more, archive], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for more in (["-G"], [])
    ]
    defined = [m.groups() for line in said[0] if (m := DEFINED.match(line))]
    streams = {n for what, n, _, kind in defined if what == "LOCATION" and "ACCEL" in kind}
    streams |= {n for what, n, _, kind in defined if what == "LOCATION" and kind == "GPU"}
    idle = {n for what, n, _, role in defined if what == "REGION" and role == "ARTIFICIAL"}
    begun: dict[str, list[tuple[str, int]]] = {}
    sums: dict[str, tuple[int, int]] = {}
    for what, place, when, rest in (m.groups() for line in said[1] if (m := HAPPENED.match(line))):
        if place not in streams:
            continue
        if what in ("ENTER", "RMA_GET", "RMA_PUT"):
            region = re.search(r"Region: .*<(\d+)>$", rest)
            kind = "memcpy" if region is None else "idle" if region[1] in idle else "kernel"
            begun.setdefault(place, []).append((kind, int(when)))
            continue
        kind, start = begun[place].pop()
        count, length = sums.get(kind, (0, 0))
        sums[kind] = (count + 1, length + int(when) - start)
    sums.pop("idle", None)
    return sums


def add_up(path: Path) -> dict[str, tuple[int, int]]:
    """The same of ours."""
    ops = sightline.open(str(path)).table("device_ops")
    lengths = ops["end_ns"] - ops["start_ns"]
    return {
        kind: ((chosen := lengths.filter(ops["kind"] == kind)).len(), chosen.sum())
        for kind in ops["kind"].unique()
    }


printed = pytest.mark.skipif(shutil.which("otf2-print") is None, reason="otf2-print is missing")


@printed
def test_sums_are_those_that_the_formats_own_program_prints(tmp_path: Path) -> None:
    write_archive(tmp_path / "run")
    theirs = read_printed(tmp_path / "run" / "traces.otf2")
    assert theirs == {"kernel": (2, 350), "memcpy": (3, 210)} == add_up(tmp_path / "run")


@printed
@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("otf2/**/traces.otf2"), ids=name_recording)
def test_sums_of_real_archives(path: Path) -> None:
    said = subprocess.run(["otf2-print", "-G", path], capture_output=True, text=True, check=True)
    clock = re.search(r"Ticks per Seconds: (\d+)", said.stdout)
    assert clock
    per_second = int(clock[1])
    theirs = read_printed(path)
    ours = add_up(path.parent)
    assert {kind: n for kind, (n, _) in ours.items()} == {k: n for k, (n, _) in theirs.items()}
    for kind, (count, ticks) in theirs.items():
        # Each end is rounded down to whole ns.
        assert abs(ours[kind][1] - ticks * 10**9 / per_second) <= count
