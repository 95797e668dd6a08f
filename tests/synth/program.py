"""A small simulator of programs that launch work on GPUs. All times are integer nanoseconds.

Each host thread has its own clock, and each call advances it. A stream runs its operations in
the order of their launch calls, so the start of an operation is known at its launch:

    start = max(launch call's start + launch latency,
                end of the stream's previous operation + gap,
                the events that the stream waits for + event latency)

Nothing is scheduled later, therefore the script itself has to call in an order that time could
have had: a launch into a stream must not begin before the previous launch into it. Collectives
are launched on all ranks by one call, because the end on each depends on the start on all.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import names
from .host import Clock, Numbers
from .model import (
    ALLOC,
    BOUND_BY_EVENT,
    BOUND_BY_GRAPH,
    BOUND_BY_LAUNCH,
    BOUND_BY_STREAM,
    SYNC,
    Costs,
    DeviceOp,
    Event,
    HostRange,
    MemoryEvent,
    RankRun,
    Run,
    Stream,
    SyncRecord,
)

DEFAULT_STREAM = 7  # CUPTI's number of the default stream in a torch process
SMALL_PAGEABLE_BYTES = 65_536  # a pageable upload up to here returns at once (CUDA's API notes)


class Simulator(Numbers):
    """Ranks, their devices and threads, and the numbers that identify things."""

    def __init__(
        self,
        ranks: int = 1,
        *,
        devices_per_rank: int = 1,
        grain_ns: int = 1,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(grain_ns, costs or Costs())
        self.ranks = [
            RankRun(r, 41_000 + 7 * r, [r * devices_per_rank + d for d in range(devices_per_rank)])
            for r in range(ranks)
        ]
        self.streams: dict[tuple[int, int, int], Stream] = {}
        self.mains = [HostThread(self, rank, rank.pid, "python3") for rank in self.ranks]
        self._threads = list(self.mains)

    def main(self, rank: int = 0) -> HostThread:
        """Return the rank's main thread."""
        return self.mains[rank]

    def add_thread(self, rank: int, name: str) -> HostThread:
        """Add a thread; its clock starts at 0 (see ``HostThread.wait_for``)."""
        run = self.ranks[rank]
        thread = HostThread(self, run, run.pid + 100 + len(run.threads), name)
        self._threads.append(thread)
        return thread

    def stream(self, rank: int, device: int, stream: int) -> Stream:
        """Return a stream, made at its first use."""
        return self.streams.setdefault((rank, device, stream), Stream())

    def collective(
        self,
        threads: Sequence[HostThread],
        transfer_ns: int,
        *,
        name: str = "allreduce",
        elements: int = 1 << 20,
        dtype: str = "BFloat16",
        stream: int = 20,
        after: int = DEFAULT_STREAM,
        group: str = "0",
    ) -> list[Event]:
        """Launch one collective on the thread of each rank; return each rank's end event.

        The kernel starts on each rank when its own launch, its stream and the work of stream
        ``after`` allow, and ends on all ranks ``transfer_ns`` after the latest of these starts.
        """
        kind = names.COLLECTIVES[name]
        size = len(threads)
        args: dict[str, object] = {
            "Collective name": name,
            "In msg nelems": elements // (size if kind.in_share else 1),
            "Out msg nelems": elements // (size if kind.out_share else 1),
            "Group size": size,
            "dtype": dtype,
            "Process Group Name": group,
            "Process Group Description": "default_pg",
            "Process Group Ranks": str([t.rank.rank for t in threads]),
        }
        kernel = kind.kernel.format(names.NCCL_TYPES[dtype])
        seq = self.next_id("collective")
        ops = []
        for thread in threads:
            params = {k: v for k, v in args.items() if k != "Process Group Description"}
            with (
                thread.op(kind.op),
                thread.op("record_param_comms", **params),
                thread.annotate(kind.annotation),
            ):
                thread.wait_event(thread.record_event(after), stream)
                op = thread.launch(kernel, self.grain_ns, stream=stream, api="cudaLaunchKernelExC")
            op.collective, op.collective_seq = dict(args), seq
            op.grid, op.block, op.registers = (24, 1, 1), (544, 1, 1), 96
            ops.append(op)
        end_ns = max(op.start_ns for op in ops) + self.grained(transfer_ns)
        for op in ops:
            op.end_ns = end_ns
        return [thread.record_event(stream) for thread in threads]

    def finish(self, name: str, planted: str) -> Run:
        """Check that every range is closed, and return the run."""
        for thread in self._threads:
            if thread.open_ranges:
                raise ValueError(f"thread {thread.tid} still has open ranges")
        return Run(name, planted, self.grain_ns, self.ranks)


