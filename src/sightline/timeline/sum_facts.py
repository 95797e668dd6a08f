"""What the sums of one run say together: GPU work by kind, calls of the API, and what came once.

Times are in ns and sizes in bytes. Nothing here is a share of elapsed time, which no sum tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.timeline.sums import select_sums

SETS_UP, WAITS, COPIES, LAUNCHES, OTHER = "set-up", "wait", "copy", "launch", "other"
# As nsys and nvprof name calls: the suffixes of a default stream per thread, and of versions.
_SUFFIX = r"(?:_ptsz|_ptds)?(?:_v\d+)?$"
_GROUPS = (
    (WAITS, r"Synchronize$|^cl(?:Finish|WaitForEvents)$"),
    (COPIES, r"^(?:cuda|cu|hip)Mem(?:cpy|set|Prefetch)|^zeCommandListAppendMemory(?:Copy|Fill)"
     r"|^clEnqueue(?:Read|Write|Copy|Fill)(?:Buffer|Image)"),
    (LAUNCHES, r"^(?:cuda|cu|hip)(?:\w*Launch|Launch)|^ze\w*(?:Launch|Execute)|^clEnqueueNDRange"),
    # CUDA Runtime and Driver API, "Memory Management", "Context Management", "Module Management".
    (SETS_UP, r"Malloc|Free|Alloc|HostRegister|HostUnregister|Create|Destroy|Ctx|Init|Module"
     r"|Library|SetDevice|DeviceReset|GetDevice|MemGetInfo|DeviceSet|FuncGet|FuncSet|SetLimit"),
)  # fmt: skip
_WORK = ("kernel", "memcpy", "memset", "page faults")
_ALLOCATES = r"Malloc|Free|MemAlloc|MemHostAlloc|HostAlloc"
_PINS = r"MallocHost|HostAlloc|HostRegister"
# Ours: a call that took so long, and so many times the mean of the others of its name, did what is
# done once, such as creating the context (tenths of a second) or loading code.
_LONG_NS, _TIMES = 5_000_000, 20
_LOADING_NS = 100_000  # a launch: twenty times what one takes without a wait (ours)
# Calls of a name that sets up: so few are no loop's, nor are some that take that long each.
_FEW, _SOME = 10, 100
_SYNCHRONOUS = r"Async|Prefetch|Peer"
_WAYS = (
    # unitrace and iprof: M is memory of the system, H and D are USM's on the host and the device.
    ("HtoD", r"HtoD|Host-to-Device|Host To Device|HOST_TO_DEVICE|HostToDevice|\([MH]2D\)"
     r"|^clEnqueueWrite"),
    ("DtoH", r"DtoH|Device-to-Host|Device To Host|DEVICE_TO_HOST|DeviceToHost|\(D2[MH]\)"
     r"|^clEnqueueRead"),
    ("PtoP", r"PtoP|Peer-to-Peer"),
    ("DtoD", r"DtoD|Device-to-Device|Device To Device|DEVICE_TO_DEVICE|DeviceToDevice|\(D2D\)"),
)  # fmt: skip
# What USM allocates on the host is pinned (Level Zero, zeMemAllocHost); what malloc gives is not.
_PINNED_COPY, _PAGEABLE_COPY = r"\(H2D\)|\(D2H\)", r"\(M2D\)|\(D2M\)"


@dataclass(frozen=True)
class SumFacts:
    """Sums of one run.

    kernels: name, calls, ns, longest_ns, the longest together first, and where known: of a thread
    its registers and bytes that are in memory instead, and whether it was built while the program
    ran; copies: way (HtoD …), unified, calls, ns, bytes (null: not in the tables); calls: name,
    group, allocates, calls, ns, once_ns and once_calls (what of it came once). `pinned`: whether
    the host's memory is, as calls or the copies' names say; None where neither is in the tables.
    `operator_ns` is what a framework's operators took on the host, without those calls;
    `unnamed_ns` is kernels that a table's total holds and its rows do not.
    """

    kernels: pl.DataFrame
    copies: pl.DataFrame
    calls: pl.DataFrame
    pinned: bool | None
    operator_ns: int
    unnamed_ns: int
    fill_ns: int
    fill_calls: int
    fill_bytes: int
    fault_ns: int
    faults: int

    @property
    def kernel_ns(self) -> int:
        """All kernels together."""
        return sum_column(self.kernels, "ns") + self.unnamed_ns

    @property
    def copy_ns(self) -> int:
        """All copies that the program asked for together; without migrations."""
        return sum_column(self.copies.filter(~pl.col("unified")), "ns")

    @property
    def gpu_ns(self) -> int:
        """All the GPU's work together."""
        return self.kernel_ns + sum_column(self.copies, "ns") + self.fill_ns

    @property
    def once_ns(self) -> int:
        """What calls took that came once."""
        return sum_column(self.calls, "once_ns")

    @property
    def repeated_ns(self) -> int:
        """The longer of the GPU's work and of the host's without what came once: the whole.

        Who does one after the other, as most programs do, takes at least that.
        """
        return max(self.gpu_ns, sum_column(self.calls, "ns") - self.once_ns + self.operator_ns)

    def sum_calls(self, group: str) -> tuple[int, int]:
        """How many calls of a group there are, and their time, without what came once."""
        some = self.calls.filter(group=group)
        count = sum_column(some, "calls") - sum_column(some, "once_calls")
        return count, sum_column(some, "ns") - sum_column(some, "once_ns")


