"""Write what happened as an SQLite export of Nsight Systems, with the schema of real exports."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from worlds.nsight_schema import ENUMS, TABLES
from worlds.recorded import DeviceRange, HostRange, RankRecord, RunRecord, Waited

VM = 1 << 48  # the part of a global id that names the machine
NOWHERE = 4_294_967_295  # the stream of a wait that is for none, as in real exports
SHIFT_NS = 1_200_000_000  # the program begins some time after the session
VERSIONS = {"nvtx": "2025.1.1.110", "osrt": "2024.6.2.225"}
SUFFIXES = {
    "cudaLaunchKernel": "_v7000",
    "cudaLaunchKernelExC": "_v11060",
    "cudaMemcpyAsync": "_v3020",
    "cudaStreamSynchronize": "_v3020",
    "cudaDeviceSynchronize": "_v3020",
    "cudaEventSynchronize": "_v3020",
    "cudaEventRecord": "_v3020",
    "cudaStreamWaitEvent": "_v3020",
    "cudaMemsetAsync": "_v3020",
    "cudaMalloc": "_v3020",
    "cudaFree": "_v3020",
    "cudaGraphLaunch": "_v10000",
}
KINDS = {"H2D": (1, 1, 2), "D2H": (2, 2, 1), "D2D": (8, 2, 2)}
SYNCS = {"event": 1, "wait": 2, "stream": 3, "device": 4}


def write_run(
    run: RunRecord, folder: Path, seed: int, *, annotated: bool = True, together: bool = False
) -> list[Path]:
    """One file for each rank, or one for all; gives their paths.

    `annotated`: framework operators and ranges are there as NVTX, as with --pytorch=autograd-nvtx.
    """
    if together:
        path = folder / "report.sqlite"
        Writer(path, seed, annotated=annotated).write(run.ranks)
        return [path]
    paths = []
    for rank in run.ranks:
        path = folder / f"report_rank{rank.rank}.sqlite"
        Writer(path, seed, annotated=annotated).write([rank])
        paths.append(path)
    return paths


def event_id(event: object) -> int:
    """An event's number: they are used again and again, as real programs do."""
    return sum(str(event).encode()) % 900


