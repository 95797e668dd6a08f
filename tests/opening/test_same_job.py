"""Recordings of different jobs are not merged, and what a folder holds besides is listed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import InputError
from support.command import sightline as run_command
from support.snapshots import alloc, snapshot
from support.traces import kernel, op, write

BASE = 1_700_000_000_000_000_000
MINUTE = 60_000_000_000
EVENTS = [kernel("k", 0, 5), kernel("k", 10, 5)]


def job(size: int, rank: int) -> dict[str, Any]:
    return {"distributedInfo": {"rank": rank, "world_size": size}}


def gpu(name: str) -> dict[str, Any]:
    return {"deviceProperties": [{"id": 0, "name": name}]}


def at(ns: int) -> dict[str, Any]:
    return {"baseTimeNanoseconds": BASE + ns}


def pair(folder: Path, first: dict[str, Any], second: dict[str, Any], *, events: Any = EVENTS):
    return [
        str(write(folder, EVENTS, "a.json", **first)),
        str(write(folder, events, "b.json", **second)),
    ]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (job(8, 0), job(2, 1), "a.json belongs to a job of 8 ranks, "),
        (gpu("NVIDIA H100"), gpu("NVIDIA A100"), "a.json was recorded on NVIDIA H100, "),
        (at(0), at(3 * MINUTE), "a.json ended 2 minutes before "),
        (at(3 * MINUTE), at(0), "b.json ended 2 minutes before "),
    ],
)
def test_what_differs_is_an_error_that_names_the_files(tmp_path, first, second, said):
    with pytest.raises(InputError) as raised:
        sightline.open(*pair(tmp_path, first, second))
    assert said in str(raised.value)
    assert f"sightline {tmp_path}/a.json\n" in (raised.value.hint or "")
    assert f"sightline {tmp_path}/b.json\n" in (raised.value.hint or "")


def test_different_programs_share_no_kernel(tmp_path):
    paths = pair(tmp_path, {}, {}, events=[kernel("other", 0, 5)])
    with pytest.raises(InputError, match="they run different programs"):
        sightline.open(*paths)
    # Stages of a pipeline may: their recordings say that they are of one job.
    paths = pair(tmp_path, job(2, 0), job(2, 1), events=[kernel("other", 0, 5)])
    assert sightline.open(*paths).table("recordings").height == 2


def dated_job(size: int, rank: int, ns: int) -> dict[str, Any]:
    return {**job(size, rank), **at(ns)}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (job(2, 0), job(2, 1)),
        (gpu("NVIDIA H100"), {}),
        (at(0), at(10_000)),
        (dated_job(2, 0, 0), dated_job(2, 1, MINUTE // 2)),  # clocks of hosts are so far apart
        (dated_job(2, 0, 0), job(2, 1)),  # times that are no dates are not compared
    ],
)
def test_what_ranks_times_and_programs_show_to_be_one_job_is_merged(tmp_path, first, second):
    assert sightline.open(*pair(tmp_path, first, second)).table("recordings").height == 2


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (at(0), at(MINUTE // 2), "a.json ended 30.00 s before "),  # two captures
        (at(0), {}, "nothing shows that "),
    ],
)
def test_what_nothing_shows_to_be_one_job_is_two(tmp_path, first, second, said):
    with pytest.raises(InputError) as raised:
        sightline.open(*pair(tmp_path, first, second))
    assert said in str(raised.value)


OPERATORS = [op("aten::mm", 0, 5), op("aten::add", 10, 5)]


def test_cpu_programs_are_told_apart_by_their_times(tmp_path):
    """Those of one moment are one job; one that ended before the other began is another."""
    gpu_trace = write(tmp_path, EVENTS, "gpu.json", **at(0))
    cpu_trace = write(tmp_path, OPERATORS, "cpu.json", **at(5000 * MINUTE))
    with pytest.raises(InputError, match=r"gpu\.json ended 3 days before "):
        sightline.open(str(gpu_trace), str(cpu_trace))
    write(tmp_path, OPERATORS, "cpu.json", **at(0))
    assert sightline.open(str(gpu_trace), str(cpu_trace)).table("recordings").height == 2


def test_programs_profiled_one_after_the_other_on_one_clock_are_jobs(tmp_path):
    """As of rocprofv3, whose clock counts from the machine's start, so that its times are no dates.

    They share the kernel that fills memory, and no rank is stated.
    """
    for number, name in enumerate(("bmm", "ck", "hipblaslt", "rocblas")):
        start = 10**6 * (number + 1)
        events = [kernel(name, start + 10 * n, 5) for n in range(20)]
        write(tmp_path, [kernel("fill", start - 20, 5), *events], f"{name}.json")
    with pytest.raises(InputError) as raised:
        sightline.open(str(tmp_path))
    for name in ("bmm", "ck", "hipblaslt", "rocblas"):
        assert f"  sightline {tmp_path}/{name}.json\n" in (raised.value.hint or "")


def test_each_job_of_a_folder_is_its_folder(tmp_path):
    """A checkout holds many: each is listed once, with a command that opens all of it."""
    for number in range(3):
        for rank in range(2):
            header = dated_job(2, rank, number * 100 * MINUTE)
            write(tmp_path / f"run{number}", EVENTS, f"rank{rank}.json", **header)
    with pytest.raises(InputError) as raised:
        sightline.open(str(tmp_path))
    commands = [f"  sightline {tmp_path}/run{number}" for number in range(3)]
    assert (raised.value.hint or "").splitlines()[1:4] == commands
    for command in commands:
        assert sightline.open(command.split()[1]).table("recordings").height == 2


def test_what_has_no_times_goes_with_the_only_job(tmp_path):
    """And not where it is one of several of its kind, which would be taken for ranks."""
    write(tmp_path, EVENTS, "trace.json")
    content = pickle.dumps(snapshot([alloc(0x7F00, 1024, 1)], []))
    (tmp_path / "a.pickle").write_bytes(content)
    run = sightline.open(str(tmp_path))
    assert run.table("recordings").height == 2
    (told,) = run.table("quality").filter(kind="unproven_job").get_column("text")
    assert "a.pickle" in told
    assert "trace.json" in told
    (tmp_path / "b.pickle").write_bytes(content)
    with pytest.raises(InputError):
        sightline.open(str(tmp_path))


def test_same_job_merges_all_the_same(tmp_path):
    paths = pair(tmp_path, gpu("NVIDIA H100"), gpu("NVIDIA A100"))
    assert sightline.open(*paths, same_job=True).table("recordings").height == 2
    assert run_command("report", *paths, "--no-html").code == 2
    assert run_command("report", *paths, "--no-html", "--same-job").code == 0
    assert run_command("sql", *paths, "SELECT 1", "--same-job").code == 0


def test_each_job_is_one_command(tmp_path):
    paths = [write(tmp_path, EVENTS, f"{n}.json", **job(2 + n % 2, n)) for n in range(4)]
    said = run_command("report", *paths, "--no-html").err
    assert f"  sightline {paths[0]} {paths[2]}\n" in said
    assert f"  sightline {paths[1]} {paths[3]}\n" in said


def test_files_of_a_folder_that_are_no_recordings_are_listed(tmp_path):
    write(tmp_path, EVENTS, "a.json")
    for n in range(6):
        (tmp_path / f"note{n}.txt").write_text("no recording")
    run = sightline.open(str(tmp_path))
    (row,) = run.table("quality").filter(kind="files_skipped").to_dicts()
    assert row["count"] == 6
    assert row["text"].endswith("skipped: note0.txt, note1.txt, note2.txt, note3.txt, note4.txt, …")
    assert "skipped: note0.txt" in " ".join(
        run_command("report", tmp_path, "--no-html").out.split()
    )


def test_a_file_of_a_folder_that_cannot_be_read_does_not_stop_the_rest(tmp_path):
    write(tmp_path, EVENTS, "a.json")
    broken = tmp_path / "b.json"
    broken.write_text('{"traceEvents": ')
    run = sightline.open(str(tmp_path))
    (row,) = run.table("quality").filter(kind="file_unread").to_dicts()
    assert row["text"] == f"cannot read {broken}"
    with pytest.raises(InputError, match="cannot read"):  # named by a person: an error
        sightline.open(str(tmp_path / "a.json"), str(broken))
    (tmp_path / "a.json").unlink()
    with pytest.raises(InputError, match="cannot read"):
        sightline.open(str(tmp_path))