class HostThread(Clock):
    """One host thread that calls the GPU runtime; every method advances its clock."""

    def __init__(self, sim: Simulator, rank: RankRun, tid: int, name: str) -> None:
        super().__init__(sim, rank, tid, name)
        self.sim = sim
        self.device = rank.devices[0]  # what calls use where no device is given

    def _stream(self, device: int | None, stream: int) -> Stream:
        number = self.device if device is None else device
        return self.sim.stream(self.rank.rank, number, stream)

    def _enqueue(
        self,
        call: HostRange,
        latency_ns: int,
        kind: str,
        name: str,
        duration_ns: int,
        device: int | None,
        stream: int,
    ) -> DeviceOp:
        queue = self._stream(device, stream)
        if call.start_ns < queue.last_call_ns:
            raise ValueError("launches into one stream must be made in the order of time")
        queue.last_call_ns = call.start_ns
        ready_ns = call.start_ns + latency_ns
        free_ns = queue.drained_ns() + self.sim.costs.op_gap_ns if queue.ops else 0
        start_ns = max(ready_ns, free_ns, queue.wait_until_ns)
        if start_ns == ready_ns:
            binding = BOUND_BY_LAUNCH
        elif start_ns == free_ns:
            binding = BOUND_BY_STREAM
        else:
            binding = BOUND_BY_EVENT
        queue.wait_until_ns = 0
        assert call.correlation is not None
        op = DeviceOp(
            op_id=self.sim.next_id("op"),
            rank=self.rank.rank,
            device=self.device if device is None else device,
            stream=stream,
            kind=kind,
            name=name,
            start_ns=start_ns,
            end_ns=start_ns + max(self.sim.grained(duration_ns), self.sim.grain_ns),
            correlation=call.correlation,
            launch=call,
            ready_ns=ready_ns,
            binding=binding,
            annotation_ids=tuple(r.range_id for r in self.open_ranges if r.layer == "annotation"),
        )
        limit = self.sim.costs.queue_limit
        if len(queue.ops) >= limit:  # a full queue blocks the call until one has started
            self._end_call(call, queue.ops[-limit].start_ns)
        queue.ops.append(op)
        self.rank.ops.append(op)
        return op

    def launch(
        self,
        kernel: str,
        duration_ns: int,
        *,
        stream: int = DEFAULT_STREAM,
        device: int | None = None,
        grid: tuple[int, int, int] = (432, 1, 1),
        block: tuple[int, int, int] = (128, 1, 1),
        api: str = "cudaLaunchKernel",
        recorded: bool = True,
    ) -> DeviceOp:
        """Launch a kernel. ``recorded=False`` leaves the launch out of the recording."""
        costs = self.sim.costs
        call = self._call(api, costs.launch_call_ns)
        call.recorded = recorded
        latency = costs.launch_latency_ns
        op = self._enqueue(call, latency, "kernel", kernel, duration_ns, device, stream)
        op.grid, op.block = grid, block
        return op

    def graph_launch(
        self,
        kernels: Sequence[tuple[str, int]],
        *,
        stream: int = DEFAULT_STREAM,
        device: int | None = None,
    ) -> list[DeviceOp]:
        """Launch a graph of (kernel name, duration in ns), which run one after the other."""
        costs = self.sim.costs
        call = self._call("cudaGraphLaunch", costs.graph_call_ns)
        graph_id = self.sim.next_id("graph", self.rank.rank)
        ops: list[DeviceOp] = []
        for node, (name, duration_ns) in enumerate(kernels):
            latency = costs.launch_latency_ns
            op = self._enqueue(call, latency, "kernel", name, duration_ns, device, stream)
            if ops:
                duration = op.end_ns - op.start_ns
                op.start_ns = ops[-1].end_ns + costs.graph_gap_ns
                op.end_ns = op.start_ns + duration
                op.binding = BOUND_BY_GRAPH
            op.grid, op.block = (432, 1, 1), (128, 1, 1)  # as of kernels that are launched alone
            op.graph_id, op.graph_node = graph_id, node
            ops.append(op)
        return ops

    def memset(
        self,
        size: int,
        *,
        rate: int = 800 * 10**9,
        stream: int = DEFAULT_STREAM,
        device: int | None = None,
    ) -> DeviceOp:
        """Fill ``size`` bytes at ``rate`` bytes per second."""
        costs = self.sim.costs
        call = self._call("cudaMemsetAsync", costs.copy_call_ns)
        duration = -(-size * 10**9 // rate)
        op = self._enqueue(
            call, costs.copy_latency_ns, "memset", "Memset (Device)", duration, device, stream
        )
        op.bytes = size
        return op

    def memcpy(
        self,
        kind: str,
        size: int,
        *,
        pinned: bool = True,
        rate: int = 24 * 10**9,
        blocking: bool | None = None,
        stream: int = DEFAULT_STREAM,
        device: int | None = None,
    ) -> DeviceOp:
        """Copy ``size`` bytes ("HtoD", "DtoH" or "DtoD") at ``rate`` bytes per second.

        From or to pageable memory the call itself blocks: an upload's until the last part is
        staged, a download's until it is done. ``blocking`` adds the stream synchronization
        that torch makes after a copy without ``non_blocking=True``; default: where pageable.
        """
        costs = self.sim.costs
        host = "Pinned" if pinned else "Pageable"
        source = host if kind == "HtoD" else "Device"
        target = host if kind == "DtoH" else "Device"
        call = self._call("cudaMemcpyAsync", costs.copy_call_ns)
        duration = -(-size * 10**9 // rate)
        name = f"Memcpy {kind} ({source} -> {target})"
        op = self._enqueue(call, costs.copy_latency_ns, "memcpy", name, duration, device, stream)
        op.bytes = size
        if kind == "HtoD" and not pinned and size > SMALL_PAGEABLE_BYTES:
            self._end_call(call, op.end_ns - costs.staging_tail_ns)
        if kind == "DtoH" and not pinned:
            call.activity = SYNC
            self._end_call(call, op.end_ns + costs.sync_return_ns)
        if blocking is None:
            blocking = kind != "DtoD" and not pinned
        if blocking:
            self.stream_synchronize(stream, device)
        return op

    def _blocking_call(self, name: str, done_ns: int, kind: str, device: int, stream: int) -> None:
        costs = self.sim.costs
        call = self._call(name, costs.sync_call_ns, SYNC)
        if done_ns > call.start_ns:
            self._end_call(call, done_ns + costs.sync_return_ns)
        assert call.correlation is not None
        self.rank.syncs.append(
            SyncRecord(kind, call.start_ns, call.end_ns, device, stream, call.correlation)
        )

    def _device_drained_ns(self, device: int) -> int:
        mine = (self.rank.rank, device)
        return max(
            (s.drained_ns() for k, s in self.sim.streams.items() if k[:2] == mine), default=0
        )

    def synchronize(self, device: int | None = None) -> None:
        """Block until everything on the device is done."""
        number = self.device if device is None else device
        done = self._device_drained_ns(number)
        self._blocking_call("cudaDeviceSynchronize", done, "Context Sync", number, -1)

    def stream_synchronize(self, stream: int = DEFAULT_STREAM, device: int | None = None) -> None:
        """Block until everything on the stream is done."""
        number = self.device if device is None else device
        done = self._stream(device, stream).drained_ns()
        self._blocking_call("cudaStreamSynchronize", done, "Stream Sync", number, stream)

    def item(self, *, stream: int = DEFAULT_STREAM, pinned: bool = True) -> None:
        """Read one number back to the host, as ``tensor.item()`` does."""
        with self.op("aten::item"), self.op("aten::_local_scalar_dense"):
            self.memcpy("DtoH", 4, pinned=pinned, blocking=True, stream=stream)

    def record_event(self, stream: int = DEFAULT_STREAM, device: int | None = None) -> Event:
        """Record an event behind everything launched into the stream so far."""
        call = self._call("cudaEventRecord", self.sim.costs.event_call_ns)
        assert call.correlation is not None
        done = max(call.end_ns, self._stream(device, stream).drained_ns())
        return Event(
            self.sim.next_id("event", self.rank.rank),
            self.device if device is None else device,
            stream,
            call.correlation,
            done,
        )

    def wait_event(
        self, event: Event, stream: int = DEFAULT_STREAM, device: int | None = None
    ) -> None:
        """Make what is launched into the stream from now on wait for the event."""
        call = self._call("cudaStreamWaitEvent", self.sim.costs.event_call_ns)
        queue = self._stream(device, stream)
        release_ns = event.done_ns + self.sim.costs.event_latency_ns
        queue.wait_until_ns = max(queue.wait_until_ns, release_ns)
        assert call.correlation is not None
        self.rank.syncs.append(
            SyncRecord(
                "Stream Wait Event",
                call.start_ns,
                call.end_ns,
                self.device if device is None else device,
                stream,
                call.correlation,
                event.event_id,
                event.stream,
                event.correlation,
            )
        )

    def malloc(self, duration_ns: int = 250_000) -> None:
        """Allocate device memory from the driver."""
        self._call("cudaMalloc", self.sim.grained(duration_ns), ALLOC)

    def free(self, duration_ns: int = 180_000) -> None:
        """Free device memory; the driver waits for the device first."""
        call = self._call("cudaFree", 0, ALLOC)
        done = max(call.start_ns, self._device_drained_ns(self.device))
        self._end_call(call, done + self.sim.grained(duration_ns))

    def call(self, name: str, duration_ns: int) -> None:
        """Make a call of the runtime that launches nothing."""
        self._call(name, self.sim.grained(duration_ns))

    def load_module(self, duration_ns: int = 900_000) -> None:
        """Load a module with kernels."""
        self._call("cuModuleLoadData", self.sim.grained(duration_ns), ALLOC, layer="driver")

    def memory(self, size: int) -> None:
        """Note that the caching allocator gave out (or, below 0, took back) ``size`` bytes."""
        past = [m for m in self.rank.memory if m.device == self.device]
        total = (past[-1].total_allocated if past else 0) + size
        reserved = max([m.total_reserved for m in past], default=2 << 20)
        self.rank.memory.append(
            MemoryEvent(
                self.now_ns,
                self.tid,
                self.device,
                0x7F00_0000_0000 + 512 * len(self.rank.memory),
                size,
                total,
                max(reserved, total),
            )
        )
