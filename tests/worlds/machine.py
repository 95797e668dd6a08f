"""A machine that plays the scripts of all host threads of all ranks, event by event.

Streams are queues of limited depth; kernels of several streams share the multiprocessors; each
device has one copy engine in each direction; a collective moves data when all of its ranks have
reached it. Nothing is drawn here: all lengths stand in the scripts.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from worlds.calls import (
    Await,
    Begin,
    Call,
    Collective,
    End,
    Get,
    Launch,
    Meet,
    Put,
    Record,
    Spend,
    Start,
    Step,
    Sync,
    Work,
)
from worlds.recorded import DeviceRange, HostRange, RankRecord, Recorded, RunRecord, Waited

QUEUE_DEPTH = 1_024  # launches that a stream holds before the next one blocks the host
LATENCY_NS = 1_600  # from the end of a launch to the earliest start on the device
GAP_NS = 900  # between two kernels of a stream (measured: 0.8 to 1.1 µs in real recordings)
GRAPH_GAP_NS = 500  # between two nodes of a graph
WAKE_NS = 6_000  # from the end of the device's work to the end of a host's wait for it
HANDOVER_NS = 9_000  # from one thread's signal to another's wake-up

# Rank and time since its profiler started (ns; 0 before) to the factor on a kernel's length.
Clock = Callable[[int, int], float]


@dataclass(slots=True)
class Thread:
    """A host thread: its script and where it is in it."""

    rank: int
    tid: int
    name: str
    steps: list[Step]
    recorded: bool = True
    at: int = 0
    since: int = -1  # when the call that blocks began
    opened: list[tuple[str, str, int, dict[str, object]]] = field(default_factory=list)
    external: int = 0


@dataclass(slots=True)
class Queued:
    """Something on a stream: work, or an event's record or wait."""

    ready: int
    work: Work | None = None
    event: Hashable = None
    records: bool = False
    correlation: int = 0
    external: int = 0
    graph: int = 0
    first: bool = True
    waiter: Thread | None = None


@dataclass(slots=True)
class Stream:
    """A queue of one device."""

    rank: int
    number: int
    queue: deque[Queued] = field(default_factory=deque)
    enqueued: int = 0
    done: int = 0
    last_end: int = -1_000_000
    running: bool = False
    parked: bool = False  # waits for an event, or for room on the device
    blocked: deque[Thread] = field(default_factory=deque)


@dataclass(slots=True)
class Device:
    """What kernels and copies of one rank share."""

    free: float = 1.0
    engines: dict[str, bool] = field(default_factory=lambda: {"H2D": False, "D2H": False})
    waiting: deque[Stream] = field(default_factory=deque)


