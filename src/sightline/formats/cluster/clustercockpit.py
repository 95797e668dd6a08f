"""A job archive of ClusterCockpit: a tree of folders with meta.json and data.json of each job.

CLUSTER/cluster.json, and below it the job's number in two levels, its start, and the files; older
trees end at the number. A folder of one job, and any folder between, is read as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._asked_names import AskedNames
from sightline.formats._json import parse_json
from sightline.formats._stacks import read_text
from sightline.formats._text_damage import note_misspelt_keys
from sightline.formats.cluster._cockpit import (
    COCKPIT_KEYS,
    OTHER_KEYS,
    add_cluster,
    add_data,
    add_meta,
    is_cluster,
    is_meta,
)
from sightline.formats.cluster._jobs import JobTables, seconds_to_ns

_META, _CLUSTER = "meta.json", "cluster.json"
_DATA = ("data.json", "data.json.gz", "data.json.zst")
# Ours: as many jobs as a year of a cluster has; more is what databases are for.
_MOST_JOBS = 200_000


def find_archives(folder: Path) -> list[Path]:
    """The archives in a folder; it may be one itself, or a part of one."""
    if (folder / _META).is_file() or _is_archive(folder):
        return [folder]
    found = [path.parent for path in folder.rglob(_CLUSTER) if _has_jobs(path.parent)]
    return sorted({_climb(place, folder) for place in found})


def _is_archive(folder: Path) -> bool:
    """Whether it is an archive, a cluster's part of one, or the part of some jobs' numbers."""
    if (folder / _CLUSTER).is_file():
        return _has_jobs(folder)
    if any(_has_jobs(path.parent) for path in folder.glob(f"*/{_CLUSTER}")):
        return True
    is_numbered = folder.name.isdecimal()
    return is_numbered and any(
        True for depth in ("*", "*/*") for _ in folder.glob(f"{depth}/{_META}")
    )


def _has_jobs(folder: Path) -> bool:
    """Whether a cluster's folder has jobs below it, at any of the layouts' depths."""
    return any(True for depth in ("*/*", "*/*/*") for _ in folder.glob(f"{depth}/{_META}"))


def _climb(place: Path, folder: Path) -> Path:
    """From a cluster's folder to its archive's, where that has a version and lies in the folder."""
    above = place.parent
    return above if above != folder.parent and (above / "version.txt").is_file() else place


IMPORTER = Importer(
    name="clustercockpit",
    label="ClusterCockpit's job archive",
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*meta\.json \d",),
    weak=(),
    looks_like="a folder with cluster.json and a meta.json of each job",
    suffixes=(),
    version=7,
    source="https://github.com/ClusterCockpit/cc-lib/tree/main/schema/schemas",
    anchors=(_META, *_DATA),
    find_folders=find_archives,
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all jobs. Raises DamagedError where there is none."""
    tables = JobTables(keep_identity=options.keep_identity)
    quality: list[Quality] = []
    lost: list[str] = []
    for path in sorted(source.path.rglob(_CLUSTER)):
        top = _read_json(path, lost, tables.asked)
        if is_cluster(top):
            add_cluster(tables, top)
    metas = sorted(source.path.rglob(_META))
    for path in metas[:_MOST_JOBS]:
        _add_job(tables, path, lost)
    if not tables.rows["jobs"]:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"no job in it can be read ({lost[0]})" if lost else "it holds no job",
        )
    if lost:
        text = f"files of the archive could not be read, such as {lost[0]}"
        quality.append(Quality("damaged_jobs", "warning", text, len(lost)))
    if len(metas) > _MOST_JOBS:
        text = "jobs were left out: there are more than can be read at once"
        remedy = "Give the folder of a cluster, or of some jobs' numbers."
        quality.append(Quality("jobs_left_out", "warning", text, len(metas) - _MOST_JOBS, remedy))
    quality += tables.note_left_out()
    tables.asked.note(quality)
    return Imported(tables.tables(), Recording("ClusterCockpit", of_host=True), quality)


def _add_job(tables: JobTables, path: Path, lost: list[str]) -> None:
    meta = _read_json(path, lost, tables.asked)
    if not is_meta(meta):
        lost.append(_name(path)) if meta is not None else None
        return
    job = add_meta(tables, meta)
    for name in _DATA:
        if (path.parent / name).is_file():
            data = _read_json(path.parent / name, lost, tables.asked)
            if isinstance(data, dict):
                add_data(tables, job, seconds_to_ns(meta.get("startTime")), data)
            return


def _read_json(path: Path, lost: list[str], asked: AskedNames) -> Any:
    """The document; None, and its name in `lost`, where it is none."""
    notes: list[Quality] = []
    try:
        made = parse_json(read_text(Source(path, str(path)), notes), notes, names=asked)
        notes += note_misspelt_keys(made, COCKPIT_KEYS, OTHER_KEYS)
    except (json.JSONDecodeError, ValueError, RecursionError, DamagedError, OSError):
        lost.append(_name(path))
        return None
    if notes:  # cut off: what stands before the damage is used
        lost.append(_name(path))
    return made


def _name(path: Path) -> str:
    """A file of a job by the end of its path."""
    return "/".join(path.parts[-3:])
