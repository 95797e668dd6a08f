"""Files that NVIDIA's libpcsamplingutil writes, against what was handed to it."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.nvidia import pcsampling_file
from sightline.opening.recognise import recognise
from support.cupti_mock import FETCHED, OWN, find_headers
from support.damage import survive_damage

LIBRARIES = FETCHED.parent / "lib"
Key = tuple[int, int, str, int, str]
REASONS = {3: "long_scoreboard", 4: "long_scoreboard_not_issued", 20: "selected"}


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    headers = find_headers(layouts=True)
    if isinstance(headers, str):
        pytest.skip(headers)
    if not (LIBRARIES / "libpcsamplingutil.so").is_file():
        pytest.skip(f"no libpcsamplingutil.so in {LIBRARIES}: scripts/setup fetches it")
    target = tmp_path_factory.mktemp("writer") / "write_samples"
    subprocess.run(
        ["g++", "-std=c++17", "-isystem", str(headers), str(OWN / "write_samples.cpp"), "-o",
         str(target), f"-L{LIBRARIES}", "-lpcsamplingutil", "-l:libcupti.so.13"],
        check=True,
    )  # fmt: skip
    return target


def write(writer: Path, path: Path, seed: int, buffers: int, places: int) -> list[list[str]]:
    """A file, and the words of what was handed to the library."""
    done = subprocess.run(
        [str(writer), str(path), str(seed), str(buffers), str(places)],
        env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)},
        check=True,
        capture_output=True,
        text=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


def read(path: Path) -> Imported:
    return pcsampling_file.read(Source(path, path.name), ImportOptions())


@pytest.mark.parametrize(
    ("seed", "buffers", "places"), [(1, 1, 1), (2, 1, 200), (3, 5, 37), (4, 2, 5000)]
)
def test_what_the_library_wrote(
    writer: Path, tmp_path: Path, seed: int, buffers: int, places: int
) -> None:
    path = tmp_path / "pcsampling.dat"
    handed: Counter[Key] = Counter()
    for crc, offset, function, correlation, reason, count in write(
        writer, path, seed, buffers, places
    ):
        if int(count):
            key = (int(crc), int(offset), function, int(correlation), REASONS[int(reason)])
            handed[key] += int(count)
    # Every count of every place, as it was handed over.
    found: Counter[Key] = Counter()
    for row in pcsampling_file.list_rows(path.read_bytes()).iter_rows(named=True):
        reason = row["name"].removeprefix("smsp__pcsamp_warps_issue_stalled_")
        key = (row["cubin"], row["offset"], row["function"], row["correlation"], reason)
        found[key] += row["samples"]
    assert found == handed
    # And as tables: samples per function, period, what was lost.
    imported = read(path)
    samples = imported.tables["pc_samples"].join(
        imported.tables["profiled_kernels"].select("kernel_id", "mangled_name"), on="kernel_id"
    )
    assert samples["samples"].sum() == sum(
        count for key, count in handed.items() if not key[-1].endswith("_not_issued")
    )
    assert set(samples["period_cycles"]) == {1 << 13}
    limits = {q.kind: q.count for q in imported.quality}
    assert limits["dropped_samples"] == 7 * buffers
    assert limits["non_user_samples"] == 5 * buffers
    assert recognise(Source(path, path.name)).name == "pcsampling_file"


def test_damaged_files(writer: Path, tmp_path: Path) -> None:
    write(writer, tmp_path / "a.dat", 5, 2, 6)
    survive_damage(pcsampling_file.read, tmp_path / "x.dat", (tmp_path / "a.dat").read_bytes())


def test_a_buffer_that_is_cut_off(writer: Path, tmp_path: Path) -> None:
    write(writer, tmp_path / "a.dat", 6, 2, 6)
    data = (tmp_path / "a.dat").read_bytes()
    (tmp_path / "b.dat").write_bytes(data[:-10])
    imported = read(tmp_path / "b.dat")
    assert "truncated" in {q.kind for q in imported.quality}
    (tmp_path / "c.dat").write_bytes(data[:100])
    with pytest.raises(DamagedError, match="cannot read"):
        read(tmp_path / "c.dat")
