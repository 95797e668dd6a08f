"""One file of ClusterCockpit: a job's meta.json or data.json by itself, or a cluster.json.

A meta.json in an archive, with its data beside it, is read as a job of that (clustercockpit.py).
"""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
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
    is_data,
    is_meta,
)
from sightline.formats.cluster._jobs import JobTables

IMPORTER = Importer(
    name="clustercockpit_file",
    label="A job or a cluster of ClusterCockpit",
    strong=(
        rb"\A\s*\{(?=.{0,60000}\"cluster\"\s*:\s*\").{0,60000}\"jobId\"\s*:\s*\d{1,18}\b",
        rb"\A\s*\{\s*\"\w{1,100}\"\s*:\s*\{\s*(?:\"\w{1,20}\"\s*:\s*\{\s*)?"
        rb"(?:\"unit\"|\"timestep\"|\"series\"|\"scope\")\s*:.{0,400}\"(?:timestep|series|hostname)\"",
        rb"\A\s*\{.{0,60000}\"metricConfig\"\s*:\s*\[",
    ),
    weak=(),
    looks_like='{"jobId": …, "cluster": …}, {"cpu_load": {"node": {"unit": …}}} or "metricConfig"',
    suffixes=(".json", ".input"),
    version=7,
    source="https://github.com/ClusterCockpit/cc-lib/tree/main/schema/schemas",
)

_SUMS = ("statistics", "footprint")  # one of them is there of a job that has ended


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the job, its series, or the cluster. Raises DamagedError where it is none of them."""
    quality: list[Quality] = []
    tables = JobTables(keep_identity=options.keep_identity)
    try:
        top = parse_json(read_text(source, quality), quality, names=tables.asked)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not JSON ({error})"
        ) from error
    if not is_cluster(top):
        quality += note_misspelt_keys(top, COCKPIT_KEYS, OTHER_KEYS)
    if is_meta(top):
        add_meta(tables, top)
        ended = "duration" in top and top.get("jobState") not in (None, "running")
        if ended and not any(map(top.get, _SUMS)):
            text = "the job has neither statistics nor a footprint: what it used is unknown"
            quality.append(Quality("no_statistics", "info", text))
    elif is_cluster(top):
        add_cluster(tables, top)
    elif is_data(top):
        job = tables.add_job(Path(source.given).name)
        add_data(tables, job, None, top)
        text = "the series are of a job that is not described: its meta.json is missing"
        quality.append(Quality("job_unknown", "warning", text))
    made = tables.tables()
    if not made:
        why = "it holds no job and no cluster"
        if is_cluster(top):
            why = "the cluster that it describes has no name"
        raise DamagedError(f"cannot read {source.given}", why=why)
    quality += tables.note_left_out()
    tables.asked.note(quality)
    return Imported(made, Recording("ClusterCockpit", of_host=True), quality)
