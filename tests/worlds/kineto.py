"""Write what happened as PyTorch's profiler does, in the dialects of several versions.

`old`: whole microseconds, "Kernel" and "Runtime", launches tied by "async" flows (PyTorch 1.9).
`mid`: whole microseconds, today's categories, without collectives' metadata (PyTorch 2.0).
`new`: fractions, a base time, metadata of collectives, waits as `cuda_sync` (PyTorch 2.4 on).
`amd`: as `new`, on an AMD device, its calls named hip..., without contexts and registers.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from worlds.recorded import DeviceRange, HostRange, RankRecord, RunRecord, Waited

DIALECTS = ("old", "mid", "new", "amd")
BASE_NS = 1_711_964_646_000_000_000
CATEGORIES = {
    "op": ("Operator", "cpu_op"),
    "annotation": ("Operator", "user_annotation"),
    "step": ("Operator", "user_annotation"),
    "python": ("", "python_function"),
    "api": ("Runtime", "cuda_runtime"),
    "kernel": ("Kernel", "kernel"),
    "memcpy": ("Memcpy", "gpu_memcpy"),
    "memset": ("Memset", "gpu_memset"),
}
HIP = {
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaLaunchKernelExC": "hipExtLaunchKernel",
    "cudaMemcpyAsync": "hipMemcpyWithStream",
    "cuModuleLoadDataEx": "hipModuleLoadData",
}
CBIDS = {"cudaLaunchKernel": 211, "cudaMemcpyAsync": 41, "cudaDeviceSynchronize": 165}
SYNCS = {
    "event": "Event Sync",
    "wait": "Stream Wait Event",
    "stream": "Stream Sync",
    "device": "Context Sync",
}
OLD = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_"
LOST_SHARE = 0.001  # of launches whose call or flow is missing, as at the edges of recordings
DEVICES = {
    "old": ("NVIDIA A100-SXM4-40GB", 8, 0, 108, 42_297_524_224),
    "mid": ("NVIDIA A100-SXM4-80GB", 8, 0, 108, 85_174_583_296),
    "new": ("NVIDIA H100 80GB HBM3", 9, 0, 132, 85_018_279_936),
    "amd": ("AMD Instinct MI300X", 9, 4, 304, 206_141_652_992),
}


def write_run(
    run: RunRecord,
    folder: Path,
    dialect: str,
    seed: int,
    *,
    python: bool = False,
    bare: bool = False,
) -> list[Path]:
    """One file for each rank; gives their paths. A `bare` one has calls, but no operators."""
    paths = []
    for rank in run.ranks:
        trace = make_trace(rank, len(run.ranks), dialect, seed, python=python, bare=bare)
        name = f"rank{rank.rank}.{seed}.pt.trace.json"
        path = folder / (name if seed % 2 else f"{name}.gz")
        text = json.dumps(trace, indent=1 if seed % 3 == 0 else None).encode()
        path.write_bytes(text if seed % 2 else gzip.compress(text, 1))
        paths.append(path)
    return paths


def make_trace(
    rank: RankRecord, ranks: int, dialect: str, seed: int, *, python: bool, bare: bool
) -> dict[str, object]:
    """A rank's trace as a document."""
    writer = Writer(rank, ranks, dialect, seed)
    events = writer.metadata()
    for host in rank.hosts:
        if bare and host.kind != "api":
            continue
        if host.kind != "python" or (python and dialect != "old"):
            events += writer.host(host)
    for device in rank.devices:
        events += writer.device(device)
    if dialect == "new":
        events += [writer.wait(waited) for waited in rank.waits]
    events += writer.spans()
    # Real files come thread by thread, callbacks and activities apart: never by time.
    random.Random(seed).shuffle(events)
    name, major, minor, multiprocessors, memory = DEVICES[dialect]
    trace: dict[str, object] = {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": rank.rank,
                "name": name,
                "totalGlobalMem": memory,
                "computeMajor": major,
                "computeMinor": minor,
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048,
                "regsPerBlock": 65536,
                "warpSize": 64 if dialect == "amd" else 32,
                "sharedMemPerBlock": 49152,
                "numSms": multiprocessors,
            }
        ],
        "traceEvents": events,
        "traceName": "trace.json",
    }
    if ranks > 1:
        info: dict[str, object] = {"backend": "nccl", "rank": rank.rank, "world_size": ranks}
        if dialect in ("new", "amd"):
            group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl"}
            group |= {"pg_size": ranks, "ranks": list(range(ranks))}  # type: ignore[dict-item]
            info |= {"pg_count": 1, "pg_config": [group], "nccl_version": "2.21.5"}
        trace["distributedInfo"] = info
    if dialect in ("new", "amd"):
        trace |= {"baseTimeNanoseconds": BASE_NS, "displayTimeUnit": "ms", "record_shapes": 1}
        trace["trace_id"] = f"{seed:032X}"
    if dialect == "new":
        trace |= {"cuda_runtime_version": 12040, "cuda_driver_version": 12090}
    return trace