class Writer:
    """One file."""

    def __init__(self, path: Path, seed: int, *, annotated: bool):
        self.path = path
        self.dice = random.Random(seed)
        self.annotated = annotated
        self.strings: dict[str, int] = {}
        self.rows: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES}

    def write(self, ranks: list[RankRecord]) -> None:
        """All ranks' rows, and what the file says of the machine."""
        for rank in ranks:
            self.add_rank(rank)
        self.add_machine(ranks)
        # The real tables are by thread and buffer, not by time.
        for name in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"):
            self.dice.shuffle(self.rows[name])
        self.rows["StringIds"] = [{"id": i, "value": v} for v, i in self.strings.items()]
        database = sqlite3.connect(self.path)
        for name, columns in TABLES.items():
            if not self.rows[name]:
                continue  # an export has no table of what was not recorded
            database.execute(f"CREATE TABLE {name} ({columns})")
            keys = list(self.rows[name][0])
            marks = ", ".join("?" * len(keys))
            database.executemany(
                f"INSERT INTO {name} ({', '.join(keys)}) VALUES ({marks})",
                [tuple(row[key] for key in keys) for row in self.rows[name]],
            )
        for name, rows in ENUMS.items():
            database.execute(
                f"CREATE TABLE {name} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)"
            )
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        database.commit()
        database.close()

    def text(self, value: str) -> int:
        """A string's number."""
        return self.strings.setdefault(value, len(self.strings) + 40)

    def add(self, table: str, **row: object) -> None:
        """One more row."""
        self.rows[table].append(row)

    def add_rank(self, rank: RankRecord) -> None:
        """A rank is a process."""
        for tid, name in rank.threads.items():
            self.add(
                "ThreadNames", nameId=self.text(name), priority=20, globalTid=self.tid(rank, tid)
            )
        for host in rank.hosts:
            self.add_host(rank, host)
        for number, device in enumerate(rank.devices):
            self.add_device(rank, device, number)
        for waited in rank.waits:
            self.add_wait(rank, waited)
        if not self.annotated:
            return  # without --cuda-event-trace=true
        for event in rank.events:
            self.add(
                "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                timestamp=event.time + SHIFT_NS,
                deviceId=rank.device,
                contextId=1,
                streamId=event.stream,
                correlationId=event.correlation,
                globalPid=self.pid(rank),
                eventId=event_id(event.event),
                eventSyncId=event.correlation,
            )

    def pid(self, rank: RankRecord) -> int:
        """A process's global id."""
        return VM + (rank.pid << 24)

    def tid(self, rank: RankRecord, tid: int) -> int:
        """A thread's global id; the main thread has its process's number."""
        return self.pid(rank) + rank.pid + tid - 100 - rank.rank

    def add_host(self, rank: RankRecord, host: HostRange) -> None:
        """A range of a host thread."""
        start, end = host.start + SHIFT_NS, host.end + SHIFT_NS
        tid = self.tid(rank, host.tid)
        if host.kind == "api":
            name = host.name + SUFFIXES.get(host.name, "")
            self.add(
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                start=start,
                end=end,
                eventClass=1 if host.name.startswith("cuM") else 0,
                globalTid=tid,
                correlationId=host.correlation,
                nameId=self.text(name),
                returnValue=0,
                callchainId=None,
            )
        elif host.kind == "os":
            self.add(
                "OSRT_API",
                start=start,
                end=end,
                eventClass=27,
                globalTid=tid,
                nameId=self.text(host.name),
                returnValue=0,
                nestingLevel=0,
                callchainId=0,
            )
        elif host.kind == "mpi":
            self.add_mpi(rank, host, start, end, tid)
        elif self.annotated and host.kind in ("op", "annotation", "step"):
            text = host.name
            if host.kind == "op":
                text = f"{host.name}, op_id = {host.args['external']}"
            self.add(
                "NVTX_EVENTS",
                start=start,
                end=end,
                eventType=59,
                rangeId=None,
                text=text,
                globalTid=tid,
                endGlobalTid=None,
                textId=None,
                domainId=0,
            )

    def add_mpi(self, rank: RankRecord, host: HostRange, start: int, end: int, tid: int) -> None:
        """A call of MPI, in the table of its kind."""
        text = self.text(host.name)
        base: dict[str, object] = {"start": start, "end": end, "globalTid": tid, "textId": text}
        if "Wait" in host.name:
            self.rows["MPI_START_WAIT_EVENTS"].append(base | {"requestHandle": 93869797419136})
        elif "reduce" in host.name:
            sizes = {"size": 8, "recvSize": 8, "requestHandle": None}
            self.rows["MPI_COLLECTIVES_EVENTS"].append(
                base | {"commHandle": 93868740363424, "rootRank": None} | sizes
            )
        else:
            ends = {"commHandle": 93868740363424, "tag": 0, "remoteRank": (rank.rank + 1) % 4}
            self.rows["MPI_P2P_EVENTS"].append(
                base | ends | {"size": 2_000_000, "requestHandle": 93869797419136}
            )

    def add_device(self, rank: RankRecord, device: DeviceRange, number: int) -> None:
        """A range of a stream."""
        work = device.work
        base: dict[str, object] = {
            "start": device.start + SHIFT_NS,
            "end": device.end + SHIFT_NS,
            "deviceId": rank.device,
            "contextId": 1,
            "streamId": device.stream,
            "correlationId": device.correlation,
            "globalPid": self.pid(rank),
        }
        node = (number + 1) if device.graph else None
        if work.kind == "memcpy":
            kind, source, target = KINDS[work.copy]
            if work.pageable:
                source, target = (0, 2) if work.copy == "H2D" else (2, 0)
            extra = {"bytes": work.bytes, "copyKind": kind, "srcKind": source, "dstKind": target}
            self.rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(
                base | extra | {"graphNodeId": node, "copyCount": 1}
            )
            return
        if work.kind == "memset":
            extra = {"value": 0, "bytes": work.bytes, "memKind": 2}
            self.rows["CUPTI_ACTIVITY_KIND_MEMSET"].append(base | extra | {"graphNodeId": node})
            return
        short = work.name.split("(")[0].split("<")[0].split("::")[-1].removeprefix("void ")
        shape = dict(zip(("gridX", "gridY", "gridZ"), work.grid, strict=True))
        shape |= dict(zip(("blockX", "blockY", "blockZ"), work.block, strict=True))
        self.rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
            base
            | shape
            | {
                "demangledName": self.text(work.name),
                "shortName": self.text(short or work.name),
                "mangledName": self.text(f"_Z{len(short)}{short}"),
                "launchType": 1,
                "cacheConfig": 1,
                "registersPerThread": work.registers,
                "staticSharedMemory": 0,
                "dynamicSharedMemory": work.shared_bytes,
                "localMemoryPerThread": 0,
                "localMemoryTotal": 250871808,
                "gridId": number + 1,
                "sharedMemoryExecuted": 32768,
                "graphNodeId": node,
                "sharedMemoryLimitConfig": 0,
                "graphId": device.graph or None,
            }
        )

    def add_wait(self, rank: RankRecord, waited: Waited) -> None:
        """A wait for the device."""
        named = waited.kind in ("event", "wait")
        self.add(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            start=waited.start + SHIFT_NS,
            end=waited.end + SHIFT_NS,
            deviceId=rank.device,
            contextId=1,
            streamId=NOWHERE if waited.stream is None else waited.stream,
            correlationId=waited.correlation,
            globalPid=self.pid(rank),
            syncType=SYNCS[waited.kind],
            eventId=event_id(waited.event) if named else NOWHERE,
            eventSyncId=waited.recorded_by if named else NOWHERE,
        )

    def add_machine(self, ranks: list[RankRecord]) -> None:
        """The session, the devices, the processes."""
        last = max(h.end for rank in ranks for h in rank.hosts) + SHIFT_NS
        self.add(
            "ANALYSIS_DETAILS",
            globalVid=VM,
            duration=last + 50_000_000,
            startTime=10_000_000,
            stopTime=last + 60_000_000,
        )
        self.add(
            "TARGET_INFO_SESSION_START_TIME",
            utcEpochNs=1_741_793_819_042_497_997,
            utcTime="2025-03-12T15:36:59",
            localTime="2025-03-12T08:36:59",
        )
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_NAME", value="NVIDIA Nsight Systems")
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.1.1.110")
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.25.0")
        for kind in ("NvtxEvents", "Cuda", "OsRuntime"):
            self.add("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value=kind)
        for gpu in range(max(rank.rank for rank in ranks) + 1):
            self.add(
                "TARGET_INFO_GPU",
                vmId=VM,
                id=gpu,
                name="NVIDIA H100 80GB HBM3",
                busLocation=f"0000:{gpu + 0x45:02x}:00.0",
                isDiscrete=1,
                l2CacheSize=52_428_800,
                totalMemory=85_018_279_936,
                memoryBandwidth=3_352_320_000_000,
                clockRate=1_980_000_000,
                smCount=132,
                uuid=f"1825e7cc-6d1b-a3ac-d9bf-66534f9066{gpu:02d}",
                chipName="GH100",
                cuDevice=gpu,
                threadsPerWarp=32,
                maxWarpsPerSm=64,
                maxBlocksPerSm=32,
                computeMajor=9,
                computeMinor=0,
            )
        for rank in ranks:
            self.add("PROCESSES", globalPid=self.pid(rank), pid=rank.pid, name="python3")
            self.add("TARGET_INFO_CUDA_DEVICE", gpuId=rank.device, cudaId=rank.device, pid=rank.pid)
            self.add(
                "TARGET_INFO_CUDA_CONTEXT_INFO",
                nullStreamId=7,
                hwId=rank.device,
                vmId=1,
                processId=rank.pid,
                deviceId=rank.device,
                contextId=1,
                parentContextId=0,
                isGreenContext=0,
            )
            for stream in sorted({d.stream for d in rank.devices}):
                self.add(
                    "TARGET_INFO_CUDA_STREAM",
                    streamId=stream,
                    hwId=rank.device,
                    vmId=1,
                    processId=rank.pid,
                    contextId=1,
                    priority=0,
                    flag=3 if stream == 7 else 2,
                )
            if self.rows["MPI_P2P_EVENTS"]:
                main = min(rank.threads)
                self.add("MPI_RANKS", globalTid=self.tid(rank, main), rank=rank.rank)
