"""ClusterCockpit's archives in Parquet: rows as cc-backend writes them, and damage."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.exceptions import PanicException

from formats.test_clustercockpit import CLUSTER, DATA, META, open_path, write_archive
from sightline.errors import InputError

NAME = "cc-archive-2026-06-07-001.parquet"


def write_row(meta: dict[str, Any], data: Any) -> dict[str, Any]:
    """As JobToParquetRow makes it: what is not known is 0, and `exclusive` always."""
    return {
        "job_id": meta["jobId"], "cluster": meta["cluster"], "sub_cluster": meta["subCluster"],
        "partition": meta["partition"], "project": meta["project"], "user": meta["user"],
        "job_state": meta["jobState"], "start_time": meta["startTime"],
        "duration": meta["duration"], "walltime": meta.get("walltime", 0),
        "num_nodes": meta["numNodes"], "num_hwthreads": meta["numHwthreads"],
        "num_acc": meta["numAcc"], "exclusive": 0, "energy": 0.0, "smt": 0,
        "resources_json": json.dumps(meta["resources"]).encode(),
        "statistics_json": json.dumps(meta["statistics"]).encode(),
        "tags_json": None,
        "meta_data_json": json.dumps(meta["metaData"]).encode(),
        "footprint_json": None, "energy_footprint_json": None,
        "metric_data_gz": data if isinstance(data, bytes) else gzip.compress(
            json.dumps(data).encode()
        ),
    }  # fmt: skip


def write_parquet(folder: Path, *rows: dict[str, Any], name: str = NAME) -> Path:
    folder.mkdir(exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(folder / name, compression="zstd")
    return folder


def write_seed(folder: Path) -> Path:
    return write_parquet(folder, write_row(META, DATA), write_row({**META, "jobId": 7}, DATA))


def test_an_archive_in_parquet_is_that_of_folders(tmp_path):
    """Tables equal those of the same jobs as files, but for who else ran there: 0 is no word."""
    write_archive(tmp_path / "files")
    folder = write_parquet(tmp_path / "c1", write_row(META, DATA))
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    theirs, ours = open_path(tmp_path / "files"), open_path(folder)
    for name in ("job_nodes", "job_means", "job_series", "metric_limits"):
        assert ours.table(name).equals(theirs.table(name)), name
        assert ours.table(name).height, name
    columns = pl.exclude("sharing")
    assert ours.table("jobs").select(columns).equals(theirs.table("jobs").select(columns))
    assert ours.table("jobs")["sharing"].to_list() == [None]


def test_files_of_a_cluster_are_one_archive_and_one_is_read_by_itself(tmp_path):
    for number in (1, 2):
        rows = [
            write_row({**META, "jobId": 10 * number + n, "walltime": 0}, DATA) for n in range(300)
        ]
        write_parquet(tmp_path / "c1", *rows, name=f"cc-archive-2026-06-07-00{number}.parquet")
    assert open_path(tmp_path / "c1").table("jobs").height == 600
    jobs = open_path(tmp_path / "c1" / NAME).table("jobs")
    assert jobs.height == 300
    assert jobs["limit_ns"].null_count() == 300
    assert open_path(tmp_path).table("jobs").height == 600


@pytest.mark.parametrize(
    "data",
    [b"", b"\x1f\x8bx", b"[]", gzip.compress(b"{")],
    ids=["nothing", "half a header", "not packed", "half a document"],
)
def test_a_job_whose_series_are_damaged_is_kept_and_said(tmp_path, data):
    folder = write_parquet(tmp_path / "c1", write_row(META, data), write_row(META, DATA))
    run = open_path(folder)
    assert run.table("jobs").height == 2
    assert "damaged_jobs" in run.table("quality")["kind"].to_list()


@pytest.mark.parametrize("cut", [0, 4, 100, -1, -9, -200])
def test_a_file_that_is_cut_is_refused(tmp_path, cut):
    path = write_parquet(tmp_path / "c1", write_row(META, DATA)) / NAME
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError):
        open_path(path)


def test_what_polars_panics_at_is_refused(tmp_path, monkeypatch):
    path = write_seed(tmp_path / "c1") / NAME

    def panic(*_: object) -> None:
        raise PanicException("assertion failed")

    monkeypatch.setattr("polars.LazyFrame.collect", panic)
    with pytest.raises(InputError, match="assertion failed"):
        open_path(path)


def test_another_parquet_file_is_refused_by_its_columns(tmp_path):
    pl.DataFrame({"time": [1], "price": [2]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"no column job_id, but time, price"):
        open_path(tmp_path / "x.parquet")
