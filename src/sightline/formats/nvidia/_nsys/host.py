"""What the CPU did: API calls, NVTX, OS calls, MPI, libraries, overhead, as nested ranges."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.formats.nvidia._nsys import chain_shift, codes, mpi, nvtx
from sightline.formats.nvidia._nsys.codes import (
    decode_codes,
    keep_complete,
    keep_known,
    mask_process,
    name_process,
    name_thread,
    shrink_columns,
)
from sightline.formats.nvidia._nsys.database import Database

# Outer first where two ranges start and end together.
_LAYERS = (
    "step",
    "annotation",
    "mpi",
    "openacc",
    "openmp",
    "library",
    "runtime",
    "driver",
    "os",
    "overhead",
)
_MPI = {
    "MPI_P2P_EVENTS": "p2p",
    "MPI_COLLECTIVES_EVENTS": "collective",
    "MPI_START_WAIT_EVENTS": "start_wait",
    "MPI_OTHER_EVENTS": "other",
}
_LIBRARIES = (
    *("CUBLAS_EVENTS", "CUDNN_EVENTS", "NVVIDEO_DECODER_API", "NVVIDEO_ENCODER_API"),
    *("OPENGL_API", "CUPTI_ACTIVITY_KIND_JIT"),
)
# UCX: point-to-point transport below MPI and NCCL; its ranges have the form of the MPI ones.
_UCX = ("UCP_SUBMIT_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_EVENTS")


def read(
    db: Database, chains: dict[str, pl.DataFrame], end: int | None
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    """All ranges nested per thread, in the recording's time; the MPI parameters; and counts.

    Helper columns: _gpid, rowid (of NVTX). Counts are of 'open' (ranges that never ended,
    closed at `end`), 'negative' (ranges that end before they start, left out), 'timeless' (ranges
    without a start, left out), and 'shifted_chains' (1 where call chains had to be moved to their
    own call).
    """
    ranges, unended = nvtx.read(db)
    calls, shifted = _runtime(db, chains["CUDA_CALLCHAINS"])
    parts = [
        calls,
        ranges,
        _os(db, chains["OSRT_CALLCHAINS"]),
        _mpi(db),
        *(_plain(db, name, "library", "nameId") for name in _LIBRARIES),
        *(_plain(db, name, "library", "textId") for name in _UCX),
        *(
            _plain(db, name, "openacc", "nameId")
            for name in _like(db, "CUPTI_ACTIVITY_KIND_OPENACC_")
        ),
        *(_plain(db, name, "openmp", "nameId") for name in _like(db, "OPENMP_EVENT_KIND_")),
        _overhead(db),
        _profiler_overhead(db),
    ]
    # A number a row, not a text: the names are only passed on from here.
    name = pl.col("name").cast(pl.Categorical)
    filled = [shrink_columns(part).with_columns(name) for part in parts if part.height]
    frame = pl.concat(filled, how="diagonal_relaxed") if filled else pl.DataFrame()
    del calls, parts, filled  # columns that are replaced below would be kept by them
    frame = keep_complete(frame, ("start_ns", "end_ns", "_gtid"), ("layer", "name", "range_kind"))
    timeless = frame.get_column("start_ns").null_count()
    if timeless:  # of damaged rows: they stand nowhere
        frame = frame.drop_nulls("start_ns")
    # A range that never ended was still open when recording stopped.
    last = frame.select(pl.max_horizontal(pl.col("start_ns").max(), pl.col("end_ns").max())).item()
    stop = max(last or 0, end or 0)
    frame = frame.with_columns(pl.col("end_ns").fill_null(stop))
    negative = frame.filter(pl.col("end_ns") < pl.col("start_ns")).height
    if negative:
        frame = frame.filter(pl.col("end_ns") >= pl.col("start_ns"))
    order = {layer: i for i, layer in enumerate(_LAYERS)}
    tree = nest_ranges(
        frame,
        ["_gtid"],
        order=pl.col("layer").replace_strict(order, default=len(order), return_dtype=pl.Int8),
        apart=pl.col("range_kind") == "startend",
    )
    del frame
    processes = tree.select(mask_process("_gtid").unique()).to_series()
    one = pl.lit(processes[0], pl.Int64) if processes.len() == 1 else mask_process("_gtid")
    tree = tree.with_columns(_gpid=one, tid=name_thread("_gtid")).with_columns(
        pid=name_process("_gpid")
    )
    tree = keep_complete(tree, ("correlation_id", "rowid"), ("category",))
    parameters = _mpi_parameters(tree, db)
    return (
        tree.drop("_gtid"),
        parameters,
        {
            "open": unended,
            "negative": negative,
            "timeless": timeless,
            "shifted_chains": int(shifted),
        },
    )


def _like(db: Database, prefix: str) -> list[str]:
    return [name for name in db.tables if name.startswith(prefix)]


def _runtime(db: Database, chains: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Runtime and driver calls; whether their call chains had to be moved to their own call."""
    frame = db.take_ints(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        (
            "start",
            "end",
            "eventClass",
            "globalTid",
            "correlationId",
            "nameId",
            "returnValue",
            "callchainId",
        ),
        ("correlationId", "nameId", "returnValue"),
    )
    frame = db.named(_without_echoes(frame), name="nameId")
    is_runtime = pl.col("eventClass") == codes.EVENT_CLASS_RUNTIME
    layer = pl.when(is_runtime).then(pl.lit("runtime")).otherwise(pl.lit("driver"))
    if frame.height and frame.select(is_runtime.all()).item():
        layer = pl.lit("runtime")  # one value takes no memory
    frame = frame.select(
        start_ns="start",
        end_ns="end",
        layer=layer,
        name=pl.col("name").fill_null("unknown call"),
        _gtid="globalTid",
        correlation_id="correlationId",
        return_value="returnValue",
        id=keep_known("callchainId", 0),
    )
    frame, shifted = chain_shift.move_chains_back(frame, db)
    return _with_stack(frame, chains), shifted


