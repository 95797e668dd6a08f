"""rocprof-compute workloads: what becomes what, figures from the CSV itself, and damage."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.amd import rocprof_compute
from support.campaigns import sample
from support.damage import survive_damage
from support.workloads import CYCLES, DISPATCH, MI300X, write_table, write_workload

COUNTED = CYCLES | {"SQ_WAVES": 25600, "TCC_HIT[0]": 5, "TCC_HIT[1]": 7, "Wave_Size_1": 64}


def read(path: Path, *, keep_identity: bool = False) -> Imported:
    options = ImportOptions(keep_identity=keep_identity)
    imported: Imported = rocprof_compute.read(Source(path, path.name), options)
    return imported


def metrics_of(imported: Imported, kernel: int = 0) -> dict[tuple[str, int | None], float]:
    rows = imported.tables["kernel_metrics"].filter(kernel_id=kernel)
    return {(r["metric"], r["instance_id"]): r["value"] for r in rows.iter_rows(named=True)}


def test_what_becomes_what(tmp_path: Path) -> None:
    folder = write_workload(tmp_path, COUNTED, COUNTED | {"End_Timestamp": "1010000.6"})
    imported = read(folder)
    kernels = imported.tables["profiled_kernels"]
    columns = ("kernel_id", "name", "occurrence", "device_id", "grid_x", "block_x", "duration_ns")
    assert kernels.select(columns).rows() == [
        (0, "scale(float*)", 0, 2, 6400, 256, 10_000),
        (1, "scale(float*)", 1, 2, 6400, 256, 10_001),
    ]
    found = metrics_of(imported)
    assert found["SQ_WAVES", None] == 25600
    assert (found["TCC_HIT", 0], found["TCC_HIT", 1]) == (5, 7)
    assert found["Arch_VGPR", None] == 32
    assert found["cu_per_gpu", None] == 304
    assert not {name for name, _ in found} & {"Wave_Size_1", "Dispatch_ID", "obj"}
    device = imported.tables["devices"].row(0, named=True)
    assert (device["vendor"], device["compute_capability"]) == ("amd", "gfx942")
    assert device["memory_bandwidth_bytes_per_s"] == 5_324_800_000_000
    assert imported.recording.host is None
    assert read(folder, keep_identity=True).recording.host == "node7"
    assert imported.quality == []


def test_levels_come_of_a_pass_of_their_own(tmp_path: Path) -> None:
    folder = write_workload(tmp_path, CYCLES)
    level = DISPATCH | {"GRBM_GUI_ACTIVE": 40_000, "SQ_ACCUM_PREV_HIRES": 9_000_000}
    write_table(folder / "SQ_LEVEL_WAVES.csv", [level])
    found = metrics_of(read(folder))
    assert found["SQ_LEVEL_WAVES_ACCUM", None] == 9_000_000
    assert found["GRBM_GUI_ACTIVE@SQ_LEVEL_WAVES", None] == 40_000
    assert found["GRBM_GUI_ACTIVE", None] == 80_000


def test_a_row_for_each_counter_is_read_like_a_column_each(tmp_path: Path) -> None:
    rows = [
        DISPATCH | {"Counter_Name": name, "Counter_Value": value}
        for name, value in (("SQ_WAVES", 25600.0), ("TCC_HIT[1]", 7.0))
    ]
    write_table(tmp_path / "pmc_perf.csv", rows)
    write_table(tmp_path / "sysinfo.csv", [MI300X])
    (tmp_path / "pmc_perf.csv.gz").write_bytes(
        gzip.compress((tmp_path / "pmc_perf.csv").read_bytes())
    )
    (tmp_path / "pmc_perf.csv").unlink()
    found = metrics_of(read(tmp_path))
    assert (found["SQ_WAVES", None], found["TCC_HIT", 1]) == (25600, 7)


def test_passes_stand_in_for_a_joined_table_that_is_missing(tmp_path: Path) -> None:
    write_table(tmp_path / "pmc_perf_0.csv", [DISPATCH | {"SQ_WAVES": 4}])
    write_table(tmp_path / "pmc_perf_1.csv", [DISPATCH | {"SQ_INSTS": 9}])
    found = metrics_of(read(tmp_path))
    assert (found["SQ_WAVES", None], found["SQ_INSTS", None]) == (4, 9)


def test_a_single_file_says_what_is_missing(tmp_path: Path) -> None:
    folder = write_workload(tmp_path, COUNTED)
    (folder / "sysinfo.csv").unlink()  # beside it, the file stands for its folder
    run = sightline.open(str(folder / "pmc_perf.csv"))
    assert run.rows("profiled_kernels") == 1
    assert run.table("quality").get_column("kind").to_list() == ["no_machine"]


def test_times_that_a_spreadsheet_rounded_are_no_times(tmp_path: Path) -> None:
    rounded = {"Start_Timestamp": "8.1097E+14", "End_Timestamp": "8.1097E+14"}
    folder = write_workload(tmp_path, CYCLES | rounded)
    imported = read(folder)
    assert imported.tables["profiled_kernels"].get_column("duration_ns").to_list() == [None]
    assert [note.kind for note in imported.quality] == ["rounded_times"]


def test_a_folder_of_workloads_holds_a_recording_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_workload(tmp_path / name, CYCLES)
    run = sightline.open(str(tmp_path), same_job=True)
    assert run.table("recordings").get_column("path").str.slice(-1).to_list() == ["a", "b"]


# -- damage ---------------------------------------------------------------------------------------


def try_reading(folder: Path, table: bytes) -> Imported | None:
    (folder / "pmc_perf.csv").write_bytes(table)
    try:
        return read(folder)
    except DamagedError as error:
        assert error.why
        return None


def golden(folder: Path) -> bytes:
    return (write_workload(folder, COUNTED, COUNTED) / "pmc_perf.csv").read_bytes()


def test_every_truncation(tmp_path: Path) -> None:
    whole = golden(tmp_path)
    for cut in sample(range(len(whole)), 4):
        found = try_reading(tmp_path, whole[:cut])
        if found is not None and found.tables["profiled_kernels"].height == 2:
            assert found.quality or cut > whole.rstrip().rfind(b",")


def test_damage(tmp_path: Path) -> None:
    data = golden(tmp_path)

    def read_folder(source: Source, options: ImportOptions) -> Imported:
        return read(source.path.parent)

    survive_damage(read_folder, tmp_path / "pmc_perf.csv", data)


@pytest.mark.parametrize("column", list(DISPATCH))
def test_values_of_another_type(tmp_path: Path, column: str) -> None:
    odd = ("", "x", "-1", "0", "1e308", "NaN", "9" * 30, 7)
    folder = write_workload(tmp_path, *(COUNTED | {column: value} for value in odd))
    run = sightline.open(str(folder))
    for answer in ("speed_of_light", "occupancy", "launch_shape", "amd_speed_of_light"):
        run.ask(answer)
    assert run.findings()


# -- real workloads -------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("gpu", ["MI100", "MI200", "MI350"])
def test_figures_are_those_of_the_csv(corpus: Path, gpu: str) -> None:
    """Each figure from the table's own numbers, by the formula as it is published."""
    folder = corpus / "rocprof_compute/ROCm__rocm-systems/vcopy" / gpu
    with (folder / "pmc_perf.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    with (folder / "sysinfo.csv").open() as stream:
        (machine,) = csv.DictReader(stream)
    run = sightline.open(str(folder))
    names = run.table("profiled_kernels").get_column("name").to_list()
    assert names == ["vecCopy(double*, double*, double*, int, int)"] * 3
    light = run.ask("amd_speed_of_light")
    for kernel, row in enumerate(rows):
        found = dict(light.filter(kernel_id=kernel).select("figure", "value").rows())
        expected = compute(row, machine)
        assert {n: found.get(n) for n in expected} == pytest.approx(expected)


def compute(row: dict[str, Any], machine: dict[str, Any]) -> dict[str, float]:
    """Some figures of rocprof-compute's first panel, in plain arithmetic."""
    n = {k: float(v) for k, v in row.items() if v and k != "Kernel_Name" and not v.startswith("0x")}
    ns = round(n["End_Timestamp"] - n["Start_Timestamp"])
    units = n["GRBM_GUI_ACTIVE"] / int(machine["num_xcd"]) * int(machine["cu_per_gpu"])
    line = 128 if machine["gpu_arch"] == "gfx950" else 64
    ea = "TCC_EA0" if "TCC_EA0_WRREQ_sum" in n else "TCC_EA"
    written = 64 * n[f"{ea}_WRREQ_64B_sum"] + 32 * (n[f"{ea}_WRREQ_sum"] - n[f"{ea}_WRREQ_64B_sum"])
    missed = sum(
        n[f"TCP_TCC_{kind}_REQ_sum"]
        for kind in ("READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET")
    )
    return {
        "VALU Utilization": 100 * n["SQ_ACTIVE_INST_VALU"] / units,
        "VALU Active Threads": n["SQ_THREAD_CYCLES_VALU"] / n["SQ_ACTIVE_INST_VALU"],
        "L2 Cache Hit Rate": 100 * n["TCC_HIT_sum"] / (n["TCC_HIT_sum"] + n["TCC_MISS_sum"]),
        "L2-Fabric Write BW": written / ns,
        "vL1D Cache Hit Rate": 100 - 100 * missed / n["TCP_TOTAL_CACHE_ACCESSES_sum"],
        "vL1D Cache BW": line * n["TCP_TOTAL_CACHE_ACCESSES_sum"] / ns,
        "IPC": n["SQ_INSTS"] / n["SQ_BUSY_CU_CYCLES"],
    }


@pytest.mark.corpus
def test_a_copy_moves_what_it_copies(corpus: Path) -> None:
    """1,048,576 doubles are read once: 8 MiB in the kernel's 16,320 ns."""
    run = sightline.open(str(corpus / "rocprof_compute/ROCm__rocm-systems/vcopy/MI200"))
    light = run.ask("amd_speed_of_light").filter(kernel_id=1)
    found = dict(light.select("figure", "value").rows())
    assert found["L2-Fabric Read BW"] == pytest.approx(8 * 2**20 / 16_320, rel=1e-3)
    kernels = run.ask("occupancy")
    assert kernels.get_column("theoretical_pct").to_list() == [100.0] * 3
