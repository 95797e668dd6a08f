"""Databases of ClusterCockpit: cc-backend's own (job.db, with footprints), and archives in SQLite.

job.db has a row of each job in `job`, with means as a JSON footprint; an archive has `jobs` with
meta_json and data_json (gzipped where it is long), and `clusters` with config_json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._sqlite import SqliteFile
from sightline.formats.cluster._cockpit import (
    add_cluster,
    add_data,
    add_footprint,
    add_meta,
    is_cluster,
    is_meta,
    read_energy,
    read_json_cell,
)
from sightline.formats.cluster._jobs import JobTables, seconds_to_ns

IMPORTER = Importer(
    name="clustercockpit_db",
    label="ClusterCockpit's database",
    strong=(
        rb"\ASQLite format 3\x00.*CREATE TABLE \"?job\"?\s*\(.*\bhpc_user\b",
        rb"\ASQLite format 3\x00.*CREATE TABLE (?:IF NOT EXISTS )?\"?jobs\"?\s*\(.*\bmeta_json\b",
    ),
    weak=(),
    looks_like="a SQLite file with a table job (hpc_user, …) or jobs (meta_json, data_json)",
    suffixes=(".db", ".sqlite", ".sqlite3"),
    version=5,
    source="https://github.com/ClusterCockpit/cc-backend/tree/master/pkg/archive",
)

_KWH = 3.6e6
# Columns of `job` (cc-backend, internal/repository/migrations) by the keys of a meta.json.
_KEYS = {
    "job_id": "jobId", "cluster": "cluster", "subcluster": "subCluster", "hpc_user": "user",
    "project": "project", "cluster_partition": "partition", "start_time": "startTime",
    "submit_time": "submitTime", "duration": "duration", "walltime": "walltime",
    "job_state": "jobState", "num_nodes": "numNodes", "num_hwthreads": "numHwthreads",
    "num_acc": "numAcc", "shared": "shared", "exclusive": "exclusive",
}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs. Raises DamagedError where there is none."""
    tables = JobTables(keep_identity=options.keep_identity)
    file = SqliteFile(source.plain_path(), source.given)
    quality: list[Quality] = []
    try:
        unknown = 0
        lost = _add_archived(tables, file)
        lost += sum(_add_row(tables, row) for row in _list_rows(file, "job", "hpc_user"))
        for row in _list_rows(file, "clusters", "config_json"):
            top = read_json_cell(row.get("config_json"), tables.asked)
            if is_cluster(top) and (row.get("name") or top.get("name")):
                add_cluster(tables, {"name": row.get("name"), **top})
            else:
                unknown += 1
        for why in file.lost.values():
            text = f"the database is damaged: what follows is left out ({why})"
            quality.append(Quality("truncated", "error", text))
        quality += file.note_structure(is_altered=True)
        if file.cut_off:
            text = "the database is shorter than its header says: its end is missing"
            quality.append(Quality("truncated", "error", text))
    finally:
        file.close()
    if not tables.rows["jobs"]:
        raise DamagedError(f"cannot read {source.given}", why="it holds no job that can be read")
    if lost:
        text = "jobs of the database could not be read, or only in part"
        quality.append(Quality("damaged_jobs", "warning", text, lost))
    if unknown:
        text = "descriptions of clusters could not be read: what is normal on them is not known"
        quality.append(Quality("damaged_clusters", "warning", text, unknown))
    quality += tables.note_left_out()
    tables.asked.note(quality)
    return Imported(tables.tables(), Recording("ClusterCockpit", of_host=True), quality)


def _list_rows(file: SqliteFile, table: str, needed: str) -> Iterator[dict[str, Any]]:
    """Rows of a table by column; none where there is no such table."""
    if file.has(table, needed):
        columns = list(file.columns(table))
        yield from file.rows(table, columns).iter_rows(named=True)


def _add_archived(tables: JobTables, file: SqliteFile) -> int:
    """All jobs of an archive; of how many something is lost."""
    jobs: dict[int, tuple[int, int | None]] = {}
    lost = 0
    for row, packed in file.blobs("jobs", "meta_json"):
        meta = read_json_cell(packed, tables.asked)
        if is_meta(meta):
            jobs[row] = add_meta(tables, meta), seconds_to_ns(meta.get("startTime"))
        else:
            lost += 1
    known = set()
    for row, packed in file.blobs("jobs", "data_json"):
        data = read_json_cell(packed, tables.asked)
        if row in jobs and isinstance(data, dict):
            add_data(tables, *jobs[row], data)
            known.add(row)
    # The archive is of jobs that are over: each has its series.
    return lost + len(jobs.keys() - known)


def _add_row(tables: JobTables, row: dict[str, Any]) -> bool:
    """A job of cc-backend's own table; whether something of it is lost."""
    meta = {ours: row[theirs] for theirs, ours in _KEYS.items() if row.get(theirs) is not None}
    parts = {
        name: read_json_cell(row.get(name), tables.asked)
        for name in ("resources", "meta_data", "footprint")
    }
    meta |= {"resources": parts["resources"], "metaData": parts["meta_data"]}
    if not is_meta(meta):
        return True
    job = add_meta(tables, meta)
    duration, nodes = row.get("duration"), row.get("num_nodes")
    if isinstance(duration, int | float) and isinstance(nodes, int | None):
        # In kWh (cc-backend, internal/archiver: power × duration / 3600 / 1000).
        energy = read_energy(row.get("energy"), _KWH, float(duration), nodes)
        tables.rows["jobs"][job]["energy_j"] = energy
    if isinstance(parts["footprint"], dict):
        add_footprint(tables, job, parts["footprint"])
    return parts["resources"] is None