def read_sums(run: Run) -> SumFacts | None:
    """The sums of the run that is judged; None where a timeline says more, or no GPU is in them."""
    return run.once(_read)


def measure_sums(run: Run) -> int:
    """What findings about sums are shares of, ns; 0 where there are none."""
    facts = read_sums(run)
    return 0 if facts is None else facts.repeated_ns


def _read(run: Run) -> SumFacts | None:
    if not run.rows("call_sums") or run.rows("device_ops"):
        return None
    sums = select_sums(run).with_columns(
        pl.col("kind", "layer", "category", "name").cast(pl.String)
    )
    work = sums.filter(pl.col("category").is_in(_WORK) & (pl.col("kind") != "host"))
    # What a table left out has no name, and counts in its total alone.
    unnamed = (pl.col("kind") == "device") & pl.col("calls").is_null()
    device = work.filter(~unnamed)
    fills = device.filter(category="memset")
    faults = device.filter(category="page faults", kind="device")
    calls = _read_calls(sums, sum_column(work, "duration_ns"))
    if device.is_empty() and calls.is_empty():
        return None
    return SumFacts(
        kernels=_add_up(device.filter(category="kernel"), "name").sort(
            "ns", "name", descending=[True, False]
        ),
        copies=_read_copies(device.filter(category="memcpy")),
        calls=calls,
        pinned=_find_pinned(calls, device),
        operator_ns=sum_column(sums.filter(kind="host", layer="op"), "duration_ns"),
        unnamed_ns=sum_column(work.filter(unnamed), "duration_ns"),
        fill_ns=sum_column(fills, "duration_ns"),
        fill_calls=sum_column(fills, "calls"),
        fill_bytes=sum_column(fills, "bytes"),
        fault_ns=sum_column(faults, "duration_ns"),
        faults=sum_column(
            device.filter(pl.col("name").str.contains(r"(?i)gpu page"), category="page faults"),
            "calls",
        ),
    )