def _without_echoes(calls: pl.DataFrame) -> pl.DataFrame:
    """Each call once.

    With call chains on, exports of 2022 have a call twice: as itself, and around it a row of
    another class (67) with the same correlation id, which has the chain.
    """
    itself = pl.col("eventClass").is_in([codes.EVENT_CLASS_RUNTIME, codes.EVENT_CLASS_DRIVER])
    if calls.select(itself.all()).item():
        return calls
    by = ["globalTid", "correlationId"]
    others, own = calls.filter(~itself), calls.filter(itself)
    echoes = others.join(own, on=by, how="semi")
    chains = echoes.select(*by, echo="callchainId").unique(by, keep="first", maintain_order=True)
    own = own.join(chains, on=by, how="left", maintain_order="left").with_columns(
        callchainId=pl.coalesce("echo", "callchainId")
    )
    return pl.concat([own.drop("echo"), others.join(own, on=by, how="anti")])


def _with_stack(frame: pl.DataFrame, chains: pl.DataFrame) -> pl.DataFrame:
    if chains.is_empty():
        return frame.drop("id")
    return frame.join(chains, on="id", how="left", maintain_order="left").drop("id")


def _os(db: Database, chains: pl.DataFrame) -> pl.DataFrame:
    frame = db.ints(
        "OSRT_API",
        ("start", "end", "eventClass", "globalTid", "nameId", "returnValue", "callchainId"),
    )
    frame = db.named(frame, name="nameId").select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit("os"),
        name=pl.col("name").fill_null("unknown call"),
        _gtid="globalTid",
        return_value="returnValue",
        # The others mark when the tracing of OS calls began and ended.
        range_kind=pl.when(pl.col("eventClass") != codes.OSRT_CALL).then(pl.lit("mark")),
        id=keep_known("callchainId", 0),
    )
    return _with_stack(frame, chains)


