"""What a simulated run is: plain records, all times in integer nanoseconds from the run's start.

The simulator (``program.py``) fills these records, the writers (``kineto.py``) print them, and
the truth (``truth.py``) is read off them. Nothing here computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Activities of a host range that decide why a device was idle.
SYNC = "sync"  # the call returns only after the device, a stream or an event is done
DATALOADER = "dataloader"  # inside the data loader's __next__
ALLOC = "alloc"  # allocating or freeing device memory, loading a module

# Which constraint set the start of a device operation (see ``DeviceOp.binding``).
BOUND_BY_LAUNCH = "launch"
BOUND_BY_STREAM = "stream"
BOUND_BY_EVENT = "event"
BOUND_BY_GRAPH = "graph"


@dataclass(frozen=True)
class Costs:
    """What each host and device step costs, in ns.

    The sizes are plausible for a current server, not measured: the truth never depends on
    them being right, only on them being known.
    """

    op_enter_ns: int = 700
    op_exit_ns: int = 400
    annotation_enter_ns: int = 800
    annotation_exit_ns: int = 300
    python_enter_ns: int = 300
    python_exit_ns: int = 200
    launch_call_ns: int = 4_500  # duration of cudaLaunchKernel
    launch_latency_ns: int = 6_200  # start of the launch call to start of the kernel
    graph_call_ns: int = 9_400  # duration of cudaGraphLaunch
    copy_call_ns: int = 3_900  # duration of cudaMemcpyAsync and cudaMemsetAsync
    copy_latency_ns: int = 7_100  # start of the copy call to start of the copy
    staging_tail_ns: int = 15_300  # a pageable upload's call returns this long before its end
    event_call_ns: int = 800  # duration of cudaEventRecord and cudaStreamWaitEvent
    event_latency_ns: int = 1_600  # end of the awaited work to release of the waiting stream
    op_gap_ns: int = 900  # end of one operation to start of the next one in its stream
    graph_gap_ns: int = 700  # the same between two kernels of one graph
    sync_call_ns: int = 2_100  # duration of a synchronizing call that has nothing to wait for
    sync_return_ns: int = 3_300  # end of the awaited work to the return of the call
    queue_limit: int = 1_024  # operations a stream holds before launch calls block


@dataclass
class HostRange:
    """One range on a host thread: an op, a Python function, an annotation or an API call."""

    range_id: int
    rank: int
    tid: int
    layer: str  # "op", "python", "annotation", "runtime" or "driver"
    name: str
    start_ns: int
    end_ns: int
    parent_id: int | None  # the enclosing range on the same thread
    activity: str = ""  # "", SYNC, DATALOADER or ALLOC
    correlation: int | None = None  # API calls only
    external_id: int | None = None  # own id of an op; an API call has that of its op
    python_id: int | None = None
    python_parent_id: int | None = None
    recorded: bool = True  # False: happened, but the recording has no row for it
    args: dict[str, object] = field(default_factory=dict)


@dataclass
class DeviceOp:
    """One kernel, copy or fill on a stream of a device."""

    op_id: int
    rank: int
    device: int
    stream: int
    kind: str  # "kernel", "memcpy" or "memset"
    name: str
    start_ns: int
    end_ns: int
    correlation: int
    launch: HostRange
    ready_ns: int  # earliest start that the launch alone would have allowed
    binding: str  # the constraint that set start_ns: one of the BOUND_BY names
    bytes: int | None = None
    graph_id: int | None = None
    graph_node: int | None = None
    collective: dict[str, object] | None = None  # arguments as torch writes them
    collective_seq: int | None = None  # equal on all ranks of one collective
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared_bytes: int = 0
    annotation_ids: tuple[int, ...] = ()  # annotations open at the launch, outermost first


@dataclass(frozen=True)
class Event:
    """A recorded event: complete at ``done_ns``."""

    event_id: int
    device: int
    stream: int
    correlation: int
    done_ns: int


@dataclass
class Stream:
    """A queue of operations on a device, in the order of their launch."""

    ops: list[DeviceOp] = field(default_factory=list)
    wait_until_ns: int = 0  # the events that the next operation waits for
    last_call_ns: int = 0  # start of the last launch call

    def drained_ns(self) -> int:
        """Return when everything launched so far is done."""
        return self.ops[-1].end_ns if self.ops else 0


@dataclass(frozen=True)
class SyncRecord:
    """One wait as the driver reports it: a stream on an event, or the host on the device."""

    kind: str  # "Stream Wait Event", "Event Sync", "Stream Sync" or "Context Sync"
    start_ns: int
    end_ns: int
    device: int
    stream: int  # the stream that waits, -1 where the host does
    correlation: int
    event_id: int | None = None
    event_stream: int | None = None  # where the awaited event was recorded
    event_correlation: int | None = None  # the call that recorded it


@dataclass(frozen=True)
class MemoryEvent:
    """One allocation (bytes > 0) or free (bytes < 0) by the framework's caching allocator."""

    time_ns: int
    tid: int
    device: int
    address: int
    bytes: int
    total_allocated: int
    total_reserved: int


@dataclass(frozen=True)
class Sample:
    """A counter's value at a time."""

    time_ns: int
    device: int
    metric: str
    value: int


@dataclass(frozen=True)
class Migration:
    """A page of unified memory that moved, on demand."""

    device: int
    kind: str  # "UVM HtoD" or "UVM DtoH"
    start_ns: int
    end_ns: int
    address: int
    bytes: int


@dataclass
class RankRun:
    """Everything that happened in one process."""

    rank: int
    pid: int
    devices: list[int]
    threads: dict[int, str] = field(default_factory=dict)  # tid to thread name
    ranges: list[HostRange] = field(default_factory=list)
    ops: list[DeviceOp] = field(default_factory=list)
    syncs: list[SyncRecord] = field(default_factory=list)
    memory: list[MemoryEvent] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)

    def end_ns(self) -> int:
        """Return when the last thing of this rank ended."""
        ends = [r.end_ns for r in self.ranges] + [o.end_ns for o in self.ops]
        return max(ends, default=0)


@dataclass
class Run:
    """One simulated execution of one program on one or more ranks."""

    name: str
    planted: str  # the idle cause or class of time that the program was written to show
    grain_ns: int  # every time is a multiple of this
    ranks: list[RankRun]

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return len(self.ranks)
