"""Small exports of Nsight Systems, opened."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from synth_nsys import Export, gpid, gtid

MS = 1_000_000
# The export's numbers of directions and kinds of memory.
HTOD, DTOH, DTOD = 1, 2, 8
PAGEABLE, PINNED, ON_DEVICE = 0, 1, 2


def opened(folder: Path, export: Export) -> Run:
    """The run that the tool makes of an export."""
    folder.mkdir(parents=True, exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))


def one_copy(name: str, kind: int, size: int, src: int, dst: int) -> Export:
    """A kernel [0, 900), and a copy [1000, 1100), called by that name at 950 (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api(name, 950, 990, 2)
    export.copy(kind, 1_000, 1_100, 2, size, src, dst)
    return export


def one_fill(name: str, memory: int) -> Export:
    """A kernel [0, 900), and a fill [1000, 1100), called by that name at 950 (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api(name, 950, 990, 2)
    export.fill(1_000, 1_100, 2, 64, memory)
    return export


def one_wait(name: str) -> Export:
    """Two kernels in [0, 1100), and a call of that name in [1100, 1140) (ns)."""
    export = Export()
    export.api("cudaLaunchKernel", 0, 0, 1)
    export.kernel("k", 0, 900, 1)
    export.api("cudaLaunchKernel", 10, 10, 2)
    export.kernel("k", 900, 1_100, 2)
    export.api(name, 1_100, 1_140, 3)
    return export


def two_kernels(first: tuple[int, int], second: tuple[int, int]) -> Export:
    """Two kernels, [start, end) in ms."""
    export = Export()
    for number, (start, end) in enumerate((first, second), start=1):
        export.api("cudaLaunchKernel", start * MS, start * MS + 10, number)
        export.kernel("k", start * MS + 20, end * MS + 20, number)
    return export


def nested(folder: Path) -> Run:
    """A step that holds two phases, each of which launches; another thread launches beside it."""
    e = Export()
    e.add("NVTX_EVENTS", start=0, eventType=75, text="app", globalTid=gtid(7, 7), domainId=2)
    e.range("step", 0, 1_000, domainId=2)
    e.range("load", 100, 300)
    e.range("compute", 400, 900)
    e.range("elsewhere", 50, 950, tid=8)
    e.range("whole", 90, 950, kind=60, rangeId=1, endGlobalTid=gtid(7, 7))
    e.range("across", 90, 950, kind=60, rangeId=2, endGlobalTid=gtid(7, 8))
    e.api("cudaMemcpyAsync_v3020", 150, 200, 1)
    e.copy(1, 1_000, 1_400, 1, 4_194_304, 1, 2)
    e.api("cudaLaunchKernel_v7000", 450, 500, 2)
    e.kernel("gemm(int)", 1_400, 2_400, 2)
    e.api("cudaLaunchKernel_v7000", 600, 650, 3)
    e.kernel("gemm(int)", 620, 720, 3, stream=8)
    e.api("cudaLaunchKernel_v7000", 600, 650, 4, tid=8)
    e.kernel("relu(int)", 3_000, 3_100, 4)
    return opened(folder, e)


def slow(folder: Path) -> Run:
    """Pageable and blocking copies, waits, a long gap, and a profiler that takes its time."""
    e = Export()
    calls = (
        ("cudaMemcpyAsync_v3020", 1, 1 << 20, 0, 2),  # asynchronous from pageable memory
        ("cudaMemcpy_v3020", 1, 64_000, 0, 2),  # small enough to return at once
        ("cudaMemcpy_v3020", 1, 64_001, 0, 2),
        ("cudaMemcpy_v3020", 2, 8, 2, 0),
        ("cudaMemcpy_v3020", 8, 1 << 20, 2, 2),  # within the device
        ("cuMemcpyDtoHAsync_v2", 2, 8, 2, 1),  # asynchronous to pinned memory
    )
    for i, (name, kind, size, src, dst) in enumerate(calls):
        e.api(name, i * MS, i * MS + 10, i)
        e.copy(kind, i * MS + 20, i * MS + 100 + i, i, size, src, dst)
    for i, (name, kind) in enumerate(
        (("cudaMemset_v3020", 1), ("cudaMemset_v3020", 2), ("cudaMemsetAsync_v3020", 1)), start=10
    ):
        e.api(name, i * MS, i * MS + 10, i)
        e.fill(i * MS + 20, i * MS + 100, i, 64, kind)
    e.api("cudaDeviceSynchronize_v3020", 20 * MS, 21 * MS, 20)
    e.api("cudaStreamSynchronize_v3020", 22 * MS, 24 * MS, 21)
    e.api("cudaEventSynchronize_v3020", 25 * MS, 26 * MS, 22)
    e.api("cudaLaunchKernel_v7000", 1_000 * MS, 1_000 * MS + 10, 30)
    e.kernel("late(int)", 1_100 * MS, 1_200 * MS, 30)
    e.add("PROFILER_OVERHEAD", start=100 * MS, end=400 * MS, globalTid=gtid(7, 9))
    return opened(folder, e)


def with_mpi(folder: Path) -> Run:
    """Rank 2 sends 800 bytes to rank 3, and takes part in a broadcast of 64 bytes from rank 0."""
    e = Export()
    e.add("MPI_RANKS", globalTid=gtid(7, 7), rank=2)
    own = {"globalTid": gtid(7, 7), "commHandle": 1}
    sent = {"textId": e.text("MPI_Send"), "tag": 5, "remoteRank": 3, "size": 800}
    e.add("MPI_P2P_EVENTS", start=10, end=30, **own, **sent)
    cast = {"textId": e.text("MPI_Bcast"), "rootRank": 0, "size": 64, "recvSize": 0}
    e.add("MPI_COLLECTIVES_EVENTS", start=40, end=90, **own, **cast)
    return opened(folder, e)


def with_unified_memory(folder: Path) -> Run:
    """A page of 64 KiB moves both ways, one of 4 KiB to the device; faults are of the first."""
    e, page = Export(), 0x7F9C80000000
    e.api("cudaLaunchKernel", 0, 10, 1)
    e.kernel("k", 20, 30, 1)
    for kind, start, size, length, address in (
        (11, 12_000, 65_536, 500, page),
        (12, 13_000, 65_536, 500, page),
        (11, 14_000, 4_096, 100, 0x1000),
    ):
        e.copy(kind, start, start + length, 8, size, 4, 2, virtualAddress=address)
    own = {"globalPid": gpid(7), "address": page}
    gpu = {"deviceId": 0, "numberOfPageFaults": 3, "faultAccessType": 2}
    e.add("CUDA_UM_GPU_PAGE_FAULT_EVENTS", start=5, end=6, **own, **gpu)
    code = {"CpuInstruction": e.text("fill"), "module": e.text("app")}
    e.add("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=7, **own, **code)
    return opened(folder, e)