class Machine:
    """Plays scripts; `play` gives what a profiler could have seen."""

    def __init__(
        self,
        threads: list[Thread],
        clock: Clock | None = None,
        places: dict[int, int] | None = None,
        beside: float = 1.0,
    ):
        """`places` has the devices of ranks that do not run on the one of their own number.

        `beside` is how many times slower kernels run while a collective moves data.
        """
        self.beside = beside
        self.moving: dict[int, int] = defaultdict(int)  # until when a rank's data moves
        self.threads = threads
        self.places = places or {}
        self.clock = clock or (lambda rank, now: 1.0)
        self.heap: list[tuple[int, int, Callable[[int], None]]] = []
        self.count = 0
        self.streams: dict[tuple[int, int], Stream] = {}
        self.devices: dict[int, Device] = defaultdict(Device)
        self.records: dict[int, RankRecord] = {}
        self.started: dict[int, int] = {}
        self.events: dict[Hashable, int] = {}  # when a stream reached them
        self.event_calls: dict[Hashable, tuple[int, int]] = {}  # correlation, stream
        self.event_streams: dict[Hashable, list[Stream]] = defaultdict(list)
        self.event_threads: dict[Hashable, list[Thread]] = defaultdict(list)
        self.sync_threads: dict[int, list[tuple[Thread, list[tuple[Stream, int]]]]] = defaultdict(
            list
        )
        self.queues: dict[Hashable, int] = defaultdict(int)
        self.getters: dict[Hashable, deque[Thread]] = defaultdict(deque)
        self.putters: dict[Hashable, deque[Thread]] = defaultdict(deque)
        self.meetings: dict[Hashable, list[Thread]] = defaultdict(list)
        self.collectives: dict[Hashable, list[tuple[Stream, Queued, int]]] = defaultdict(list)
        self.correlations: dict[int, int] = defaultdict(lambda: 1_000)
        self.externals: dict[int, int] = defaultdict(int)
        for thread in threads:
            record = self.records.setdefault(
                thread.rank,
                RankRecord(thread.rank, 4_000 + 17 * thread.rank, self.place(thread.rank)),
            )
            if thread.recorded:
                record.threads[thread.tid] = thread.name

    def play(self) -> RunRecord:
        """Play all scripts to their ends. Raises RuntimeError where threads wait for ever."""
        for thread in self.threads:
            self.after(0, lambda now, thread=thread: self.advance(thread, now))
        while self.heap:
            now, _, act = heapq.heappop(self.heap)
            act(now)
        stuck = [t.name for t in self.threads if t.at < len(t.steps) and t.recorded]
        if stuck:
            raise RuntimeError(f"threads wait for ever: {stuck}")
        return RunRecord([self.records[rank] for rank in sorted(self.records)])

    def after(self, time: int, act: Callable[[int], None]) -> None:
        """Do something at `time` (ns)."""
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, act))

    def place(self, rank: int) -> int:
        """The device that a rank uses."""
        return self.places.get(rank, rank)

    def resume(self, thread: Thread, time: int) -> None:
        """Let a thread go on with its next step at `time`."""
        self.after(time, lambda now: self.advance(thread, now))

    # Host threads

    def advance(self, thread: Thread, now: int) -> None:
        """Take a thread's next steps until one takes time that others can see, or blocks."""
        time = now
        while thread.at < len(thread.steps):
            step = thread.steps[thread.at]
            if isinstance(step, Spend):
                time += step.ns
            elif isinstance(step, Begin):
                if step.kind == "op":
                    self.externals[thread.rank] += 1
                    step.args["external"] = self.externals[thread.rank]
                thread.opened.append((step.kind, step.name, time, step.args))
            elif isinstance(step, End):
                kind, name, start, args = thread.opened.pop()
                self.note(thread, kind, name, start, time, args=args)
            elif time > now:
                self.resume(thread, time)
                return
            else:
                ends = self.do(thread, step, now)
                if ends is None:
                    return  # blocked: `step_done` goes on
                time = ends
            thread.at += 1

    def step_done(self, thread: Thread, time: int) -> None:
        """A step that blocked is over: go on with the next one."""
        thread.at += 1
        thread.since = -1
        self.resume(thread, time)

    def do(self, thread: Thread, step: Step, now: int) -> int | None:
        """Do one step that others can see; give its end, or None where it blocks."""
        if isinstance(step, Launch):
            return self.launch(thread, step, now)
        if isinstance(step, Call):
            self.note(thread, "api", step.api, now, now + step.ns, self.correlate(thread.rank))
            return now + step.ns
        if isinstance(step, Sync):
            return self.sync(thread, step, now)
        if isinstance(step, Record | Await):
            return self.put_event(thread, step, now)
        if isinstance(step, Put):
            return self.put(thread, step, now)
        if isinstance(step, Get):
            return self.get(thread, step, now)
        if isinstance(step, Meet):
            return self.meet(thread, step, now)
        if isinstance(step, Start):
            self.started[thread.rank] = now
            return now
        raise TypeError(step)

    def launch(self, thread: Thread, step: Launch, now: int) -> int | None:
        """Put work on a stream, if there is room; a blocking one waits for its end."""
        stream = self.stream(thread.rank, step.stream)
        if len(stream.queue) >= QUEUE_DEPTH:
            if thread.since < 0:
                thread.since = now
            stream.blocked.append(thread)
            return None
        start = thread.since if thread.since >= 0 else now
        thread.since = -1
        correlation = self.correlate(thread.rank)
        end = now + step.ns
        queued = [
            Queued(
                end + LATENCY_NS,
                work,
                correlation=correlation,
                external=self.operator(thread),
                graph=step.graph,
                first=not step.graph or index == 0,
            )
            for index, work in enumerate(step.works)
        ]
        if step.blocks:
            queued[-1].waiter = thread
            thread.since = start
            self.after(end, lambda time: self.enqueue(stream, queued, time))
            return None
        self.note(thread, "api", step.api, start, end, correlation)
        self.after(end, lambda time: self.enqueue(stream, queued, time))
        return end

    def operator(self, thread: Thread) -> int:
        """The innermost framework operator that is open, as the framework counts them."""
        for kind, _, _, args in reversed(thread.opened):
            if kind == "op":
                return int(str(args["external"]))
        return 0

    def sync(self, thread: Thread, step: Sync, now: int) -> int | None:
        """Wait for an event, a stream or the whole device."""
        if step.event is not None:
            if step.event in self.events:
                return self.synced(thread, step, now, now)
            thread.since = now
            self.event_threads[step.event].append(thread)
            return None
        streams = [
            s
            for (rank, number), s in self.streams.items()
            if rank == thread.rank and step.stream in (None, number)
        ]
        goals = [(s, s.enqueued) for s in streams if s.done < s.enqueued]
        if not goals:
            return self.synced(thread, step, now, now)
        thread.since = now
        self.sync_threads[thread.rank].append((thread, goals))
        return None

    def synced(self, thread: Thread, step: Sync, start: int, now: int) -> int:
        """A wait is over: write it down, and give its end."""
        frees = step.api == "cudaFree"  # works on after its wait, and shows as no wait
        end = now + (WAKE_NS if now > start and not frees else step.ns)
        correlation = self.correlate(thread.rank)
        self.note(thread, "api", step.api, start, end, correlation)
        kind = "event" if step.event is not None else "device" if step.stream is None else "stream"
        if self.is_recorded(thread, start) and not frees:
            self.records[thread.rank].waits.append(
                Waited(
                    kind,
                    thread.tid,
                    start,
                    end,
                    correlation,
                    step.stream,
                    step.event,
                    *self.event_calls.get(step.event, (0, -1)),
                )
            )
        return end

    def put_event(self, thread: Thread, step: Record | Await, now: int) -> int:
        """Put an event's record or wait on a stream."""
        stream = self.stream(thread.rank, step.stream)
        correlation = self.correlate(thread.rank)
        end = now + step.ns
        records = isinstance(step, Record)
        api = "cudaEventRecord" if records else "cudaStreamWaitEvent"
        self.note(thread, "api", api, now, end, correlation)
        if records:
            self.event_calls[step.event] = (correlation, step.stream)
        elif self.is_recorded(thread, now):
            made_by = self.event_calls.get(step.event, (0, -1))
            self.records[thread.rank].waits.append(
                Waited("wait", thread.tid, now, end, correlation, step.stream, step.event, *made_by)
            )
        queued = Queued(end, event=step.event, records=records)
        self.after(end, lambda time: self.enqueue(stream, [queued], time))
        return end

    def put(self, thread: Thread, step: Put, now: int) -> int | None:
        """Hand over an item, or wait for room."""
        if self.queues[step.queue] >= step.room:
            thread.since = now
            self.putters[step.queue].append(thread)
            return None
        if self.getters[step.queue]:
            taker = self.getters[step.queue].popleft()
            self.taken(taker, now + HANDOVER_NS)
        else:
            self.queues[step.queue] += 1
        return now

    def get(self, thread: Thread, step: Get, now: int) -> int | None:
        """Take an item, or wait for one."""
        if not self.queues[step.queue]:
            thread.since = now
            self.getters[step.queue].append(thread)
            return None
        self.queues[step.queue] -= 1
        if self.putters[step.queue]:
            giver = self.putters[step.queue].popleft()
            self.queues[step.queue] += 1
            self.step_done(giver, now + HANDOVER_NS)
        return now + 2_000

    def taken(self, thread: Thread, time: int) -> None:
        """A thread that waited for an item has one."""
        step = thread.steps[thread.at]
        assert isinstance(step, Get)
        self.note(thread, "os", step.waits, thread.since, time)
        self.step_done(thread, time)

    def meet(self, thread: Thread, step: Meet, now: int) -> int | None:
        """Wait for others on the host; the last one to come frees all."""
        here = self.meetings[step.key]
        here.append(thread)
        if len(here) < step.count:
            return None
        for other in here[:-1]:
            self.step_done(other, now + step.ns)
        return now + step.ns

    # The device

    def stream(self, rank: int, number: int) -> Stream:
        """A rank's stream of that number, made when it is first used."""
        key = (rank, number)
        if key not in self.streams:
            self.streams[key] = Stream(rank, number)
        return self.streams[key]

    def enqueue(self, stream: Stream, queued: list[Queued], now: int) -> None:
        """The device sees new entries of a stream."""
        stream.queue.extend(queued)
        stream.enqueued += len(queued)
        if not stream.running and not stream.parked:
            self.serve(stream, now)

    def serve(self, stream: Stream, now: int) -> None:
        """Start what is at the head of a stream, or see what it waits for."""
        while stream.queue and not stream.running and not stream.parked:
            head = stream.queue[0]
            if head.work is None:
                if head.records:
                    self.record_event(head.event, now)
                elif head.event not in self.events:
                    stream.parked = True
                    self.event_streams[head.event].append(stream)
                    return
                self.pop(stream, now)
                continue
            gap = GAP_NS if head.first else GRAPH_GAP_NS
            earliest = max(now, head.ready, stream.last_end + gap)
            if earliest > now:
                stream.parked = True
                self.after(earliest, lambda time: self.unpark(stream, time))
                return
            if not self.acquire(stream.rank, head.work):
                stream.parked = True
                self.devices[stream.rank].waiting.append(stream)
                return
            self.begin(stream, head, now)

    def unpark(self, stream: Stream, now: int) -> None:
        """What a stream waited for may be there."""
        stream.parked = False
        self.serve(stream, now)

    def acquire(self, rank: int, work: Work) -> bool:
        """Take what a piece of work needs of the device, if it is free."""
        device = self.devices[rank]
        if work.copy in device.engines:
            if device.engines[work.copy]:
                return False
            device.engines[work.copy] = True
        elif work.collective is None:
            if device.free < work.share - 1e-9:
                return False
            device.free -= work.share
        return True

    def release(self, rank: int, work: Work, now: int) -> None:
        """Give back what a piece of work had, and look who waits for it."""
        device = self.devices[rank]
        if work.copy in device.engines:
            device.engines[work.copy] = False
        elif work.collective is None:
            device.free += work.share
        waiting, device.waiting = device.waiting, deque()
        for stream in waiting:
            self.unpark(stream, now)

    def begin(self, stream: Stream, head: Queued, now: int) -> None:
        """The head of a stream starts to run."""
        stream.running = True
        work = head.work
        assert work is not None
        if work.collective is None:
            since = now - self.started.get(stream.rank, now)
            factor = self.clock(stream.rank, since) if work.clocked else 1.0
            factor *= self.crowd(stream.rank)
            length = max(1, round(work.ns * factor))
            if work.kind == "kernel":
                # Work goes on so many times slower until the data has moved.
                slow = min(length * self.beside, max(0, self.moving[stream.rank] - now))
                length += round(slow - slow / self.beside)
            end = now + length
            self.after(end, lambda time: self.finish(stream, head, now, time))
            return
        self.join_collective(work.collective, stream, head, now)

    def crowd(self, rank: int) -> int:
        """How many processes run on a rank's device now: it gives each of them slices of time.

        Records of kernels that were sliced overlap, as in real recordings.
        """
        if not self.places:
            return 1
        here = {s.rank for s in self.streams.values() if s.running} | {rank}
        return sum(self.place(other) == self.place(rank) for other in here)

    def join_collective(
        self, collective: Collective, stream: Stream, head: Queued, now: int
    ) -> None:
        """A rank's kernel spins until all ranks of its group are there, then data moves."""
        here = self.collectives[collective.key]
        here.append((stream, head, now))
        if len(here) < len(collective.ranks):
            return
        length = max(entry.work.ns for _, entry, _ in here if entry.work)
        for other, entry, start in here:
            self.moving[other.rank] = max(self.moving[other.rank], now + length)
            self.after(
                now + length,
                lambda time, other=other, entry=entry, start=start: self.finish(
                    other, entry, start, time
                ),
            )

    def finish(self, stream: Stream, head: Queued, start: int, now: int) -> None:
        """A piece of work is done."""
        work = head.work
        assert work is not None
        stream.running = False
        stream.last_end = now
        record = self.records[stream.rank]
        if start >= self.started.get(stream.rank, 1 << 62):
            record.devices.append(
                DeviceRange(
                    stream.number, work, start, now, head.correlation, head.external, head.graph
                )
            )
        if head.waiter:
            thread = head.waiter
            step = thread.steps[thread.at]
            assert isinstance(step, Launch)
            end = now + WAKE_NS
            self.note(thread, "api", step.api, thread.since, end, head.correlation)
            self.step_done(thread, end)
        self.pop(stream, now)
        self.release(stream.rank, work, now)
        self.serve(stream, now)

    def pop(self, stream: Stream, now: int) -> None:
        """The head of a stream is over: threads that waited for this go on."""
        stream.queue.popleft()
        stream.done += 1
        if stream.blocked and len(stream.queue) < QUEUE_DEPTH:
            self.resume(stream.blocked.popleft(), now)
        waiting = self.sync_threads[stream.rank]
        if waiting:
            still = []
            for thread, goals in waiting:
                if any(s.done < goal for s, goal in goals):
                    still.append((thread, goals))
                    continue
                step = thread.steps[thread.at]
                assert isinstance(step, Sync)
                self.step_done(thread, self.synced(thread, step, thread.since, now))
            self.sync_threads[stream.rank] = still

    def record_event(self, event: Hashable, now: int) -> None:
        """A stream has reached an event's record: wake who waits for it."""
        correlation, number = self.event_calls[event]
        self.events[event] = now
        rank = event[0]  # type: ignore[index]
        if now >= self.started.get(rank, 1 << 62):
            self.records[rank].events.append(Recorded(number, now, correlation, event))
        for stream in self.event_streams.pop(event, []):
            self.after(now, lambda time, stream=stream: self.unpark(stream, time))
        for thread in self.event_threads.pop(event, []):
            step = thread.steps[thread.at]
            assert isinstance(step, Sync)
            self.step_done(thread, self.synced(thread, step, thread.since, now))

    # What is written down

    def correlate(self, rank: int) -> int:
        """The next correlation id of a rank; they have gaps, as calls that are not traced make."""
        self.correlations[rank] += 1 + self.correlations[rank] % 3
        return self.correlations[rank]

    def is_recorded(self, thread: Thread, start: int) -> bool:
        """Whether the profiler sees what began at `start` on a thread."""
        return thread.recorded and start >= self.started.get(thread.rank, 1 << 62)

    def note(
        self,
        thread: Thread,
        kind: str,
        name: str,
        start: int,
        end: int,
        correlation: int = 0,
        args: dict[str, object] | None = None,
    ) -> None:
        """Write down a range of a thread, if the profiler sees it."""
        if self.is_recorded(thread, start):
            args = dict(args or {})
            if kind == "api":
                args["external"] = self.operator(thread)
            self.records[thread.rank].hosts.append(
                HostRange(thread.tid, kind, name, start, end, correlation, args)
            )
