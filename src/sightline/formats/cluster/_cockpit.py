"""A job of ClusterCockpit: its meta.json and data.json, and a cluster's cluster.json.

https://github.com/ClusterCockpit/cc-lib (schema/schemas). All generations: `shared` was the number
`exclusive` until 2025, units were words ("GB/s") until 2022, data.json had no scopes (a metric held
its series at once), a job a `stopTime` and footprints without units.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from sightline.core.job_metrics import METRICS, name_job_metric, split_unit
from sightline.core.model.source import WHOLE_BYTES
from sightline.formats._asked_names import AskedNames
from sightline.formats.cluster._jobs import (
    JobTables,
    clean_name,
    read_real,
    read_whole,
    read_word,
    seconds_to_ns,
)

COCKPIT_KEYS = frozenset((
    "accelerators", "cluster", "duration", "energy", "exclusive", "footprint", "hostname",
    "hwthreads", "jobId", "jobName", "jobState", "metaData", "metricConfig", "numHwthreads",
    "numNodes", "partition", "project", "requestedMemory", "resources", "series", "startTime",
    "statistics", "subCluster", "subClusters", "timestep", "walltime",
))  # fmt: skip
# Of parts of a cluster (cluster.schema.json), and no end of numNodes that was cut off.
OTHER_KEYS = frozenset({"nodes"})
_SECOND = 10**9
_SHARING = {0: "multi_user", 1: "none", 2: "single_user"}
_FOOTPRINT = re.compile(r"^(.{1,100})_(avg|min|max)$")
_MOST_NODES, _MOST_SERIES = 100_000, 1_000_000
# Ours: four times what the largest servers of today draw (DGX B200: 14.3 kW). cc-backend's older
# databases hold energy in units that its documentation does not say.
_MOST_NODE_W = 60_000
# What batch scripts of clusters start most; cc-backend's own tagger lists more (configs/tagger).
_APPLICATIONS = {
    "vasp": r"\bvasp(?:_gam|_ncl|_std)?\b", "gromacs": r"\b(?:gmx|mdrun|gromacs)",
    "lammps": r"\b(?:lmp|lammps)", "openfoam": r"openfoam|[a-z]Foam\b", "cp2k": r"\bcp2k",
    "quantum espresso": r"\bpw\.x\b", "namd": r"\bnamd\d?\b", "amber": r"\b(?:pmemd|sander)\b",
    "orca": r"\borca\b", "matlab": r"\bmatlab\b", "julia": r"\bjulia\b",
    "pytorch": r"\b(?:torchrun|torch\.distributed|accelerate launch)\b", "python": r"\bpython3?\b",
}  # fmt: skip


def is_meta(top: Any) -> bool:
    """Whether a document is a job's meta data."""
    return isinstance(top, dict) and read_whole(top.get("jobId")) is not None and "cluster" in top


def is_data(top: Any) -> bool:
    """Whether a document is a job's series."""
    return isinstance(top, dict) and any(True for _ in _list_scopes(top))


def is_cluster(top: Any) -> bool:
    """Whether a document describes a cluster."""
    return isinstance(top, dict) and isinstance(top.get("metricConfig"), list)


