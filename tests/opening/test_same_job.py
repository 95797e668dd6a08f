"""Recordings of different jobs are not merged, and what a folder holds besides is listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import InputError
from support.command import sightline as run_command
from support.traces import kernel, write

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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (job(2, 0), job(2, 1)),
        (gpu("NVIDIA H100"), {}),
        (at(0), at(MINUTE // 2)),
        (at(0), {}),  # times that are no dates are not compared
    ],
)
def test_what_may_be_of_one_job_is_merged(tmp_path, first, second):
    assert sightline.open(*pair(tmp_path, first, second)).table("recordings").height == 2


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
