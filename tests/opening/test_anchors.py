"""A file that stands for its folder opens the folder: an archive's anchor, CTF's metadata, ..."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sightline
from sightline.errors import InputError
from sightline.opening.paths import find_whole
from support import traces
from support.ctf_traces import Bits, declare_events, write_trace
from support.workloads import CYCLES, write_workload

ARCHIVE = "otf2/hpcgroup__pipit/pipit/tests/data/ping-pong-otf2"


def write_marks(folder: Path) -> Path:
    bits = Bits().integer(0, 8).integer(5, 64).integer(9, 32).integer(1, 32)
    context = "event.context := struct { uint32_t vpid; uint32_t vtid; };"
    return write_trace(folder, declare_events([("a:b", "")], context=context), bits.bytes())


def test_the_metadata_of_a_ctf_trace(tmp_path: Path) -> None:
    folder = write_marks(tmp_path / "t")
    whole = sightline.open(str(folder)).table("host_ops")
    assert whole.height == 1
    assert sightline.open(str(folder / "metadata")).table("host_ops").equals(whole)


@pytest.mark.parametrize("name", ["pmc_perf.csv", "sysinfo.csv"])
def test_a_file_of_a_workload_knows_the_gpu(tmp_path: Path, name: str) -> None:
    folder = write_workload(tmp_path / "w", CYCLES)
    run = sightline.open(str(folder / name))
    assert run.table("devices").get_column("name").to_list() == ["MI300X"]


def test_the_table_without_its_folder_is_read_by_itself(tmp_path: Path) -> None:
    write_workload(tmp_path / "w", CYCLES)
    alone = tmp_path / "alone.csv"
    shutil.copy(tmp_path / "w" / "pmc_perf.csv", alone)
    assert find_whole(alone) is None
    assert sightline.open(str(alone)).rows("kernel_metrics") > 0


def test_a_file_of_that_name_elsewhere_is_itself(tmp_path: Path) -> None:
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 10)])
    other = trace.rename(tmp_path / "metadata")
    assert find_whole(other) is None
    assert sightline.open(str(other)).rows("device_ops") == 1


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["traces", "run 7"])
def test_an_archive_by_any_name(corpus: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("otf2")
    whole = sightline.open(str(corpus / ARCHIVE)).table("host_ops").select("name", "start_ns")
    folder = tmp_path / "archive"
    shutil.copytree(corpus / ARCHIVE, folder)
    for path in list(folder.glob("traces*")):
        path.rename(folder / path.name.replace("traces", name))
    for given in (folder, folder / f"{name}.otf2", folder / f"{name}.def"):
        assert sightline.open(str(given)).table("host_ops").select("name", "start_ns").equals(whole)


@pytest.mark.corpus
def test_several_archives_in_a_folder_are_named(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    shutil.copytree(corpus / ARCHIVE, tmp_path / "a")
    for ending in (".otf2", ".def"):
        shutil.copy(tmp_path / "a" / f"traces{ending}", tmp_path / "a" / f"other{ending}")
    with pytest.raises(InputError, match=r"other\.otf2, traces\.otf2"):
        sightline.open(str(tmp_path / "a"))
