"""Writes simulated runs as recordings of the PyTorch profiler (Kineto Chrome-trace JSON).

Times go from integer ns to decimal text by digits alone, never through a float: a time in us
since the epoch has more digits than a float64 holds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from .dialects import CBIDS, CIDS, DIALECTS, Dialect, head_of, renamed, tail_of
from .model import DeviceOp, HostRange, RankRun, Run

_LEAD_NS = 40_000  # the profiler's own span begins this long before the run


def origin_ns(dialect: str) -> int:
    """Return what a dialect adds to the run's times, in ns: file time = run time + origin."""
    return DIALECTS[dialect].origin_ns


def device_id(dialect: str, device: int) -> int:
    """Return a device's number in a dialect's files."""
    return device + DIALECTS[dialect].device_shift


def api_name(dialect: str, name: str) -> str:
    """Return an API call's name in a dialect's files, from CUDA's name."""
    return renamed(DIALECTS[dialect], name)


def write(
    run: Run, folder: Path, dialect: str = "2025", *, gz: bool = False, sync_events: bool = False
) -> list[Path]:
    """Write one file per rank into the folder, and return the files in the order of ranks.

    ``sync_events`` adds the ``cuda_sync`` rows, which torch records only when asked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in run.ranks:
        data = text(run, rank.rank, dialect, sync_events=sync_events).encode()
        path = folder / f"rank{rank.rank}.pt.trace.json{'.gz' if gz else ''}"
        # A fixed time in the gzip header keeps the bytes equal from one writing to the next.
        path.write_bytes(gzip.compress(data, mtime=0) if gz else data)
        files.append(path)
    return files


def text(run: Run, rank: int, dialect: str = "2025", *, sync_events: bool = False) -> str:
    """Return the recording of one rank as text."""
    form = DIALECTS[dialect]
    if form.whole_us and run.grain_ns % 1000:
        raise ValueError(f"dialect {dialect} needs times in whole us: simulate with grain_ns=1000")
    rows = ",\n".join(_Writer(run, run.ranks[rank], form, sync_events).rows())
    if form.bare_list:
        return f"[\n{rows}\n]\n"
    head, tail = head_of(run, run.ranks[rank], form), tail_of(rank, form)
    fields = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    fields.append(f'  "traceEvents": [\n{rows}\n  ]')
    fields += [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in tail.items()]
    return "\n{\n" + ",\n".join(fields) + "\n}\n"


class _Writer:
    """Turns one rank's records into rows of text."""

    def __init__(self, run: Run, rank: RankRun, form: Dialect, sync_events: bool) -> None:
        self.run, self.rank, self.form, self.sync_events = run, rank, form, sync_events
        self.by_id = {r.range_id: r for r in rank.ranges}
        self.launched: dict[int, list[DeviceOp]] = {}
        for op in rank.ops:
            self.launched.setdefault(op.launch.range_id, []).append(op)

    # -- text -------------------------------------------------------------------------------

    def us(self, ns: int) -> str:
        """Return a duration in ns as decimal text in us."""
        if self.form.whole_us:
            assert ns % 1000 == 0
            return str(ns // 1000)
        return f"{ns // 1000}.{ns % 1000:03d}"

    def ts(self, ns: int) -> str:
        """Return a time of the run as the text of ``ts``."""
        return self.us(ns + self.form.origin_ns)

    def complete(
        self,
        category: str,
        name: str,
        place: tuple[object, object],
        span: tuple[int, int],
        args: dict[str, object],
    ) -> str:
        """Return a row with a duration; place is (pid, tid), span [start, end) in ns."""
        start, end = span
        pid, tid = json.dumps(place[0]), json.dumps(place[1])
        return (
            f'  {{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, '
            f'"pid": {pid}, "tid": {tid},\n'
            f'    "ts": {self.ts(start)}, "dur": {self.us(end - start)},\n'
            f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
        )

    def flow(self, phase: str, number: int, place: tuple[object, object], time_ns: int) -> str:
        """Return one end of an arrow from a launch ("s") to its device operation ("f")."""
        category, name = ("async", "launch") if self.form.old else ("ac2g", "ac2g")
        binding = ', "bp": "e"' if phase == "f" else ""
        pid, tid = json.dumps(place[0]), json.dumps(place[1])
        return (
            f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, '
            f'"ts": {self.ts(time_ns)},\n    "cat": "{category}", "name": "{name}"{binding}\n  }}'
        )

    def metadata(self, name: str, place: tuple[object, object], key: str, value: object) -> str:
        """Return a row that names or sorts a process or a thread."""
        pid, tid = json.dumps(place[0]), json.dumps(place[1])
        return (
            f'  {{\n    "name": "{name}", "ph": "M", "ts": {self.ts(-_LEAD_NS)}, '
            f'"pid": {pid}, "tid": {tid},\n'
            f'    "args": {{\n      "{key}": {json.dumps(value)}\n    }}\n  }}'
        )

    # -- places -----------------------------------------------------------------------------

    def host_place(self, tid: int) -> tuple[object, object]:
        """Return (pid, tid) of a host thread; in 2021 the tid was a text."""
        return self.rank.pid, str(tid) if self.form.old else tid

    def stream_place(self, device: int, stream: int) -> tuple[object, object]:
        """Return (pid, tid) of a stream: the device stands for the process."""
        tid = f"stream {stream}" if self.form.old else stream
        return device + self.form.device_shift, tid

    # -- rows -------------------------------------------------------------------------------

    def rows(self) -> Iterator[str]:
        """Yield all rows, in the order in which Kineto writes the kinds."""
        ranges = [r for r in self.rank.ranges if r.recorded and r.layer in self.form.categories]
        for made in ranges:
            if made.layer not in ("runtime", "driver"):
                yield self.framework_row(made)
        yield from self.memory_rows()
        for made in ranges:
            if made.layer in ("runtime", "driver"):
                yield from self.call_rows(made)
        for op in self.rank.ops:
            yield from self.device_rows(op)
        if self.form.mirrors:
            yield from self.mirror_rows()
        if self.sync_events:
            yield from self.sync_rows()
        yield from self.sample_rows()
        yield from self.metadata_rows()
        yield from self.span_rows()

    def sample_rows(self) -> Iterator[str]:
        """Yield counters as Chrome traces have them; Kineto's reader takes the pid as device."""
        for s in self.rank.samples:
            yield (
                f'  {{\n    "ph": "C", "name": {json.dumps(s.metric)}, '
                f'"pid": {device_id(self.form.name, s.device)}, "ts": {self.ts(s.time_ns)},\n'
                f'    "args": {{"value": {s.value}}}\n  }}'
            )

    def framework_row(self, made: HostRange) -> str:
        """Return the row of an op, an annotation or a Python function."""
        args: dict[str, object]
        if self.form.old:
            args = {
                "Device": self.rank.pid,
                "External id": made.external_id,
                "Trace name": "PyTorch Profiler",
                "Trace iteration": 0,
            }
            stack = self.call_stack(made)
            if stack:
                args["Call stack"] = stack
        elif made.layer == "python":
            args = {"Python parent id": made.python_parent_id, "Python id": made.python_id}
        else:
            args = {"External id": made.external_id, "Record function id": 0, **made.args}
        if not self.form.old:
            args["Ev Idx"] = made.range_id
        place, span = self.host_place(made.tid), (made.start_ns, made.end_ns)
        return self.complete(self.form.categories[made.layer], made.name, place, span, args)

    def call_stack(self, made: HostRange) -> str:
        """Return the Python functions around a range, innermost first, as 2021 wrote them."""
        stack = []
        parent = made.parent_id
        while parent is not None:
            outer = self.by_id[parent]
            if outer.layer == "python":
                stack.append(outer.name)
            parent = outer.parent_id
        return ";".join(stack)

    def memory_rows(self) -> Iterator[str]:
        """Yield the caching allocator's events."""
        for event in self.rank.memory:
            args: dict[str, object] = {
                "Device Type": 6 if self.form.amd else 1,
                "Device Id": event.device + self.form.device_shift,
                "Bytes": event.bytes,
            }
            if not self.form.old:
                args |= {
                    "Addr": event.address,
                    "Total Allocated": event.total_allocated,
                    "Total Reserved": event.total_reserved,
                }
            category = "" if self.form.old else '"cat": "cpu_instant_event", '
            yield (
                f'  {{\n    "ph": "i", {category}"s": "t", "name": "[memory]", '
                f'"pid": {self.rank.pid}, "tid": {event.tid},\n'
                f'    "ts": {self.ts(event.time_ns)},\n'
                f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
            )

    def call_rows(self, made: HostRange) -> Iterator[str]:
        """Yield the row of an API call and the arrow to what it launched."""
        name = renamed(self.form, made.name)
        ids = CIDS if self.form.amd else CBIDS
        key = "cid" if self.form.amd else "cbid"
        args: dict[str, object] = {}
        if made.external_id is not None and not self.form.old:
            args["External id"] = made.external_id
        if name in ids:
            args[key] = ids[name]
        args["correlation"] = made.correlation
        if self.form.old:
            args["external id"] = made.external_id or 0
        ops = self.launched.get(made.range_id, [])
        if self.form.amd and made.name.startswith("cudaLaunch") and ops:
            args |= {"kernel": ops[0].name, "grid": ops[0].grid, "block": ops[0].block}
        category = self.form.categories[made.layer]
        if self.form.amd:
            category = "cuda_runtime"
        place = self.host_place(made.tid)
        yield self.complete(category, name, place, (made.start_ns, made.end_ns), args)
        if ops:
            assert made.correlation is not None
            yield self.flow("s", made.correlation, (place[0], made.tid), made.start_ns)

    def device_rows(self, op: DeviceOp) -> Iterator[str]:
        """Yield the row of a device operation and the arrow from its launch."""
        place = self.stream_place(op.device, op.stream)
        span = (op.start_ns, op.end_ns)
        category = self.form.categories[op.kind]
        yield self.complete(category, op.name, place, span, self.device_args(op))
        yield self.flow("f", op.correlation, place, op.start_ns)

    def device_args(self, op: DeviceOp) -> dict[str, object]:
        """Return the arguments of a device operation."""
        args: dict[str, object] = {}
        external = op.launch.external_id
        if external is not None and not self.form.old:
            args["External id"] = external
        if op.kind == "kernel" and not self.form.amd:
            args["queued"] = 0
        args["device"] = op.device + self.form.device_shift
        if not self.form.amd:
            args["context"] = 1
        args |= {"stream": op.stream, "correlation": op.correlation}
        if external is not None and self.form.old:
            args["external id"] = external
        if op.kind == "kernel":
            args |= self.kernel_args(op)
        else:
            assert op.bytes is not None
            if self.form.amd:
                args["kind"] = op.name.split()[1].strip("()")
            args["bytes"] = op.bytes
            args["memory bandwidth (GB/s)"] = op.bytes / (op.end_ns - op.start_ns)
        return args

    def kernel_args(self, op: DeviceOp) -> dict[str, object]:
        """Return the arguments that only kernels have."""
        if self.form.amd:
            # A kernel of a graph has its own word and, like there, no size of the grid.
            if op.graph_id is not None:
                return {"kind": "Dispatch Task"}
            return {"kind": "Dispatch Kernel", "grid": op.grid, "block": op.block}
        blocks = op.grid[0] * op.grid[1] * op.grid[2]
        threads = op.block[0] * op.block[1] * op.block[2]
        blocks_per_sm = round(blocks / 108, 6)
        warps_per_sm = round(blocks / 108 * (threads // 32), 6)
        args: dict[str, object] = {
            "registers per thread": op.registers,
            "shared memory": op.shared_bytes,
            "blocks per SM": blocks_per_sm,
            "warps per SM": warps_per_sm,
            "grid": op.grid,
            "block": op.block,
            "est. achieved occupancy %": min(100, int(100 * warps_per_sm / 64)),
        }
        if op.collective is not None and self.form.collective_args:
            args |= op.collective
        return args

    def mirror_rows(self) -> Iterator[str]:
        """Yield each annotation again on each stream, over what was launched inside it."""
        spans: dict[tuple[int, int, int], tuple[int, int]] = {}
        for op in self.rank.ops:
            for number in op.annotation_ids:
                key = (number, op.device, op.stream)
                start, end = spans.get(key, (op.start_ns, op.end_ns))
                spans[key] = (min(start, op.start_ns), max(end, op.end_ns))
        for (number, device, stream), span in spans.items():
            made = self.by_id[number]
            place = self.stream_place(device, stream)
            args: dict[str, object] = {"External id": made.external_id}
            yield self.complete("gpu_user_annotation", made.name, place, span, args)

    def sync_rows(self) -> Iterator[str]:
        """Yield the waits between streams, events and the host."""
        for sync in self.rank.syncs:
            args: dict[str, object] = {"cuda_sync_kind": sync.kind}
            if sync.event_id is not None:
                args |= {
                    "wait_on_stream": sync.event_stream,
                    "wait_on_cuda_event_record_corr_id": sync.event_correlation,
                    "wait_on_cuda_event_id": sync.event_id,
                }
            device = sync.device + self.form.device_shift
            args |= {
                "stream": sync.stream,
                "correlation": sync.correlation,
                "device": device,
                "context": 1,
            }
            span = (sync.start_ns, sync.end_ns)
            yield self.complete("cuda_sync", sync.kind, (device, sync.stream), span, args)

    def metadata_rows(self) -> Iterator[str]:
        """Yield the names of processes and threads."""
        shown: list[tuple[object, str, int]] = [(self.rank.pid, "CPU", self.rank.pid)]
        for device in sorted({op.device for op in self.rank.ops}):
            number = device + self.form.device_shift
            shown.append((number, f"GPU {number}", 5_000_000 + number))
        for pid, label, order in shown:
            yield self.metadata("process_name", (pid, 0), "name", "python3")
            yield self.metadata("process_labels", (pid, 0), "labels", label)
            if not self.form.old:
                yield self.metadata("process_sort_index", (pid, 0), "sort_index", order)
        for tid, name in self.rank.threads.items():
            place = self.host_place(tid)
            yield self.metadata("thread_name", place, "name", f"thread {tid} ({name})")
        if self.form.old:
            return
        for device, stream in sorted({(op.device, op.stream) for op in self.rank.ops}):
            place = self.stream_place(device, stream)
            yield self.metadata("thread_name", place, "name", f"stream {stream} ")
            yield self.metadata("thread_sort_index", place, "sort_index", stream)

    def span_rows(self) -> Iterator[str]:
        """Yield the profiler's own span and its two marks."""
        end = self.rank.end_ns()
        # Whole us, so that the dialect without decimals can write it.
        end += -end % 1000
        pid = "Traces" if self.form.old else "Spans"
        place = (pid, "PyTorch Profiler")
        yield self.complete(
            "Trace", "PyTorch Profiler (0)", place, (-_LEAD_NS, end), {"Op count": 0}
        )
        for name, mark, pid, tid in (
            ("Iteration Start: PyTorch Profiler", -_LEAD_NS, "Traces", "Trace PyTorch Profiler"),
            ("Record Window End", end + _LEAD_NS, "", ""),
        ):
            yield (
                f'  {{\n    "name": "{name}", "ph": "i", "s": "g",\n'
                f'    "pid": "{pid}", "tid": "{tid}", "ts": {self.ts(mark)}\n  }}'
            )