class Writer:
    """What one rank's events have in common."""

    def __init__(self, rank: RankRecord, ranks: int, dialect: str, seed: int):
        self.rank = rank
        self.ranks = ranks
        self.dialect = dialect
        self.dice = random.Random(seed * 31 + rank.rank)
        self.lost = {
            d.correlation for d in rank.devices if self.dice.random() < LOST_SHARE and not d.graph
        }
        self.whole = dialect in ("old", "mid")
        self.shift = 1_428_625_731_456_000 if not self.whole else BASE_NS + 10**15
        self.by_op: dict[int, HostRange] = {}

    def time(self, ns: int) -> int | float:
        """A time or a length, in microseconds as this dialect writes them."""
        if self.whole:
            return ns // 1000
        return ns / 1000  # exact to the nanosecond, as the times are since a base

    def range(self, category: str, name: str, start: int, end: int) -> dict[str, object]:
        """The part that all ranges share."""
        first = self.time(self.shift + start)
        if self.whole:
            length: int | float = (self.shift + end) // 1000 - (self.shift + start) // 1000
        else:
            length = self.time(end - start)
        return {"ph": "X", "cat": category, "name": name, "ts": first, "dur": length}

    def category(self, kind: str) -> str:
        """A kind's category."""
        return CATEGORIES[kind][0 if self.dialect == "old" else 1]

    def thread(self, tid: int) -> dict[str, object]:
        """A host thread's process and number."""
        number = self.rank.pid + tid - 100 - self.rank.rank
        return {"pid": self.rank.pid, "tid": str(number) if self.dialect == "old" else number}

    def stream(self, number: int) -> dict[str, object]:
        """A stream's process (the device) and number."""
        if self.dialect == "amd":
            return {"pid": self.rank.rank + 2, "tid": {7: 0, 20: 3}.get(number, number)}
        tid = f"stream {number}" if self.dialect == "old" else number
        return {"pid": self.rank.rank, "tid": tid}

    def external(self) -> str:
        """How the operator's number is called."""
        return "external id" if self.dialect == "old" else "External id"

    def flow(self, ph: str, number: int, where: dict[str, object], start: int) -> dict[str, object]:
        """One end of an arrow from a call to what it launched."""
        old = self.dialect == "old"
        made: dict[str, object] = {"ph": ph, "id": number, **where}
        made |= {"ts": self.time(self.shift + start), "cat": "async" if old else "ac2g"}
        made["name"] = "launch" if old else "ac2g"
        if ph == "f":
            made["bp"] = "e"
        return made

    def host(self, host: HostRange) -> list[dict[str, object]]:
        """A range of a host thread, with the start of its arrow."""
        if host.kind in ("os", "mpi"):
            return []  # this profiler does not see them
        event = self.range(self.category(host.kind), host.name, host.start, host.end)
        event |= self.thread(host.tid)
        if host.kind == "api":
            if host.correlation in self.lost:
                return []
            event["name"] = self.api(host.name)
            external = host.args.get("external", 0)
            args: dict[str, object] = {"correlation": host.correlation}
            if external:
                args[self.external()] = external
            if self.dialect == "amd":
                args["cid"] = 117
            else:
                args["cbid"] = CBIDS.get(host.name, 13)
            if str(event["name"]).startswith("cuModule"):
                event["cat"] = "cuda_driver" if self.dialect != "old" else "Runtime"
            event["args"] = args
            where = self.thread(host.tid)
            events = [event]
            if "Launch" in host.name or "Memcpy" in host.name or "Memset" in host.name:
                events.append(self.flow("s", host.correlation, where, host.start))
            return events
        args = {}
        if host.kind == "op":
            args["External id"] = host.args["external"]
            if number := host.args.get("sequence"):
                args["Sequence number"] = number
                args["Fwd thread id"] = 0 if "evaluate" not in host.name else 1
            if collective := host.args.get("collective"):
                args |= self.collective(collective)
        if self.dialect in ("new", "amd"):
            args["Ev Idx"] = self.dice.randrange(100_000)
        event["args"] = args
        if self.dialect == "old" and host.kind == "python":
            return []
        return [event]

    def collective(self, collective: object) -> dict[str, object]:
        """What PyTorch says of a collective, where it does."""
        if self.dialect not in ("new", "amd"):
            return {}
        elements = collective.bytes // 2  # type: ignore[attr-defined]
        names = {"AllReduce": "allreduce", "AllGather": "_allgather_base"}
        names |= {"ReduceScatter": "_reduce_scatter_base"}
        op, source = collective.op, collective.source  # type: ignore[attr-defined]
        ranks = list(collective.ranks)  # type: ignore[attr-defined]
        peer: dict[str, object] = {}
        if source is not None:
            sends = self.rank.rank == source
            names["SendRecv"] = "send" if sends else "recv"
            other = next(rank for rank in ranks if (rank == source) != sends)
            peer["Dst Rank" if sends else "Src Rank"] = other
        return peer | {
            "Collective name": names.get(op, op.lower()),
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": len(ranks),
            "dtype": "BFloat16",
            "Process Group Name": "0" if len(ranks) == self.ranks else "_".join(map(str, ranks)),
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(ranks),
        }

    def api(self, name: str) -> str:
        """A call's name on this vendor's runtime."""
        name = name.split("_v")[0]
        if self.dialect != "amd":
            return name
        return HIP.get(name, name.replace("cuda", "hip", 1))

    def device(self, device: DeviceRange) -> list[dict[str, object]]:
        """A range of a stream, with the end of its arrow."""
        work = device.work
        name = self.copy_name(work.copy, work.pageable) if work.kind == "memcpy" else work.name
        if self.dialect in ("old", "mid"):  # recorded on a device of the generation before
            name = name.replace("sm90_", "sm80_").replace("nvjet_tst_192x192_64x4_2x1_v_bz_", OLD)
        event = self.range(self.category(work.kind), name, device.start, device.end)
        event |= self.stream(device.stream)
        where = self.rank.rank + (2 if self.dialect == "amd" else 0)
        args: dict[str, object] = {
            "device": where,
            "stream": event["tid"] if self.dialect == "amd" else device.stream,
            "correlation": device.correlation,
        }
        if device.external:
            args[self.external()] = device.external
        if self.dialect != "amd":
            args["context"] = 1
        if work.kind == "kernel":
            args |= {"grid": list(work.grid), "block": list(work.block)}
            if self.dialect == "amd":
                args["kind"] = "Dispatch Kernel"
            else:
                warps = work.grid[0] * work.block[0] / 32 / DEVICES[self.dialect][3]
                args |= {
                    "queued": 0,
                    "registers per thread": work.registers,
                    "shared memory": work.shared_bytes,
                    "blocks per SM": round(work.grid[0] / DEVICES[self.dialect][3], 6),
                    "warps per SM": round(warps, 6),
                    "est. achieved occupancy %": min(100, round(warps / 64 * 100)),
                }
            if device.graph and self.dialect == "new":
                args |= {"graph id": device.graph, "graph node id": 7_000 + device.start % 999}
            if work.collective and self.dialect == "new":
                args |= self.collective(work.collective)
        else:
            args["bytes"] = work.bytes
            args["memory bandwidth (GB/s)"] = work.bytes / max(1, device.end - device.start)
        event["args"] = args
        if device.correlation in self.lost:
            return [event]
        flow = self.flow("f", device.correlation, self.stream(device.stream), device.start)
        return [event, flow]

    def copy_name(self, direction: str, pageable: bool) -> str:
        """A copy's name; AMD's does not say what memory the host's side is."""
        host = "Host" if self.dialect == "amd" else "Pageable" if pageable else "Pinned"
        ends = {"H2D": f"HtoD ({host} -> Device)", "D2H": f"DtoH (Device -> {host})"}
        return f"Memcpy {ends.get(direction, 'DtoD (Device -> Device)')}"

    def wait(self, waited: Waited) -> dict[str, object]:
        """A wait as `cuda_sync`, which lies with the device."""
        event = self.range("cuda_sync", SYNCS[waited.kind], waited.start, waited.end)
        stream = -1 if waited.stream is None else waited.stream
        event |= {"pid": self.rank.rank, "tid": stream}
        args: dict[str, object] = {
            "cuda_sync_kind": SYNCS[waited.kind],
            "stream": stream,
            "correlation": waited.correlation,
            "device": self.rank.rank,
            "context": 1,
        }
        if waited.kind in ("event", "wait"):
            args["wait_on_stream"] = waited.recorded_on
            args["wait_on_cuda_event_record_corr_id"] = waited.recorded_by or -1
            args["wait_on_cuda_event_id"] = sum(str(waited.event).encode()) % 900
        event["args"] = args
        return event

    def metadata(self) -> list[dict[str, object]]:
        """Names and order of processes and threads, of more devices than were used."""
        start = self.time(self.shift)
        base: dict[str, object] = {"ph": "M", "ts": start}
        pid = self.rank.pid
        events: list[dict[str, object]] = [
            base | {"name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python3"}},
            base | {"name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "CPU"}},
        ]
        for gpu in range(8):
            at = {"pid": gpu, "tid": 0}
            events += [
                base | {"name": "process_name", "args": {"name": "python3"}} | at,
                base | {"name": "process_labels", "args": {"labels": f"GPU {gpu}"}} | at,
                base | {"name": "process_sort_index", "args": {"sort_index": 5_000_000}} | at,
            ]
        for tid, name in self.rank.threads.items():
            at = self.thread(tid)
            text = f"thread {at['tid']} ({name})"
            events.append(base | {"name": "thread_name", "args": {"name": text}} | at)
        return events

    def spans(self) -> list[dict[str, object]]:
        """What the profiler says of itself, and a thread that is busy elsewhere."""
        hosts = self.rank.hosts
        first, last = min(h.start for h in hosts), max(h.end for h in hosts)
        span = self.range("Trace", "PyTorch Profiler (0)", first - 200_000, last + 300_000)
        span |= {"pid": "Spans", "tid": "PyTorch Profiler", "args": {"Op count": 0}}
        mark: dict[str, object] = {"name": "Record Window End", "ph": "i", "s": "g", "pid": ""}
        mark |= {"tid": "", "ts": self.time(self.shift + last + 300_000)}
        events = [span, mark]
        for number in range(first, last, 9_000_000):
            busy = self.range(self.category("op"), "aten::empty", number, number + 4_000_000)
            busy |= self.thread(160)
            busy["args"] = {"External id": 900_000 + number // 9_000_000}
            events.append(busy)
            memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": self.rank.pid, "tid": 1}
            memory |= {"ts": self.time(self.shift + number)}
            memory["args"] = {"Device Type": 1, "Device Id": 0, "Bytes": 4096}  # type: ignore[assignment]
            if self.dialect != "old":
                memory["cat"] = "cpu_instant_event"
            events.append(memory)
        return events
