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
    layers: int = 24
    attention: str | None = None  # a kernel a layer, which takes attention_ns for a context token
    attention_ns: float = 0.0
    unpack_ns: int = 0  # a kernel before each product that unpacks its weights
    transfer_ns: int = 0  # keys and values are waited for, in each step with prompts
    experts: tuple[int, ...] = ()  # by rank: a layer's experts, behind which all ranks exchange
    exchange_all_ns: int = 20_000
    drafts: int = 0  # tokens that are drafted for each request, in as many passes
    draft_ns: int = 0  # of each pass
    accepts: tuple[int, ...] = (0,)  # how many of them are right, in turn


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
    context: int = 0  # tokens that the attention of running requests looks at
    checked: int = 0  # tokens of running requests that it computes; more than them with drafts
    transfer: tuple[int, int] | None = None
    draft: tuple[int, int] | None = None  # launching the draft
    ranks: tuple[tuple[Kernel, ...], ...] = ()  # all ranks' kernels, where they differ


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
        made = 1
        if settings.drafts and not prefills:
            made += settings.accepts[len(steps) % len(settings.accepts)]
        for request in decodes:
            left = request.output - len(request.token_ns)
            request.token_ns.extend([now] * min(made, left))
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
    drafts = settings.drafts if not prefills else 0
    checked = len(decodes) * (1 + drafts)
    computed = places if settings.pads and places else checked
    length = settings.kernel_ns + computed * settings.place_ns + tokens * settings.token_ns
    context = sum(_measure(r) for r in decodes)
    names = _list_kernels(settings, length, context)
    launches: list[tuple[int, int, int]] = []
    host = start + settings.prepare_ns
    transfer = None
    if settings.transfer_ns and prefills:
        transfer = (host, host + settings.transfer_ns)
        host = transfer[1]
    ready = []
    if places:
        launches.append((host, host + settings.graph_launch_ns, len(names)))
        host += settings.graph_launch_ns
        ready = [host] * len(names)
    else:
        for _ in names:
            launches.append((host, host + settings.launch_ns, 1))
            host += settings.launch_ns
            ready.append(host)
    draft = None
    if drafts:
        draft = (host, host + drafts * settings.launch_ns)
        for _ in range(drafts):
            launches.append((host, host + settings.launch_ns, 1))
            host += settings.launch_ns
            ready.append(host)
        names += [("draft_model", settings.draft_ns)] * drafts
    ranks = _run_kernels(settings, names, ready)
    device = ranks[0][-1].end_ns
    end = device + settings.sample_ns
    phase = "mixed" if prefills and decodes else "prefill" if prefills else "decode"
    return Step(
        "verify" if drafts else phase,
        (len(prefills), tokens),
        len(decodes),
        places,
        start,
        end,
        tuple(launches),
        ranks[0],
        (device, end),
        settings.kernels * tokens * settings.token_ns if decodes else 0,
        context,
        checked,
        transfer,
        draft,
        ranks if settings.experts else (),
    )


_ALL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
_EXPERTS = "fused_moe_kernel"


def _list_kernels(settings: Settings, length: int, context: int) -> list[tuple[str, int]]:
    """The step's kernels in order, each with its time, ns."""
    names = [("gemm", length)] * settings.kernels
    for number in range(settings.exchanges):
        at = (number + 1) * settings.kernels // settings.exchanges + number
        names.insert(at, ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", settings.exchange_ns))
    if settings.unpack_ns:
        unpack = ("kDequantizeBlockwise", settings.unpack_ns)
        names = [one for name in names for one in (unpack, name)]
    every = max(len(names) // settings.layers, 1)
    layered: list[tuple[str, int]] = []
    for n, name in enumerate(names):
        layered.append(name)
        if (n + 1) % every:
            continue
        if settings.attention is not None and context:
            layered.append((settings.attention, round(settings.attention_ns * context)))
        if settings.experts:
            layered += [(_EXPERTS, 0), (_ALL, settings.exchange_all_ns)]
    return layered


def _run_kernels(
    settings: Settings, names: list[tuple[str, int]], ready: list[int]
) -> tuple[tuple[Kernel, ...], ...]:
    """Each rank's kernels, one after the other; in an exchange all wait for the last."""
    loads = settings.experts or (0,)
    ranks: list[list[Kernel]] = [[] for _ in loads]
    device = [0] * len(loads)
    for (name, took), at in zip(names, ready, strict=True):
        begins = [max(one, at) for one in device]
        for rank, begin in enumerate(begins):
            if name == _ALL:
                device[rank] = max(begins) + took
            else:
                device[rank] = begin + (loads[rank] if name == _EXPERTS else took)
            ranks[rank].append(Kernel(name, begin, device[rank]))
    return tuple(map(tuple, ranks))
