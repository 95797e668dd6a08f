"""Requests through a server with continuous batching, step by step. All times are integer ns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """What the server is, and how long each of its parts takes.

    A step's kernels all take `kernel_ns`, and more for each request (or place of a graph) that is
    decoded and each prompt token. Work of the host: `schedule_ns` before a step, `prepare_ns` and
    one launch for each kernel or graph in it, and `sample_ns` behind its last kernel.
    """

    kernels: int = 72
    kernel_ns: int = 8_000
    place_ns: int = 20
    token_ns: int = 15
    schedule_ns: int = 20_000
    prepare_ns: int = 15_000
    sample_ns: int = 10_000
    launch_ns: int = 3_000
    graph_launch_ns: int = 15_000
    graphs: tuple[int, ...] = (1, 2, 4, 8, *range(16, 257, 8))  # captured batch sizes
    pads: bool = False  # a graph's empty places are computed, and its annotation says so
    exchanges: int = 0  # all-reduces of a step
    exchange_ns: int = 4_160
    most_requests: int = 64
    most_tokens: int = 8_192  # of a step
    kv_tokens: int | None = None
    runs_ahead: bool = False  # schedules while the step before computes


@dataclass
class Request:
    """One request: what was asked, and when each of its tokens came."""

    arrival_ns: int
    prompt: int
    output: int
    token_ns: list[int] = field(default_factory=list)
    computed: int = 0  # tokens of the prompt, and after a preemption of what it had generated
    to_compute: int = 0


@dataclass(frozen=True)
class Kernel:
    """A kernel: its name, when it was launched and ran, and whether a graph replayed it."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Step:
    """One step: who was in it, and everything that happened."""

    phase: str
    prefill: tuple[int, int]  # requests and tokens
    decode: int
    places: int  # of the graph; 0 where none was replayed
    start_ns: int
    end_ns: int
    launches: tuple[tuple[int, int, int], ...]  # start, end, kernels
    kernels: tuple[Kernel, ...]
    sample: tuple[int, int]
    without_prompts_ns: int  # how much shorter it is without its prompt tokens


@dataclass(frozen=True)
class Served:
    """All steps, the requests with their tokens' times, and how often one was preempted."""

    steps: list[Step]
    requests: list[Request]
    preemptions: int

    @property
    def length_ns(self) -> int:
        """From the first request to the end of the last step."""
        return self.steps[-1].end_ns - min(r.arrival_ns for r in self.requests)


def serve(settings: Settings, asked: list[tuple[int, int, int]]) -> Served:
    """Play requests (arrival, prompt, output) until all are answered."""
    requests = [Request(*one, to_compute=one[1]) for one in asked]
    waiting = sorted(requests, key=lambda r: r.arrival_ns)
    running: list[Request] = []
    steps: list[Step] = []
    now, preemptions = 0, 0
    while waiting or running:
        if not running:
            now = max(now, waiting[0].arrival_ns)
        hidden = 0
        if settings.runs_ahead and steps and steps[-1].kernels:
            hidden = steps[-1].kernels[-1].end_ns - steps[-1].kernels[0].start_ns
        came_ns = now
        now += max(0, settings.schedule_ns - hidden)
        preemptions += _make_room(settings, running, waiting)
        _admit(settings, running, waiting, came_ns)
        prefills, decodes = _choose_batch(settings, running)
        step = _run_step(settings, now, prefills, decodes)
        steps.append(step)
        now = step.end_ns
        for request, tokens in prefills:
            request.computed += tokens
            if request.computed == request.to_compute:
                request.token_ns.append(now)
        for request in decodes:
            request.token_ns.append(now)
        running = [r for r in running if len(r.token_ns) < r.output]
    return Served(steps, requests, preemptions)


def _make_room(settings: Settings, running: list[Request], waiting: list[Request]) -> int:
    """Preempt the last ones admitted until all that run have room; they start anew."""
    if settings.kv_tokens is None:
        return 0
    count = 0
    while len(running) > 1 and sum(_measure(r) + 1 for r in running) > settings.kv_tokens:
        last = running.pop()
        last.to_compute, last.computed = last.prompt + len(last.token_ns), 0
        waiting.insert(0, last)
        count += 1
    return count


def _measure(request: Request) -> int:
    return request.prompt + len(request.token_ns)


def _admit(settings: Settings, running: list[Request], waiting: list[Request], now_ns: int) -> None:
    while waiting and waiting[0].arrival_ns <= now_ns and len(running) < settings.most_requests:
        room = settings.kv_tokens
        taken = sum(map(_measure, running))
        if room is not None and running and taken + _measure(waiting[0]) + 1 > room:
            return
        running.append(waiting.pop(0))


def _choose_batch(
    settings: Settings, running: list[Request]
) -> tuple[list[tuple[Request, int]], list[Request]]:
    decodes = [r for r in running if r.computed == r.to_compute]
    left = settings.most_tokens - len(decodes)
    prefills = []
    for request in running:
        tokens = min(request.to_compute - request.computed, left)
        if tokens > 0:
            prefills.append((request, tokens))
            left -= tokens
    return prefills, decodes


def _run_step(
    settings: Settings, start: int, prefills: list[tuple[Request, int]], decodes: list[Request]
) -> Step:
    tokens = sum(n for _, n in prefills)
    places = 0
    if not prefills:
        places = next((g for g in settings.graphs if g >= len(decodes)), 0)
    computed = places if settings.pads and places else len(decodes)
    length = settings.kernel_ns + computed * settings.place_ns + tokens * settings.token_ns
    names = [("gemm", length)] * settings.kernels
    for number in range(settings.exchanges):
        at = (number + 1) * settings.kernels // settings.exchanges + number
        names.insert(at, ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", settings.exchange_ns))
    launches, kernels = [], []
    host = start + settings.prepare_ns
    device = 0
    if places:
        launches.append((host, host + settings.graph_launch_ns, len(names)))
        device = host = host + settings.graph_launch_ns
    for name, took in names:
        if not places:
            launches.append((host, host + settings.launch_ns, 1))
            host += settings.launch_ns
        begin = max(device, host)
        device = begin + took
        kernels.append(Kernel(name, begin, device))
    end = device + settings.sample_ns
    phase = "mixed" if prefills and decodes else "prefill" if prefills else "decode"
    return Step(
        phase,
        (len(prefills), tokens),
        len(decodes),
        places,
        start,
        end,
        tuple(launches),
        tuple(kernels),
        (device, end),
        settings.kernels * tokens * settings.token_ns if decodes else 0,
    )