def _add_up(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """All processes' rows together."""
    return rows.group_by(*by, maintain_order=True).agg(
        pl.col("calls").sum(),
        ns=pl.col("duration_ns").sum(),
        longest_ns=pl.col("longest_duration_ns").max(),
        bytes=pl.when(pl.col("bytes").is_not_null().any()).then(pl.col("bytes").sum()),
        spilled_bytes=pl.col("spilled_bytes_per_thread").max(),
        private_bytes=pl.col("private_bytes_per_thread").max(),
        registers=pl.col("registers_per_thread").max(),
        built=pl.col("built").cast(pl.String).max(),
    )


def _read_copies(rows: pl.DataFrame) -> pl.DataFrame:
    way = pl.lit(None, pl.String)
    for name, pattern in reversed(_WAYS):
        way = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(name)).otherwise(way)
    unified = pl.col("name").str.contains("Unified")
    known = rows.with_columns(way=way, unified=unified)
    return _add_up(known, "way", "unified").sort("ns", "way", descending=[True, False])


def _read_calls(sums: pl.DataFrame, gpu_ns: int) -> pl.DataFrame:
    rows = sums.filter(kind="host").filter(pl.col("layer").is_in(["runtime", "driver"]))
    if (rows.get_column("category") == "hip").any():
        # HIP's calls are made of HSA's: theirs is the time of these once more.
        rows = rows.filter(pl.col("category").ne_missing("hsa"))
    named = rows.with_columns(pl.col("name").str.replace(_SUFFIX, ""))
    calls = _add_up(named, "name").filter(pl.col("ns").is_not_null())
    group = pl.lit(OTHER)
    for name, pattern in reversed(_GROUPS):
        group = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(name)).otherwise(group)
    calls = calls.with_columns(group=group, allocates=pl.col("name").str.contains(_ALLOCATES))
    rest = (pl.col("ns") - pl.col("longest_ns")) / (pl.col("calls") - 1).clip(lower_bound=1)
    is_first = (pl.col("longest_ns") >= _LONG_NS) & (
        (pl.col("calls") == 1) | (pl.col("longest_ns") >= _TIMES * rest)
    )
    is_long = (pl.col("calls") <= _SOME) & (pl.col("ns") >= _LONG_NS * pl.col("calls"))
    is_few = (pl.col("group") == SETS_UP) & ((pl.col("calls") <= _FEW) | is_long)
    # A launch takes microseconds, unless it waits for the GPU or loads its code.
    is_loading = pl.col("ns") >= _LOADING_NS * pl.col("calls")
    is_few |= (pl.col("group") == LAUNCHES) & is_loading & (pl.col("ns") > 2 * gpu_ns)
    # No call waits for the GPU for longer than all that it did; copies may not be in the tables.
    may_be_first = pl.col("group").is_in([SETS_UP, LAUNCHES, OTHER]) | (
        (pl.col("longest_ns") > 2 * gpu_ns) & (gpu_ns > 0)
    )
    once = (
        pl.when(is_few)
        .then("ns")
        .when(may_be_first & is_first)
        .then("longest_ns")
        .otherwise(0)
        .fill_null(0)
    )
    return calls.with_columns(
        once_ns=once,
        once_calls=pl.when(is_few).then("calls").otherwise((once > 0).cast(pl.Int64)),
    )


def _find_pinned(calls: pl.DataFrame, device: pl.DataFrame) -> bool | None:
    """Whether the program asked for pinned memory; None where that cannot be told."""
    if calls.get_column("name").str.contains(_PINS).any():
        return True
    copies = device.get_column("name").str
    some, others = (copies.contains(way).any() for way in (_PINNED_COPY, _PAGEABLE_COPY))
    if some:
        return None if others else True
    return False if others or calls.height else None


def is_serial(facts: SumFacts) -> bool:
    """Whether copies follow the kernels, by what the host waits for.

    Synchronous copies do: most copies are such calls, or the host waits as long as all work takes.
    """
    copying = facts.calls.filter(group=COPIES).filter(
        ~pl.col("name").str.contains(_SYNCHRONOUS) & pl.col("name").str.contains("Memcpy")
    )
    asked = sum_column(facts.copies.filter(~pl.col("unified")), "calls")
    waited = facts.sum_calls(WAITS)[1] + sum_column(copying, "ns")
    return 2 * sum_column(copying, "calls") >= asked > 0 or 10 * waited >= 9 * facts.gpu_ns
