"""Small traces, written event by event. Times are in µs, as in the files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sightline
from sightline.core.model.run import Run

Event = dict[str, Any]
PID, TID = 100, 101


def event(cat: str, name: str, ts: Any, dur: Any, *, pid: Any, tid: Any, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def host(cat: str, name: str, ts: Any, dur: Any, *, tid: int = TID, **args: Any) -> Event:
    return event(cat, name, ts, dur, pid=PID, tid=tid, **args)


def op(name: str, ts: Any, dur: Any, **args: Any) -> Event:
    return host("cpu_op", name, ts, dur, **args)


def call(name: str, ts: Any, dur: Any, correlation: int | None = None, **args: Any) -> Event:
    known = {} if correlation is None else {"correlation": correlation}
    return host("cuda_runtime", name, ts, dur, **known, **args)


def launch(ts: Any, dur: Any, correlation: int, **args: Any) -> Event:
    return call("cudaLaunchKernel", ts, dur, correlation, **args)


def kernel(
    name: str,
    ts: Any,
    dur: Any,
    correlation: int | None = None,
    *,
    device: int = 0,
    stream: int = 7,
    cat: str = "kernel",
    **args: Any,
) -> Event:
    known = {} if correlation is None else {"correlation": correlation}
    return event(
        cat, name, ts, dur, pid=device, tid=stream, device=device, stream=stream, **known, **args
    )


def launched(called: int, work: Event, api: str = "cudaLaunchKernel", dur: Any = 5) -> list[Event]:
    """A device event and the call that launched it, which begins at `called`."""
    number = 1_000_000 + called  # of all calls, only this one begins then
    linked = {**work, "args": {**work["args"], "correlation": number}}
    return [call(api, called, dur, number), linked]


def told(
    *shapes: Any, dtype: str = "c10::BFloat16", values: Sequence[str] = (), **more: Any
) -> Event:
    """An operator's arguments as the profiler writes them: [] stands for what is not a tensor."""
    types = [dtype if shape else "Scalar" for shape in shapes]
    texts = [*values, *[""] * (len(shapes) - len(values))]
    return {"Input Dims": list(shapes), "Input type": types, "Concrete Inputs": texts, **more}


def computed(name: str, called: int, work: Event, **args: Any) -> list[Event]:
    """An operator, the call in it and the kernel that this launched."""
    return [op(name, called, 8, **args), *launched(called + 1, work)]


def queued(
    *kernels: tuple[str, Any], begin: Any = 200, called: int = 0, **place: Any
) -> list[list[Event]]:
    """Kernels (name, length) without a gap from `begin` on, all launched before, 10 µs apart."""
    made, at = [], begin
    for i, (name, length) in enumerate(kernels):
        made.append(launched(called + 10 * i, kernel(name, at, length, **place)))
        at += length
    return made


def collective(
    ts: Any,
    dur: Any,
    op: str = "allreduce",
    *,
    floats: int = 1_000_000,
    ranks: int = 2,
    **more: Any,
) -> Event:
    """A kernel of NCCL as recordings since 2024 have it: with its size and group."""
    told = {
        "Collective name": op,
        "dtype": "Float",
        "Process Group Name": "dp",
        "Group size": ranks,
        "In msg nelems": floats,
        "Out msg nelems": floats,
    }
    return kernel(f"ncclDevKernel_{op}", ts, dur, **told, **more)


def copy(name: str, ts: Any, dur: Any, size: int | None, **args: Any) -> Event:
    known = {} if size is None else {"bytes": size}
    return kernel(name, ts, dur, cat="gpu_memcpy", **known, **args)


def step(number: int, ts: Any, dur: Any) -> Event:
    return host("user_annotation", f"ProfilerStep#{number}", ts, dur)


def flow(phase: str, number: int, place: tuple[int, int], ts: Any, cat: str = "ac2g") -> Event:
    return {
        "ph": phase,
        "id": number,
        "pid": place[0],
        "tid": place[1],
        "ts": ts,
        "cat": cat,
        "name": cat,
    }


def text_of(events: Sequence[Any], **header: Any) -> str:
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)})


def write(folder: Path, events: Sequence[Any], name: str = "trace.json", **header: Any) -> Path:
    """A trace file; compressed if the name ends in .gz."""
    return write_text(folder, text_of(events, **header), name)


def write_text(folder: Path, text: str | bytes, name: str = "trace.json") -> Path:
    data = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


def _flat(events: Sequence[Any]) -> list[Any]:
    """Events, and those in lists of events. An empty list is not an event either, and stays."""
    return [e for item in events for e in (item if isinstance(item, list) and item else [item])]


def opened(folder: Path, events: Sequence[Any], name: str = "trace.json", **header: Any) -> Run:
    """The run that the tool makes of a trace with these events, or lists of events."""
    return sightline.open(str(write(folder, _flat(events), name, **header)))


def opened_ranks(folder: Path, *ranks: Sequence[Any]) -> Run:
    """The run of several recordings, one of each rank."""
    files = []
    for rank, events in enumerate(ranks):
        told = {"rank": rank, "world_size": len(ranks)}
        files.append(write(folder, _flat(events), f"rank{rank}.json", distributedInfo=told))
    return sightline.open(*map(str, files))


def limits(run: Run) -> dict[str, int | None]:
    """The kinds of quality rows of a run, with their counts."""
    return dict(run.table("quality").select("kind", "count").rows())
