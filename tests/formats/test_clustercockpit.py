"""ClusterCockpit's archives, files and databases: all layouts and generations, by hand."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sightline.core.model.declare import ImportOptions
from sightline.errors import InputError
from sightline.opening.run import open_run
from sightline.session import Session
from support.corpus import CORPUS, list_recordings, name_recording

SECOND = 10**9
META: dict[str, Any] = {
    "jobId": 1_404_017, "user": "ada", "project": "physics", "cluster": "c1", "subCluster": "gpu",
    "partition": "a100", "numNodes": 2, "numHwthreads": 16, "numAcc": 4, "shared": "none",
    "jobState": "completed", "startTime": 1000, "duration": 120, "walltime": 3600,
    "resources": [
        {"hostname": "n1", "hwthreads": list(range(8)), "accelerators": ["0", "1"]},
        {"hostname": "n2", "hwthreads": list(range(8)), "accelerators": ["0", "1"]},
    ],
    "metaData": {"jobScript": "#!/bin/bash\n#SBATCH --job-name=vasp\nsrun gmx mdrun"},
    "statistics": {
        "mem_bw": {"unit": {"base": "B/s", "prefix": "G"}, "avg": 50, "min": 1, "max": 90},
    },
}  # fmt: skip
UNIT = {"base": "B/s", "prefix": "G"}
SERIES = [
    {"hostname": "n1", "statistics": {"avg": 2, "min": 1, "max": 3}, "data": [1, None, 3]},
    {"hostname": "n2", "statistics": {"avg": 5, "min": 4, "max": 6}, "data": [4, 5, 6]},
]
DATA = {"mem_bw": {"node": {"unit": UNIT, "timestep": 60, "series": SERIES}}}
CLUSTER = {
    "name": "c1",
    "metricConfig": [
        {
            "name": "mem_bw", "unit": UNIT, "scope": "node", "timestep": 60, "aggregation": "sum",
            "peak": 350, "normal": 100, "caution": 50, "alert": 10,
            "subClusters": [{"name": "gpu", "peak": 400, "normal": 1, "caution": 1, "alert": 1}],
        },
    ],
    "subClusters": [{"name": "gpu"}],
}  # fmt: skip


def open_path(path: Path) -> Session:
    return Session.of(open_run([str(path)], options=ImportOptions(keep_identity=True)))


def write_archive(root: Path, levels: tuple[str, ...] = ("1404", "017", "1000")) -> Path:
    place = root.joinpath("c1", *levels)
    place.mkdir(parents=True)
    (root / "version.txt").write_text("3")
    (root / "c1" / "cluster.json").write_text(json.dumps(CLUSTER))
    (place / "meta.json").write_text(json.dumps(META))
    (place / "data.json.gz").write_bytes(gzip.compress(json.dumps(DATA).encode()))
    return place


def check_job(run: Session) -> None:
    job = run.table("jobs").row(0, named=True)
    assert (job["job_id"], job["user"], job["sharing"], job["state"]) == (
        "1404017", "ada", "none", "completed",
    )  # fmt: skip
    assert (job["nodes"], job["cpus"], job["gpus"]) == (2, 16, 4)
    assert (job["start_ns"], job["end_ns"]) == (1000 * SECOND, 1120 * SECOND)
    assert job["application"] == "gromacs"
    assert run.table("job_means").select("metric", "unit", "avg", "max").rows() == [
        ("mem_bw", "bytes/s", 50e9, 90e9)
    ]


def check_series(run: Session) -> None:
    columns = ("host", "time_ns", "value")
    assert run.table("job_series").select(columns).rows() == [
        ("n1", 1000 * SECOND, 1e9), ("n1", 1060 * SECOND, None), ("n1", 1120 * SECOND, 3e9),
        ("n2", 1000 * SECOND, 4e9), ("n2", 1060 * SECOND, 5e9), ("n2", 1120 * SECOND, 6e9),
    ]  # fmt: skip


@pytest.mark.parametrize("levels", [("1404", "017", "1000"), ("1404", "017")])
@pytest.mark.parametrize("asked", ["", "c1", "c1/1404", "job", "file"])
def test_an_archive_and_its_parts(tmp_path: Path, levels: tuple[str, ...], asked: str) -> None:
    job = write_archive(tmp_path / "archive", levels)
    path = tmp_path / "archive" / asked
    run = open_path({"job": job, "file": job / "data.json.gz"}.get(asked, path))
    check_job(run)
    check_series(run)
    limits = run.table("metric_limits").select("sub_cluster", "peak").rows()
    assert limits == ([(None, 350e9), ("gpu", 400e9)] if asked in ("", "c1") else [])


def test_a_damaged_job_is_left_out_and_named(tmp_path: Path) -> None:
    write_archive(tmp_path)
    other = tmp_path / "c1/1404/018/1000"
    other.mkdir(parents=True)
    (other / "meta.json").write_text("xyz")
    run = open_path(tmp_path)
    assert run.rows("jobs") == 1
    notes = dict(run.table("quality").select("kind", "text").rows())
    assert "018/1000/meta.json" in notes["damaged_jobs"]


def test_older_generations(tmp_path: Path) -> None:
    meta = {k: v for k, v in META.items() if k != "shared"} | {"exclusive": 2, "stopTime": 1120}
    meta["statistics"] = {"mem_bw": {"unit": "GB/s", "avg": 50, "min": 1, "max": 90}}
    data = {"mem_bw": {"unit": "GB/s", "scope": "node", "timestep": 60, "series": SERIES}}
    place = write_archive(tmp_path)
    (place / "meta.json").write_text(json.dumps(meta))
    (place / "data.json.gz").unlink()
    (place / "data.json").write_text(json.dumps(data))
    run = open_path(tmp_path)
    check_series(run)
    assert run.table("jobs").item(0, "sharing") == "single_user"
    assert run.table("job_means").item(0, "avg") == 50e9


def write_database(path: Path) -> Path:
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, job_id INTEGER, cluster TEXT, "
            "start_time INTEGER, meta_json BLOB, data_json BLOB, data_compressed BOOLEAN)"
        )
        database.execute("CREATE TABLE clusters (name TEXT PRIMARY KEY, config_json BLOB)")
        packed = gzip.compress(json.dumps(DATA).encode())
        row = (1, 1_404_017, "c1", 1000, json.dumps(META).encode(), packed, 1)
        database.execute("INSERT INTO jobs VALUES (?,?,?,?,?,?,?)", row)
        database.execute("INSERT INTO clusters VALUES (?,?)", ("c1", json.dumps(CLUSTER).encode()))
    database.close()
    return path


def test_an_archive_in_sqlite(tmp_path: Path) -> None:
    run = open_path(write_database(tmp_path / "archive.db"))
    check_job(run)
    check_series(run)
    assert run.rows("metric_limits") == 2


def test_a_database_that_is_cut_off_says_so(tmp_path: Path) -> None:
    path = write_database(tmp_path / "archive.db")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 4096])
    run = open_path(path)
    assert "truncated" in run.table("quality").get_column("kind")


def test_footprints_have_the_usual_units(tmp_path: Path) -> None:
    meta = META | {"footprint": {"mem_used_max": 37.5, "acc_utilization_avg": 1}, "statistics": {}}
    path = tmp_path / "job.json"
    path.write_text(json.dumps(meta))
    columns = ("metric", "unit", "avg", "max")
    assert open_path(path).table("job_means").select(columns).rows() == [
        ("mem_used", "bytes", None, 37.5e9),
        ("acc_utilization", "%", 1.0, None),
    ]


def test_halves_of_characters_are_replaced(tmp_path: Path) -> None:
    half = "\ud800"
    unit = {"base": half}
    meta = META | {"statistics": {half: {"unit": unit, "avg": 1}}, "user": half, "cluster": half}
    data = {half: {half: {"unit": unit, "timestep": 60, "series": SERIES}}}
    limit = {"name": half, "unit": unit, "scope": half, "peak": 1}
    place = write_archive(tmp_path)
    (place / "meta.json").write_text(json.dumps(meta))
    (place / "data.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    (tmp_path / "c1/cluster.json").write_text(json.dumps({"name": half, "metricConfig": [limit]}))
    run = open_path(tmp_path)
    assert run.table("job_series").item(0, "metric") == "?"
    assert run.table("job_means").item(0, "unit") == "?"
    assert run.table("metric_limits").item(0, "cluster") == "?"


def test_a_job_without_what_it_used_says_so(tmp_path: Path) -> None:
    """cc-lib's schema asks for statistics: damage renames them; a job that runs has none yet."""
    path = tmp_path / "job.json"
    for change, said in (({}, False), ({"statistics": {}}, True), ({"jobState": "running"}, False)):
        state = {"duration": 600, "jobState": "completed", **change}
        if "jobState" in change:
            state["statistics"] = {}
        path.write_text(json.dumps({**META, **state}))
        kinds = open_path(path).table("quality")["kind"].to_list()
        assert ("no_statistics" in kinds) is said