def add_meta(tables: JobTables, meta: dict[str, Any]) -> int:
    """A job, its nodes and its statistics; the number of its rows."""
    resources = [r for r in _list(meta.get("resources")) if isinstance(r, dict)][:_MOST_NODES]
    start = read_whole(meta.get("startTime"))
    duration = read_real(meta.get("duration"))
    nodes = read_whole(meta.get("numNodes")) or len(resources) or None
    state = read_word(meta.get("jobState"))
    end = None if start is None or duration is None else start + duration
    shared = meta.get("shared")
    if not isinstance(shared, str):
        shared = _SHARING.get(read_whole(meta.get("exclusive")))  # type: ignore[arg-type]
    memory = read_whole(meta.get("requestedMemory"))
    info = meta.get("metaData") if isinstance(meta.get("metaData"), dict) else {}
    job = tables.add_job(
        str(read_whole(meta.get("jobId"))),
        raw_job_id=read_whole(meta.get("jobId")),
        cluster=read_word(meta.get("cluster")),
        sub_cluster=read_word(meta.get("subCluster")),
        partition=read_word(meta.get("partition")),
        user=meta.get("user"),
        project=meta.get("project"),
        name=read_word(info.get("jobName")),  # type: ignore[union-attr]
        application=name_application(info),  # type: ignore[arg-type]
        state=state and state.lower().replace("-", "_"),
        submit_ns=seconds_to_ns(meta.get("submitTime")),
        start_ns=seconds_to_ns(start),
        end_ns=None if state == "running" else seconds_to_ns(end),
        duration_ns=seconds_to_ns(duration),
        limit_ns=_read_limit(meta, duration),
        nodes=nodes,
        cpus=read_whole(meta.get("numHwthreads")) or None,
        gpus=_count_gpus(meta, resources),
        sharing=shared,
        memory_bytes=memory * 10**6 if memory else None,
        energy_j=read_energy(meta.get("energy"), 1, duration, nodes),
    )
    for one in resources:
        tables.add_node(
            job,
            one.get("hostname"),
            cpus=len(_list(one.get("hwthreads"))) or None,
            gpus=len(_list(one.get("accelerators"))) or None,
        )
    for name, found in _dict(meta.get("statistics")).items():
        if isinstance(found, dict):
            tables.add_mean(job, name, found, read_unit(found.get("unit")))
    if not meta.get("statistics"):
        add_footprint(tables, job, _dict(meta.get("footprint")))
    return job


def add_footprint(tables: JobTables, job: int, footprint: dict[str, Any]) -> None:
    """Means without units: {"cpu_load_avg": 36.87, "mem_used_max": 37.7}, in the usual ones."""
    for name, value in footprint.items():
        found = _FOOTPRINT.match(name)
        if found is not None:
            tables.add_mean(job, found[1], {found[2]: value})


def add_data(tables: JobTables, job: int, start: int | None, data: dict[str, Any]) -> None:
    """The series of a job, from `start` in ns on."""
    tables.damaged += sum(
        isinstance(held, dict) and not any(True for _ in _list_scopes({name: held}))
        for name, held in data.items()
    )
    for name, scope, held in _list_scopes(data):
        step = read_real(held.get("timestep")) or 0
        unit = read_unit(held.get("unit")) or ("", "")
        for one in held["series"][:_MOST_SERIES]:
            if not isinstance(one, dict) or not isinstance(one.get("data"), list) or step <= 0:
                tables.damaged += 1
                continue
            host = one.get("hostname") or one.get("node_id")
            place = (host, scope, one.get("id"))
            clock = (start or 0, round(step * _SECOND))
            tables.add_series(job, name, unit, place, clock, one["data"])


def add_cluster(tables: JobTables, top: dict[str, Any]) -> None:
    """What is normal on a cluster, for each kind of nodes that says something of its own."""
    cluster = read_word(top.get("name") or top.get("cluster"))
    if cluster is None:
        return
    for config in _list(top.get("metricConfig"))[:10_000]:
        if not isinstance(config, dict) or not isinstance(config.get("name"), str):
            continue
        _add_limit(tables, cluster, None, config, config)
        for own in _list(config.get("subClusters"))[:1_000]:
            if isinstance(own, dict) and not own.get("remove"):
                _add_limit(tables, cluster, read_word(own.get("name")), config, own)
    for part in _list(top.get("subClusters"))[:1_000]:
        for config in _list(_dict(part).get("metricConfig")):
            if isinstance(config, dict) and isinstance(config.get("name"), str):
                _add_limit(tables, cluster, read_word(part.get("name")), config, config)


