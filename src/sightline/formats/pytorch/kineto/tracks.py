"""Tracks of devices that a Chrome trace tells by the names of processes and threads.

Kineto gives an event's category; other tools that write the same format name the process instead:
JAX and XLA (`/device:GPU:0`, threads `Stream #7(Compute)`, or `XLA Ops` of a TPU), TensorFlow's
timeline (a process a stream, `/device:GPU:0/stream:20 Compute`), torch_npu (`Ascend Hardware`),
PyTorch's profiler of before Kineto (`CUDA functions`). A tracer of one's own
over CUPTI may write the names of the operations and nothing else.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

import polars as pl

from sightline.core.algebra.nesting import nest_ranges

_Names = dict[int, str]
_Threads = dict[tuple[int, int], str]

_XLA_DEVICE = re.compile(r"^/device:[A-Z]+(?::\w+)*?:(\d+)")
_STREAM = re.compile(r"\b[Ss]tream #?\s*(\d+)")
# Lines of XLA's devices that hold work; all others frame it, or say once more what it was.
_XLA_WORK = re.compile(r"^(?:Stream #\d+|(?:Async )?XLA Ops$)")
_XLA_ASYNC = "Async XLA Ops"
# TensorFlow's timeline (tensorflow/python/client/timeline.py, core/profiler's device tracer of 1.x
# and 2.0): of each device a process for each stream; one for all streams and one for copies, which
# hold the same once more; and one in which the executor starts the operators, on the host. An
# operator's name may end in the number of its step.
_TF_DEVICE = re.compile(
    r"^(?:/job:\S*?)?/(?:device:)?(?i:gpu):(\d+)(?:/context#\d+)?/"
    r"(?:stream[:#](?:(?P<stream>\d+)|all)\b\S*|memcpy) Compute$"
)
_TF_EXECUTOR = re.compile(
    r"^/(?:job:\S*?/)?(?:device:)?(?i:cpu|gpu):\d+ Compute$|^/host:CPU Compute$"
)
_TF_STEP = r"#id=\d+#$"
# Processes whose threads are streams, and what their name is a number of; the last is unitrace's,
# of which an event was edited, or written by a version that its own reader does not know.
_HARDWARE = re.compile(
    r"^(?:CUDA functions|Ascend Hardware|HCCL|Communication|NPU(?: \d+)?|GPU \d+"
    r"|RANK \d+ DEVICE<.*)$"
)
_EXCHANGES = ("HCCL", "Communication")  # torch_npu's collectives as a whole
# The reader numbers a process whose id is a text without a number by the text's CRC.
_HELD_PCT = 90.0  # of an operator, in others: the rest is what starting those takes (ours)
_FIRST_PROFILER = "CUDA functions"  # operators, by events of the device around each of them
_OF_TEXT = {zlib.crc32(_FIRST_PROFILER.encode()): _FIRST_PROFILER}
_OF_CPU = {zlib.crc32(b"CPU functions")}
# XLA's opcodes, before the number that tells one from the next.
_OPCODE = r"^%?([a-z-]+?)(?:\.[\d.a-z]+)?$"
_COPIES = r"(?i)^(?:\[?memcpy|copy(?:-start)?$|async-copy|infeed|outfeed)"
_FILLS = r"(?i)^\[?memset"
_WAITS = r"(?i)(?:^|-)(?:done|update)$|^(?:event[_ ]?wait|wait\b|notify|event_record|.*_wait_sqe$)"
_COLLECTIVES = {
    "all-reduce": "allreduce", "all-gather": "allgather", "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall", "ragged-all-to-all": "alltoall", "collective-permute": "sendrecv",
    "collective-broadcast": "broadcast", "send": "send", "recv": "recv",
}  # fmt: skip
_STARTS = ("copy", *_COLLECTIVES)
# What only a device does: a copy with its direction, and a function of C++ with its parameters.
_NAMED_COPY = r"(?i)^\[?(?:cuda|hip|cu)?mem(?:cpy|set)\]?\b.*\b[HDP](?:ost|evice)?(?:to|2)[HDP]"
_SIGNATURE = r"^(?:void |_Z\d|_ZN\d).*|.*>\(.*\)$"


class Track(NamedTuple):
    """A thread of a trace that is a device's: as a stream of work, or as what frames it."""

    pid: int
    tid: int
    device_id: int
    is_work: bool
    is_async: bool = False
    is_nested: bool = False  # operators within operators: what holds others is none of the work
    stream_id: int | None = None  # where the process tells it, and not the thread


