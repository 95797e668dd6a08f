"""OTF2 archives of Score-P: against the library's own events, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sightline
from sightline.errors import SightlineError
from sightline.formats.hpc.otf2 import IMPORTER
from support.campaigns import CAMPAIGNS
from support.command import sightline as run_command

library = pytest.importorskip("otf2")
PING_PONG = "otf2/hpcgroup__pipit/pipit/tests/data/ping-pong-otf2"
MI300 = "otf2/hpc-ai-adv-dev__fastotf2/sample-traces/simple-mi300-example-run"


def list_ranges(folder: Path) -> list[tuple[str, str, int]]:
    """Location type, name and length in ns of every range, by a stack for each location."""
    found, stacks = [], {}
    with library.reader.open(str(folder / "traces.otf2")) as reader:
        resolution = int(reader.timer_resolution)
        for location, event in reader.events:
            stack = stacks.setdefault(location, [])
            if type(event).__name__ == "Enter":
                stack.append((event.region, event.time))
            elif type(event).__name__ == "Leave":
                region, start = stack.pop()
                times = [t * 10**9 // resolution for t in (start, event.time)]
                found.append((str(location.type), region.name, times[1] - times[0]))
    return sorted(found)


@pytest.mark.corpus
@pytest.mark.parametrize("name", [PING_PONG, MI300])
def test_ranges_are_those_of_the_library(corpus: Path, name: str) -> None:
    run = sightline.open(str(corpus / name))
    length = pl.col("end_ns") - pl.col("start_ns")
    found = [
        (f"LocationType.{kind}", *row)
        for table, kind in (("host_ops", "CPU_THREAD"), ("device_ops", "GPU"))
        for row in run.table(table).select("name", length).rows()
    ]
    # What Score-P itself does is no part of the program.
    own = ("TRACE BUFFER FLUSH", "MEASUREMENT OFF", "kernel", "ping-pong.otf2")
    assert sorted(found) == [r for r in list_ranges(corpus / name) if r[1] not in own]


@pytest.mark.corpus
def test_gpus_threads_and_metrics(corpus: Path) -> None:
    run = sightline.open(str(corpus / MI300))
    ops = run.table("device_ops").select("device_id", "kind", "name", "correlation_id")
    assert [row[:2] for row in ops.rows()] == [(0, "kernel"), (1, "kernel")]
    assert run.table("devices").get_column("vendor").to_list() == ["amd", "amd"]
    assert run.rows("counters") == 72_584
    layers = set(run.table("host_ops").get_column("layer"))
    assert layers == {"runtime", "other"}
    threads = sightline.open(str(corpus / PING_PONG)).table("threads")
    assert threads.get_column("process_name").to_list() == ["MPI Rank 0", "MPI Rank 1"]


@pytest.mark.corpus
def test_damage(corpus: Path, tmp_path: Path) -> None:
    """Flipped and cut files: an answer or an error, though the library may crash."""
    random = Random(7)
    for number in range(60 if CAMPAIGNS else 4):
        folder = tmp_path / str(number)
        shutil.copytree(corpus / PING_PONG, folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        (folder / "traces").chmod(0o755)
        file = random.choice(["traces.def", "traces/0.evt", "traces/1.def", "traces.otf2"])
        data = bytearray((folder / file).read_bytes())
        for _ in range(3):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        (folder / file).write_bytes(
            bytes(data[: random.randrange(len(data))]) if number % 2 else data
        )
        try:
            sightline.open(str(folder))
        except SightlineError as error:
            assert str(error)


def test_one_file_of_an_archive_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "traces.otf2").write_bytes(b"\x03BOTF2\x00\x03\x02\x02\x03")
    outcome = run_command("report", tmp_path / "traces.otf2")
    assert outcome.code == 2
    assert "Give the folder" in " ".join(outcome.err.split())
    assert IMPORTER.suffixes == (".otf2",)