def test_a_cluster_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"metricConfig": CLUSTER["metricConfig"]}))
    with pytest.raises(InputError) as caught:
        open_path(path)
    assert caught.value.why == "the cluster that it describes has no name"


def test_parts_of_a_cluster_are_no_damage(tmp_path: Path) -> None:
    """Its `nodes` were taken for the end of `numNodes`: whole archives were said to be damaged."""
    part = {"name": "main", "nodes": "n[01-64]", "processorType": "Intel", "socketsPerNode": 2,
            "coresPerSocket": 20, "threadsPerCore": 1, "topology": {"node": [0, 1]}}  # fmt: skip
    write_archive(tmp_path)
    place = tmp_path / "c1/cluster.json"
    place.write_text(json.dumps({**CLUSTER, "subClusters": [part, {**part, "name": "spr"}]}))
    for path in (tmp_path, place):
        assert open_path(path).table("quality").filter(pl.col("kind") != "info").is_empty()


@pytest.mark.corpus
def test_real_archives_have_no_damage() -> None:
    place = CORPUS / "clustercockpit/ClusterCockpit__cc-backend/archive/testdata/archive"
    assert open_path(place).table("quality").is_empty()


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", list_recordings("slurm/**/*", "clustercockpit/**/*"), ids=name_recording
)
def test_files_of_clusters_are_read_or_named(path: Path) -> None:
    """Never 'its content is of no known format', nor another tool's name."""
    try:
        run = open_path(path)
    except InputError as error:
        assert error.why is not None
        assert "known format" not in error.why
        assert "looks like" not in error.why
        assert "trace" not in error.why
        return
    assert run.rows("jobs") or run.rows("metric_limits") or run.rows("cluster_nodes")