def find_tracks(threads: list[tuple[int, int]], processes: _Names, names: _Threads) -> list[Track]:
    """The threads that are devices', by their names."""
    found = []
    apart = _find_streams_apart(processes)
    for pid, tid in threads:
        process = processes.get(pid) or _OF_TEXT.get(pid, "")
        thread = names.get((pid, tid), "")
        if lane := _TF_DEVICE.match(process):
            device_id = int(lane[1])
            number = None if lane["stream"] is None else int(lane["stream"])
            is_work = number is not None or device_id not in apart
            found.append(Track(pid, tid, device_id, is_work, stream_id=number))
        elif device := _XLA_DEVICE.match(process):
            is_work = bool(_XLA_WORK.match(thread))
            found.append(Track(pid, tid, int(device[1]), is_work, thread == _XLA_ASYNC))
        elif _HARDWARE.match(process):
            if _is_part(process, thread, processes):
                continue
            last = None if process.startswith("RANK") else re.search(r"\d+$", process)
            place = int(last[0]) if last else 0
            nested = process == _FIRST_PROFILER
            found.append(Track(pid, tid, place, is_work=True, is_nested=nested))
    return found


def _find_streams_apart(processes: _Names) -> set[int]:
    """The devices of TensorFlow's timeline whose streams have a process each."""
    told = (_TF_DEVICE.match(process) for process in processes.values())
    return {int(name[1]) for name in told if name and name["stream"] is not None}


def _is_part(process: str, thread: str, processes: _Names) -> bool:
    """Whether a thread is none of a device's: of torch_npu, a collective's pieces on its links.

    Others may call a process of theirs so, too.
    """
    if process not in _EXCHANGES:
        return False
    return thread.startswith("Plane") or "Ascend Hardware" not in processes.values()


def name_devices(processes: _Names) -> tuple[str, str] | None:
    """Vendor and name of devices that are no GPUs, by what processes are called."""
    names = processes.values()
    if "Ascend Hardware" in names:
        return "huawei", "Ascend NPU"
    return ("google", "TPU") if any(n.startswith("/device:TPU") for n in names) else None


def names_copies(texts: pl.Series) -> bool:
    """Whether some of a trace's names are copies with their direction."""
    return bool(texts.str.contains(_NAMED_COPY).any())


def find_named_tracks(host_ops: pl.DataFrame) -> list[Track]:
    """The threads on which all that runs is named as a device's: copies, fills and kernels.

    Each process that has one is a device, in the order of their ids: no name tells its number.
    """
    is_copy = pl.col("name").str.contains(_NAMED_COPY)
    is_fill = pl.col("name").str.contains(_FILLS)
    told = host_ops.group_by("pid", "tid").agg(
        copies=is_copy.any(),
        all=(is_copy | is_fill | pl.col("name").str.contains(_SIGNATURE)).all(),
    )
    threads = sorted(told.filter("copies", "all").select("pid", "tid").rows())
    devices = sorted({pid for pid, _ in threads})
    return [Track(pid, tid, devices.index(pid), is_work=True) for pid, tid in threads]


class Split(NamedTuple):
    """A trace's ranges once those of devices are taken out."""

    host_ops: pl.DataFrame
    device_ops: pl.DataFrame
    device_ranges: pl.DataFrame
    collectives: pl.DataFrame