def _plain(db: Database, table: str, layer: str, name: str) -> pl.DataFrame:
    frame = db.named(db.ints(table, ("start", "end", "globalTid", name)), name=name)
    return frame.select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit(layer),
        name=pl.col("name").fill_null("unknown call"),
        _gtid="globalTid",
    )


def _overhead(db: Database) -> pl.DataFrame:
    """Costs that the CUDA driver and CUPTI report of themselves."""
    frame = db.ints(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        ("start", "end", "globalTid", "correlationId", "nameId", "overheadType"),
    )
    kind = decode_codes(
        "overheadType", db.labels("ENUM_CUPTI_OVERHEAD_TYPE") or codes.OVERHEAD_TYPES
    )
    return db.named(frame, name="nameId").select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit("overhead"),
        name=pl.coalesce("name", kind, pl.lit("overhead")),
        _gtid="globalTid",
        correlation_id="correlationId",
        category=kind,
    )


def _profiler_overhead(db: Database) -> pl.DataFrame:
    """Costs of the profiler itself, and of the driver where the profiler has no name for them."""
    frame = db.ints("PROFILER_OVERHEAD", ("start", "end", "globalTid", "nameId"))
    return db.named(frame, name="nameId").select(
        start_ns="start",
        end_ns="end",
        layer=pl.lit("overhead"),
        name=pl.col("name").fill_null("profiler"),
        _gtid="globalTid",
        category=pl.when(pl.col("name") == codes.UNNAMED_OVERHEAD)
        .then(pl.lit(codes.LOADING_OVERHEAD))
        .otherwise(pl.lit(codes.PROFILER_OVERHEAD)),
    )


_MPI_COLUMNS = (
    "start",
    "end",
    "globalTid",
    "textId",
    "commHandle",
    "commUid",
    "tag",
    "remoteRank",
    "rootRank",
    "size",
    "recvSize",
    "requestHandle",
)


def _mpi(db: Database) -> pl.DataFrame:
    """MPI calls, each with its parameters as a struct in `_mpi`."""
    parts = []
    for table, kind in _MPI.items():
        frame = db.named(db.ints(table, _MPI_COLUMNS), name="textId")
        collective = kind == "collective"
        nothing = pl.lit(None, pl.Int64)
        parts.append(
            frame.select(
                start_ns="start",
                end_ns="end",
                layer=pl.lit("mpi"),
                name=pl.col("name").fill_null("unknown call"),
                _gtid="globalTid",
                _mpi=pl.struct(
                    kind=pl.lit(kind),
                    tag="tag",
                    peer="remoteRank",
                    root="rootRank",
                    bytes=nothing if collective else pl.col("size"),
                    bytes_sent=pl.col("size") if collective else nothing,
                    bytes_received="recvSize",
                    communicator=pl.coalesce("commUid", "commHandle"),
                    request="requestHandle",
                    _handle="commHandle",
                ),
            )
        )
    return pl.concat(parts)


def _mpi_parameters(tree: pl.DataFrame, db: Database) -> pl.DataFrame:
    calls = tree.filter(pl.col("layer") == "mpi") if "_mpi" in tree.columns else tree.clear()
    if calls.is_empty():
        return pl.DataFrame(schema={"host_op_id": pl.Int64, "kind": pl.String})
    ranks = mpi_ranks(db).rename({"globalTid": "_gtid", "rank": "mpi_rank"})
    named = (
        calls.select("host_op_id", "_gtid", "_mpi", pl.col("name").cast(pl.String))
        .unnest("_mpi")
        .join(ranks, on="_gtid", how="left")
        .with_columns(**mpi.name_parts(pl.col("name")))
    )
    communicators = mpi.list_communicators(db.ints("MPI_COMMUNICATORS", mpi.COMMUNICATOR))
    return mpi.name_ranks(named, communicators).drop("_gtid", "_handle", "name").sort("host_op_id")


def mpi_ranks(db: Database) -> pl.DataFrame:
    """Which MPI rank a thread belongs to."""
    return db.ints("MPI_RANKS", ("globalTid", "rank")).unique("globalTid", keep="first")
