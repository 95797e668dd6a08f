"""The event file under what can happen to it: death in a write, a full disk, damage."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.core.model import event_file as f
from sightline.errors import SightlineError
from sightline.record.inline import session
from sightline.record.inline.recorder import Recorder, end, now
from support.campaigns import sample
from support.recorders import recorder_kind  # noqa: F401  # a fixture

LOOP = """
import sys, sightline as sl
for n in range(10_000_000):
    if n == 200:
        print("ready", flush=True)
    with sl.annotate("attention", n if n % 100 == 0 else None):
        pass
    sl.step()
"""


def env_for(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    return {**os.environ, session.VARIABLE: json.dumps({"folder": str(folder)})}


@pytest.mark.usefixtures("recorder_kind")
def test_killed_in_the_middle_of_a_write(tmp_path):
    """Whatever was whole is there: steps count up without a gap, and each has its range."""
    folder = tmp_path / "r.sightline"
    for size in (1 << 20, 4 << 20):  # a file grows by a megabyte at a time
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP], env=env_for(folder), stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        while sum(path.stat().st_size for path in folder.iterdir()) < size:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        run = sl.open(str(folder))
        steps = run.table("host_ops").filter(pl.col("layer") == "step").sort("start_ns")
        numbers = steps.get_column("name").str.extract(r"(\d+)$").cast(pl.Int64).to_list()
        assert len(numbers) > 100
        assert numbers == list(range(len(numbers)))
        ranges = run.table("host_ops").filter(pl.col("name") == "attention").height
        assert ranges in (len(numbers), len(numbers) - 1, len(numbers) + 1)
        kinds = run.table("quality").get_column("kind").to_list()
        assert "process_killed" in kinds
        for path in folder.iterdir():
            path.unlink()


FULL = """
import resource, sys, sightline as sl
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
total = 0
for n in range(40_000):
    with sl.annotate("work"):
        total += n
print(total)
"""


@pytest.mark.usefixtures("recorder_kind")
@pytest.mark.parametrize(("limit", "whole"), [(1 << 20, 32_000), (4096, 0)])
def test_a_full_disk_loses_marks_and_nothing_else(tmp_path, limit, whole):
    """A limit on the size of files fails the same call as a full disk does."""
    folder = tmp_path / "r.sightline"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(limit)],
        env=env_for(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(sum(range(40_000)))
    if not whole:
        assert "cannot record" in done.stderr
        assert list(folder.iterdir()) == []
        return
    assert done.stderr == ""
    run = sl.open(str(folder))
    assert whole < run.rows("host_ops") < 32_768
    lost = run.table("quality").filter(pl.col("kind") == "events_lost").row(0, named=True)
    assert lost["severity"] == "error"
    assert lost["count"] > 7_000


@pytest.mark.usefixtures("recorder_kind")
def test_a_really_full_disk(tmp_path):
    """A file system of 1.5 MiB: the second chunk finds no room."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system can only be mounted by root")
    try:
        done = subprocess.run(
            [sys.executable, "-c", FULL, str(1 << 30)],
            env=env_for(place / "r.sightline"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(sum(range(40_000)))
        run = sl.open(str(place / "r.sightline"))
        assert 32_000 < run.rows("host_ops") < 32_768
        assert "events_lost" in run.table("quality").get_column("kind").to_list()
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("e") / "p.events"
    file = Recorder(path)
    file.fact(rank=3, world_size=8, sightline="0.1.0", pair_ns=700)
    for n in range(20):
        chunk, at = file.begin(file.name(f"range {n % 3} with a long name: {'x' * 40}"), now())
        file.sample("power [W]", now(), 300.0 + n, 1)
        end(chunk, at, now(), f.RANGE)
    file.close()
    return path.read_bytes()[: 160 * f.SLOT]


def test_the_intact_file(tmp_path, whole):
    path = tmp_path / "p.events"
    path.write_bytes(whole)
    run = sl.open(str(path))
    assert run.rows("host_ops") == 20
    recording = run.table("recordings").row(0, named=True)
    assert (recording["rank"], recording["world_size"], recording["tool"]) == (3, 8, "sightline")
    samples = run.table("counters").sort("time_ns")
    assert samples.get_column("value").to_list() == [300.0 + n for n in range(20)]
    assert samples.select("metric", "unit", "device_id").unique().rows() == [("power", "W", 1)]


def test_every_truncation_is_read_or_refused(tmp_path, whole):
    path = tmp_path / "p.events"
    known = 0
    for length in [*sample(range(0, len(whole), 171), 5), len(whole)]:
        path.write_bytes(whole[:length])
        try:
            rows = sl.open(str(path)).rows("host_ops")
        except SightlineError:
            assert length < 2 * f.SLOT
            continue
        assert rows >= known  # more of the file never holds less
        known = rows
    assert known == 20


def test_flipped_bits_never_escape_as_a_traceback(tmp_path, whole):
    path = tmp_path / "p.events"
    rng, survived = random.Random(9), 0
    for _ in range(12):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(16, len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            run = sl.open(str(path))
            run.table("host_ops")
            rows = run.rows("host_ops")
            run.ask("annotations") if rows else None
        except SightlineError as error:
            assert str(path) in str(error)
        else:
            assert rows or run.rows("quality")
            survived += rows > 0
    assert survived >= 6, "a few bits lose a few records, not the file"