@pytest.mark.corpus
def test_statistics_are_those_that_are_stored() -> None:
    """Mean, least and most of each series, as cc-backend wrote them beside it (2 decimals)."""
    place = CORPUS / (
        "clustercockpit/ClusterCockpit__cc-backend/archive/testdata/archive/emmy/1403/244/1608923076"
    )
    series = open_path(place).table("job_series").drop_nulls("value")
    stored = json.loads(gzip.decompress((place / "data.json.gz").read_bytes()))
    value = pl.col("value")
    ours = {
        (metric, host): values
        for metric, host, *values in series.group_by("metric", "host")
        .agg(avg=value.mean(), min=value.min(), max=value.max())
        .rows()
    }
    scale = {"mem_bw": 1e9, "mem_used": 1e9, "flops_any": 1e9, "flops_dp": 1e9, "flops_sp": 1e9,
             "clock": 1e6, "cpu_load": 1, "rapl_power": 1}  # fmt: skip
    names = {"rapl_power": "cpu_power"}
    compared = 0
    for metric, factor in scale.items():
        for one in stored[metric]["node"]["series"]:
            avg, least, most = ours[names.get(metric, metric), one["hostname"]]
            told = one["statistics"]
            assert least / factor == pytest.approx(told["min"], abs=0.006)
            assert most / factor == pytest.approx(told["max"], abs=0.006)
            assert avg / factor == pytest.approx(told["avg"], abs=0.006)
            compared += 1
    assert compared == 32 * len(scale)
