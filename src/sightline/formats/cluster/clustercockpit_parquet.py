"""A job archive of ClusterCockpit in Parquet: a folder of a cluster, or one file of it.

CLUSTER/cluster.json beside cc-archive-DATE-NUMBER.parquet, with a row of each job: columns of its
meta.json, some of them JSON, and its data.json gzipped (cc-backend, pkg/archive/parquet/schema.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._text_damage import note_names
from sightline.formats.cluster._cockpit import (
    add_cluster,
    add_data,
    add_meta,
    is_cluster,
    is_meta,
    read_json_cell,
)
from sightline.formats.cluster._jobs import JobTables, seconds_to_ns

_ENDING = ".parquet"
_NAMED = "cc-archive-*.parquet"
# Columns by the keys of a meta.json. 0 is what cc-backend writes where it does not know.
_KEYS = {
    "job_id": "jobId", "cluster": "cluster", "sub_cluster": "subCluster", "partition": "partition",
    "project": "project", "user": "user", "job_state": "jobState", "start_time": "startTime",
    "duration": "duration", "walltime": "walltime", "num_nodes": "numNodes",
    "num_hwthreads": "numHwthreads", "num_acc": "numAcc", "exclusive": "exclusive",
    "energy": "energy",
}  # fmt: skip
_UNKNOWN_AS_0 = ("walltime", "num_nodes", "num_hwthreads", "num_acc", "exclusive", "energy")
_JSON = {
    "resources_json": "resources", "statistics_json": "statistics", "meta_data_json": "metaData",
    "footprint_json": "footprint",
}  # fmt: skip
_SERIES = "metric_data_gz"
_NEEDED = ("job_id", "cluster", "start_time")
_AT_ONCE = 256  # rows: their series are some megabytes each
_MOST_JOBS = 200_000


def find_archives(folder: Path) -> list[Path]:
    """The folders of clusters with such files, in a folder or itself."""
    return sorted({path.parent for path in folder.rglob(_NAMED)})


IMPORTER = Importer(
    name="clustercockpit_parquet",
    label="ClusterCockpit's job archive in Parquet",
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*cc-archive-[^\n]*\.parquet \d",),
    weak=(rb"\APAR1",),
    looks_like="a folder with cc-archive-DATE-NUMBER.parquet, or one of these files",
    suffixes=(_ENDING,),
    version=3,
    source="https://github.com/ClusterCockpit/cc-backend/tree/master/pkg/archive/parquet",
    find_folders=find_archives,
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs. Raises DamagedError where there is none."""
    tables = JobTables(keep_identity=options.keep_identity)
    quality: list[Quality] = []
    lost: list[str] = []
    path = source.path if source.path.is_dir() else source.plain_path()
    files = sorted(path.glob(f"*{_ENDING}")) if path.is_dir() else [path]
    _add_limits(tables, path / "cluster.json")
    damaged = left_out = names = 0
    for file in files:
        try:
            names += sum(not name.isprintable() for name in pl.read_parquet_schema(file))
            for row in _list_rows(file):
                if len(tables.rows["jobs"]) >= _MOST_JOBS:
                    left_out += 1
                else:
                    damaged += _add_row(tables, row)
        # Of some damage Polars panics instead of raising an error of its own.
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            OSError,
            _OtherFile,
        ) as error:
            lost.append(f"{file.name}: {str(error).splitlines()[0][:200]}")
    if not tables.rows["jobs"]:
        raise DamagedError(
            f"cannot read {source.given}", why=lost[0] if lost else "it holds no job"
        )
    if lost:
        text = f"files of the archive could not be read, such as {lost[0]}"
        quality.append(Quality("damaged_jobs", "warning", text, len(lost)))
    quality += note_names(names)
    if damaged:
        text = "jobs of the archive could not be read, or only in part"
        quality.append(Quality("damaged_jobs", "warning", text, damaged))
    if left_out:
        text = "jobs were left out: there are more than can be read at once"
        remedy = "Give single files of the folder."
        quality.append(Quality("jobs_left_out", "warning", text, left_out, remedy))
    quality += tables.note_left_out()
    tables.asked.note(quality)
    return Imported(tables.tables(), Recording("ClusterCockpit", of_host=True), quality)


class _OtherFile(Exception):
    """A Parquet file of something else."""


def _list_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, some at a time."""
    known = pl.read_parquet_schema(file)
    if missing := [name for name in _NEEDED if name not in known]:
        columns = ", ".join(list(known)[:8])
        raise _OtherFile(f"it has no column {missing[0]}, but {columns}")
    wanted = [name for name in (*_KEYS, *_JSON, _SERIES) if name in known]
    rows = pl.scan_parquet(file).select(wanted)
    for start in range(0, int(rows.select(pl.len()).collect().item()), _AT_ONCE):
        yield from rows.slice(start, _AT_ONCE).collect().iter_rows(named=True)


def _add_row(tables: JobTables, row: Mapping[str, Any]) -> bool:
    """A job; whether something of it is lost."""
    meta = {
        ours: row[theirs]
        for theirs, ours in _KEYS.items()
        if row.get(theirs) or (row.get(theirs) == 0 and theirs not in _UNKNOWN_AS_0)
    }
    is_damaged = False
    for theirs, ours in _JSON.items():
        if row.get(theirs):
            meta[ours] = read_json_cell(row[theirs], tables.asked)
            is_damaged = is_damaged or meta[ours] is None
    if not is_meta(meta):
        return True
    job = add_meta(tables, meta)
    data = read_json_cell(row.get(_SERIES), tables.asked)
    if isinstance(data, dict):
        add_data(tables, job, seconds_to_ns(meta.get("startTime")), data)
    return is_damaged or not isinstance(data, dict)


def _add_limits(tables: JobTables, path: Path) -> None:
    """What is normal on the cluster, where a file beside the archive says it."""
    try:
        top = read_json_cell(path.read_bytes(), tables.asked)
    except OSError:
        return
    if is_cluster(top):
        add_cluster(tables, top)
