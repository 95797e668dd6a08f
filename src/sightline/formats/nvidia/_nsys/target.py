"""The machine, the processes and the recording itself."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import ImportOptions, Recording
from sightline.formats.nvidia._nsys import host
from sightline.formats.nvidia._nsys.codes import NVTX_THREAD_NAME, name_process, name_thread
from sightline.formats.nvidia._nsys.database import Database

# Set by torchrun, Open MPI, MPICH, PMIx, MVAPICH and Slurm: in this order, the most specific first.
RANK_VARIABLES = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)
SIZE_VARIABLES = (
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "SLURM_NTASKS",
)
_META = ("META_DATA_EXPORT", "EXPORT_META_DATA")  # the second until 2023


def read_metadata(db: Database) -> dict[str, str]:
    """The export's facts on itself: EXPORT_SCHEMA_VERSION and so on."""
    for table in _META:
        if db.has(table, "name", "value"):
            rows = db.rows(table, ["name", "value"])
            return {str(n): str(v) for n, v in rows.iter_rows() if v is not None}
    return {}


def read_version(meta: dict[str, str]) -> tuple[int, int, int] | None:
    """The schema's version, where the export states it."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", meta.get("EXPORT_SCHEMA_VERSION", ""))
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


def _capture(db: Database) -> dict[str, str]:
    """Rank and size of the job; nothing else of the environment is read."""
    rows = db.rows("META_DATA_CAPTURE", ["name", "value"])
    found: dict[str, str] = {}
    wanted = {*RANK_VARIABLES, *SIZE_VARIABLES}
    for name, value in rows.iter_rows():
        if value is None:
            continue
        if str(name).endswith("ENVIRONMENT_VARIABLE"):
            variable, _, text = str(value).partition("=")
            if variable in wanted:
                found[variable] = text.strip('"')
    return found


def start_of_session(db: Database) -> int | None:
    """Wall clock (ns since 1970) at the recording's time 0."""
    rows = db.ints("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",)).drop_nulls()
    value = rows.get_column("utcEpochNs").to_list()[:1]
    # What is not of this century is not a time of day.
    return value[0] if value and 10**18 < value[0] < 4 * 10**18 else None


def find_span(db: Database) -> tuple[int | None, int | None]:
    """Start and end of the recorded span in the recording's time."""
    rows = db.ints("ANALYSIS_DETAILS", ("duration",)).drop_nulls()
    if rows.is_empty():
        return None, None
    return 0, rows.get_column("duration").max()  # type: ignore[return-value]


def list_threads(db: Database, ranges: pl.DataFrame, others: list[pl.DataFrame]) -> pl.DataFrame:
    """Threads that did something; the export also names every other process of the machine."""
    # Rows of a thread mostly follow one another: only the first of them is looked at.
    own = ("pid", "tid")
    first = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift()) for c in own)
    found = [frame.select(own).filter(first) for frame in (ranges, *others)]
    used = pl.concat(found).drop_nulls().unique().sort("pid", "tid")
    processes = (
        db.rows("PROCESSES", ["globalPid", "pid", "name"])
        .select(
            pl.col("pid").cast(pl.Int64, strict=False), process_name=pl.col("name").cast(pl.String)
        )
        .unique("pid", keep="first", maintain_order=True)
    )
    names = db.named(
        db.ints("ThreadNames", ("nameId", "globalTid", "priority")), thread_name="nameId"
    )
    names = names.select(
        "thread_name", "priority", pid=name_process("globalTid"), tid=name_thread("globalTid")
    ).unique(["pid", "tid"], keep="last", maintain_order=True)
    return used.join(processes, on="pid", how="left", maintain_order="left").join(
        names, on=["pid", "tid"], how="left", maintain_order="left"
    )


def describe_recording(
    db: Database, meta: dict[str, str], options: ImportOptions, ranges: pl.DataFrame
) -> Recording:
    """What is known of the file as a whole."""
    capture = _capture(db)
    offset = start_of_session(db) or 0
    start, end = find_span(db)
    size = next((capture[v] for v in SIZE_VARIABLES if capture.get(v, "").isdecimal()), None)
    return Recording(
        tool="Nsight Systems",
        tool_version=meta.get("EXPORT_PRODUCT_VERSION"),
        rank=_rank(db, capture, ranges),
        world_size=None if size is None else int(size),
        host=meta.get("EXPORT_HOST") if options.keep_identity else None,
        clock_offset_ns=offset,
        start_ns=None if start is None else start + offset,
        end_ns=None if end is None else end + offset,
        has_stacks=False,
        has_shapes=False,
    )


def _rank(db: Database, capture: dict[str, str], ranges: pl.DataFrame) -> int | None:
    """The rank of the one process that was recorded; several processes have none together."""
    ranks = host.mpi_ranks(db).get_column("rank").unique().to_list()
    if ranks:
        return ranks[0] if len(ranks) == 1 else None
    # Before there was MPI_RANKS, its injection named the main thread so.
    names = db.rows("NVTX_EVENTS", ["text"], {"eventType": NVTX_THREAD_NAME})
    given = names.get_column("text").cast(pl.String).unique()
    texts = given.filter(given.str.contains("(?i)^MPI Rank ")).to_list()
    if len(texts) == 1 and texts[0][9:].isdecimal():
        return int(texts[0][9:])
    is_call = pl.col("layer").is_in(["runtime", "driver"])
    working = ranges.select("_gpid", "layer").filter(is_call)
    if working.get_column("_gpid").n_unique() == 1:
        for variable in RANK_VARIABLES:
            if capture.get(variable, "").isdecimal():
                return int(capture[variable])
    return None