def _add_limit(
    tables: JobTables, cluster: str, part: str | None, config: dict[str, Any], own: dict[str, Any]
) -> None:
    unit = read_unit(config.get("unit"))
    name, ours, scale = name_job_metric(config["name"], *(unit or ("", "")))
    if unit is None and name in METRICS:
        scale = METRICS[name].per
    values = {key: read_real(own.get(key)) for key in ("peak", "normal", "caution", "alert")}
    if any(value is not None for value in values.values()):
        tables.rows["metric_limits"].append(
            {
                "cluster": cluster,
                "sub_cluster": part,
                "metric": clean_name(name),
                "unit": read_word(ours),
                "scope": read_word(config.get("scope")),
                **{key: None if v is None else v * scale for key, v in values.items()},
            }
        )


def read_unit(unit: Any) -> tuple[str, str] | None:
    """Base and prefix of {"base": "B/s", "prefix": "G"}, or of the word "GB/s"; None of none."""
    if isinstance(unit, str):
        return split_unit(unit) if unit else None
    if isinstance(unit, dict) and isinstance(unit.get("base"), str):
        prefix = unit.get("prefix")
        return unit["base"], prefix if isinstance(prefix, str) else ""
    return None


def read_energy(
    value: Any, joules: float, duration: float | None, nodes: int | None
) -> float | None:
    """Energy in joules, of a number in units of `joules`; None where no machine draws so much."""
    energy = read_real(value)
    if not energy or energy < 0 or not duration:
        return None
    found = energy * joules
    return found if found / duration <= _MOST_NODE_W * (nodes or 1) else None


def name_application(info: dict[str, Any]) -> str | None:
    """What a job's script starts, by the words of it."""
    script = f"{info.get('jobScript') or ''}\n{info.get('jobName') or ''}"[:100_000]
    lines = "\n".join(line for line in script.splitlines() if not line.startswith("#"))
    return next((n for n, p in _APPLICATIONS.items() if re.search(p, lines, re.IGNORECASE)), None)


def unpack(data: bytes) -> bytes:
    """Gzipped bytes unpacked, others as they are. Raises ValueError beyond what is read whole."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        unpacker = zlib.decompressobj(wbits=31)
        whole = unpacker.decompress(data, WHOLE_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"its packed part is damaged ({error})") from error
    if len(whole) > WHOLE_BYTES or not unpacker.eof:
        raise ValueError("its packed part is cut off, or too large")
    return whole


def read_json_cell(value: Any, asked: AskedNames) -> Any:
    """The document in a column of a database or a table, packed or not; None where it is none."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    if not isinstance(data, bytes):
        return None
    try:
        return json.loads(unpack(data), object_pairs_hook=asked.hook)
    except (ValueError, RecursionError):
        return None


def _read_limit(meta: dict[str, Any], duration: float | None) -> int | None:
    """The time it asked for; None where it ran for more than twice that: the unit is another."""
    limit = read_real(meta.get("walltime"))
    is_other = limit is not None and duration is not None and duration > 2 * limit
    return None if is_other else seconds_to_ns(limit)


def _count_gpus(meta: dict[str, Any], resources: list[dict[str, Any]]) -> int | None:
    named = sum(len(_list(one.get("accelerators"))) for one in resources)
    return read_whole(meta.get("numAcc")) or named or None


def _list_scopes(data: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Metric, scope and what is held of it; file systems' metrics lie one level deeper."""
    for name, held in data.items():
        if isinstance(held, list) and name == "filesystems":
            for system in held[:100]:
                own = _dict(system)
                label = read_word(own.get("name")) or read_word(own.get("type")) or "fs"
                for metric, scoped in own.items():
                    for _, scope, one in _list_scopes({metric: scoped}):
                        yield f"{label}_{metric}", scope, one
        elif isinstance(held, dict) and isinstance(held.get("series"), list):
            yield name, read_word(held.get("scope")) or "node", held
        elif isinstance(held, dict):
            for scope, one in held.items():
                if isinstance(one, dict) and isinstance(one.get("series"), list):
                    yield name, scope, one


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