def split_tracks(
    host_ops: pl.DataFrame, tracks: list[Track], processes: _Names, names: _Threads
) -> Split:
    """Device work and what frames it, taken out of host ranges, which are nested anew."""
    listed = pl.DataFrame(
        [(*track[:-1], _read_stream(track, names)) for track in tracks],
        schema=["pid", "tid", "device_id", "is_work", "is_async", "is_nested", "stream_id"],
        orient="row",
    )
    placed = host_ops.join(listed, on=["pid", "tid"], how="left", maintain_order="left")
    nested = placed.filter("is_nested")
    if nested.height:
        works = pl.col("host_op_id").is_in(_find_innermost_work(nested))
        placed = placed.with_columns(is_work=pl.col("is_work") & (~pl.col("is_nested") | works))
    is_device = pl.col("device_id").is_not_null()
    # A trace that has no categories leaves operators of PyTorch's first profiler without a layer.
    executors = {pid for pid, name in processes.items() if _TF_EXECUTOR.match(name)}
    layer = (
        pl.when(pl.col("pid").is_in([*_OF_CPU, *executors])).then(pl.lit("op")).otherwise("layer")
    )
    hosts = placed.filter(~is_device).select(host_ops.columns).with_columns(layer=layer)
    opcode = pl.col("name").str.extract(_OPCODE, 1)
    base = opcode.str.strip_suffix("-start")
    is_begin = opcode.str.ends_with("-start") & base.is_in(_STARTS) & ~pl.col("is_async")
    op = base.replace_strict(_COLLECTIVES, default=None, return_dtype=pl.String)
    kind = (
        pl.when(is_begin | pl.coalesce(opcode, "name").str.contains(_WAITS))
        .then(pl.lit("other"))
        .when(pl.coalesce(opcode, "name").str.contains(_COPIES))
        .then(pl.lit("memcpy"))
        .when(pl.col("name").str.contains(_FILLS))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )
    work = (
        placed.filter(is_device & pl.col("is_work"))
        .sort("start_ns", "end_ns", maintain_order=True)
        .with_columns(
            kind=kind,
            op=pl.when(~is_begin).then(op),
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        )
    )
    copied = r"(?i)([HDP])(?:ost|evice)?to([HDP])|([HDP])2([HDP])"
    ends = pl.col("name").str.extract_groups(copied).struct
    direction = pl.concat_str(
        pl.coalesce(ends.field("1"), ends.field("3")).str.to_uppercase(),
        pl.lit("to"),
        pl.coalesce(ends.field("2"), ends.field("4")).str.to_uppercase(),
    )
    return Split(
        nest_ranges(hosts.drop("host_op_id", "parent_id", "depth", "subtree_end_id")),
        work.select(
            "device_op_id", "device_id", "stream_id", "kind",
            pl.col("name").str.replace(_TF_STEP, ""), "start_ns", "end_ns",
            copy_kind=pl.when(pl.col("kind") == "memcpy").then(direction),
        ),
        placed.filter(is_device & ~pl.col("is_work")).select(
            "device_id", "stream_id", "name", "start_ns", "end_ns"
        ),
        work.select("device_op_id", "op").drop_nulls(),
    )  # fmt: skip


def _find_innermost_work(ops: pl.DataFrame) -> list[int]:
    """The ids of operators that work, and not only hold others that do; none within another.

    What others take nearly all of is left to them.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    inside = ops.group_by(host_op_id="parent_id").agg(inside_ns=length.sum())
    known = ops.join(inside, on="host_op_id", how="left").select(
        "host_op_id",
        "parent_id",
        holds=(100 * pl.col("inside_ns").fill_null(0) >= _HELD_PCT * length) & (length > 0),
    )
    ids = set(known.get_column("host_op_id"))
    holds = dict(known.select("host_op_id", "holds").iter_rows())
    opened: dict[int, bool] = {}  # whether all that an operator lies in only holds others
    for op, parent in known.sort("host_op_id").select("host_op_id", "parent_id").iter_rows():
        opened[op] = parent not in ids or (opened.get(parent, True) and holds[parent])
    return [op for op, is_open in opened.items() if is_open and not holds[op]]


def _read_stream(track: Track, names: _Threads) -> int:
    if track.stream_id is not None:
        return track.stream_id
    found = _STREAM.search(names.get((track.pid, track.tid), ""))
    return int(found[1]) if found else track.tid
