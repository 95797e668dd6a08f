"""Jobs with planted behaviours, simulated minute by minute; knows nothing of the rules.

A job is a program on some nodes: each node, core or GPU has a rate of work over time, from which
follow load, FLOPs, memory traffic, power, network and files. What is planted changes the program or
the machine, and every figure follows from that. Healthy ones have what healthy jobs have: a start,
checkpoints, noise, gaps in what was sampled, a page cache that fills, ranks that differ by some
per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sightline.subjects.jobs.job import GPU, NODE, Job, make_use

Random = np.random.Generator
# Nodes of the cluster, of which a job has some that follow each other.
CLUSTER, _APART = 200, 7


@dataclass
class World:
    """A job that is being simulated: sizes, and how much each place works over time."""

    rng: Random
    nodes: int
    cpus: int  # of each node
    gpus: int  # of each node
    samples: int
    step_s: float
    work: np.ndarray = field(init=False)  # of each GPU, or of each node: places × samples
    files: np.ndarray = field(init=False)  # bytes/s of each node
    network: np.ndarray = field(init=False)  # bytes/s of each node
    memory: np.ndarray = field(init=False)  # bytes of each node
    clock: np.ndarray = field(init=False)  # of each node, 0 to 1
    gpu_clock: np.ndarray = field(init=False)  # of each GPU while it computes, 0 to 1
    later: Random = field(default_factory=lambda: np.random.default_rng(0))
    threads: float = 1.0  # runnable threads for each core at full work
    spins: np.ndarray = field(init=False)  # waits in a loop: looks busy, computes nothing
    asked_bytes: float = 0.0
    asked_s: float = 0.0
    shared: str = "none"
    state: str = "completed"

    def __post_init__(self) -> None:
        rng, places = self.rng, self.nodes * (self.gpus or 1)
        level = rng.uniform(0.36, 0.97) if self.gpus else rng.uniform(0.74, 0.99)
        each = level * rng.uniform(0.9, 1.0, (places, 1))
        self.work = np.clip(each * rng.normal(1, 0.04, (places, self.samples)), 0, 1)
        start = rng.integers(1, max(2, self.samples // 25))
        self.work[:, :start] *= rng.uniform(0.05, 0.4)
        self.spins = np.zeros_like(self.work)
        self.files = np.abs(rng.normal(2e6, 1e6, (self.nodes, self.samples)))
        self.network = np.abs(rng.normal(3e8, 5e7, (self.nodes, self.samples)))
        if self.nodes == 1:
            self.network = np.abs(rng.normal(2e4, 1e4, (1, self.samples)))
        held = rng.uniform(0.45, 0.85) * 200e9
        filling = 1 - 0.06 * np.exp(-np.arange(self.samples) / (0.05 * self.samples))
        self.memory = held * filling * rng.normal(1, 0.004, (self.nodes, self.samples))
        self.clock = np.full((self.nodes, self.samples), 1.0) * rng.normal(1, 0.01, (self.nodes, 1))
        for at in range(rng.integers(5, 20), self.samples, rng.integers(20, 40)):  # checkpoints
            self.work[:, at] *= 0.3
            self.files[:, at] += rng.uniform(5e8, 2e9)
        level = self.later.uniform(0.93, 1.0, (places, 1))  # no two GPUs are alike
        noise = self.later.normal(1, 0.01, (places, self.samples))
        self.gpu_clock = np.clip(level * noise, 0, 1)
        self.asked_bytes = held * self.nodes * rng.uniform(1.05, 2.2)
        self.asked_s = self.samples * self.step_s * rng.uniform(1.2, 4.5)


Plant = Callable[[World], None]
PLANTS: dict[str, tuple[Plant, bool | None]] = {}  # rule: what plants it, on GPUs, cores or both


def plant(rule: str, on_gpus: bool | None) -> Callable[[Plant], Plant]:
    def keep(make: Plant) -> Plant:
        PLANTS[rule] = make, on_gpus
        return make

    return keep


@plant("job-idle-gpus", True)
def forget_gpus(w: World) -> None:
    """The program uses some of its GPUs, or none."""
    used = int(w.rng.integers(0, len(w.work)))
    w.work[used:] = 0.0


@plant("job-underused-gpus", True)
def starve_gpus(w: World) -> None:
    """Input is slow: short bursts of work."""
    w.work *= w.rng.uniform(0.03, 0.24) / max(w.work.mean(), 1e-9)


@plant("job-unequal-gpus", True)
def divide_badly(w: World) -> None:
    """One GPU has all of the long sequences."""
    part = w.rng.uniform(0.25, 0.65)
    w.work[1:] *= part
    w.work[0] = np.clip(w.work[0] / w.work[0].mean() * 0.95, 0, 1)
    w.work[1:] = np.maximum(w.work[1:], 0.1)


@plant("job-hang", None)
def hang(w: World) -> None:
    """A rank waits for ever, a quarter of an hour at least; half of the time in a loop."""
    at = int(w.samples * w.rng.uniform(0.25, 0.8))
    at = min(at, w.samples - round(900 / w.step_s))
    spinning = w.rng.random() < 0.5
    w.work[:, at:] = 0.0
    w.spins[:, at:] = 1.0 if spinning else 0.0
    w.network[:, at:] = 1e4
    w.files[:, at:] = 1e5
    w.state = str(w.rng.choice(["running", "timeout", "cancelled"]))
    w.asked_s = w.samples * w.step_s * 1.05


@plant("job-serial", False)
def run_one_thread(w: World) -> None:
    """One core of each job works."""
    w.work[:] = 0.0
    w.work[0] = w.rng.uniform(0.9, 1.0) / w.cpus
    w.network[:] = 2e7


@plant("job-low-cpu-load", False)
def use_some_cores(w: World) -> None:
    """Fewer threads than cores, on each node."""
    w.work *= w.rng.uniform(0.1, 0.6) / w.work.mean()


@plant("job-unequal-load", False)
def give_some_nodes_less(w: World) -> None:
    """A part of the nodes has much less to do."""
    less = max(1, int(w.nodes * w.rng.uniform(0.35, 0.6)))
    w.work[:less] *= w.rng.uniform(0.2, 0.65)


@plant("job-slow-node", False)
def slow_a_node(w: World) -> None:
    """One node is clocked down; the others wait for it in loops."""
    w.clock[0] *= w.rng.uniform(0.45, 0.77)


@plant("job-io-stalls", None)
def wait_for_files(w: World) -> None:
    """In each period data are read, and nothing is computed."""
    period = int(w.rng.integers(6, 14))
    reading = max(1, round(period * w.rng.uniform(0.14, 0.4)))
    for at in range(2, w.samples, period):
        w.work[:, at : at + reading] *= 0.05
        w.files[:, at : at + reading] = w.rng.uniform(8e8, 3e9)


@plant("job-excessive-load", False)
def start_too_many(w: World) -> None:
    """Each rank starts a thread for each core."""
    w.threads = w.rng.uniform(1.3, 6.0) / w.work.mean()


@plant("job-idle-network", False)
def connect_nothing(w: World) -> None:
    """The launcher does not connect the nodes: each does the same."""
    w.network[:] = np.abs(w.rng.normal(3e4, 2e4, w.network.shape))


@plant("job-growing-memory", None)
def leak(w: World) -> None:
    """Something is kept in each step."""
    grown = w.rng.uniform(0.12, 0.7) * np.linspace(0, 1, w.samples)
    w.memory = w.memory.mean(axis=1, keepdims=True) * (0.4 + grown)
    w.memory = w.memory * w.rng.normal(1, 0.004, w.memory.shape)


@plant("job-overasked-memory", None)
def ask_for_all_memory(w: World) -> None:
    """A copied script asks for whole nodes' memory, on nodes that others use, too."""
    w.shared = "asked"
    w.memory *= w.rng.uniform(0.05, 0.25)
    w.asked_bytes = float(w.memory.max(axis=1).sum()) / w.rng.uniform(0.06, 0.3)
    w.asked_bytes = max(w.asked_bytes, 20e9)
    if w.memory.max(axis=1).sum() / w.asked_bytes > 0.3:
        w.memory *= 0.25 * w.asked_bytes / w.memory.max(axis=1).sum()


@plant("job-overasked-time", None)
def ask_for_days(w: World) -> None:
    """A copied script asks for days."""
    w.asked_s = max(w.samples * w.step_s / w.rng.uniform(0.02, 0.19), 4000.0)


# Of jobs that are healthy without it, drawn apart: the others stay as they were.
LATER = "job-slow-clocks"


@plant(LATER, True)
def heat_gpus(w: World) -> None:
    """Some GPUs are held at a low clock from some moment on, or now and then, and compute less."""
    rng = w.later
    hot = rng.permutation(len(w.work))[: max(1, int(len(w.work) * rng.uniform(0.1, 1)))]
    if rng.random() < 0.5:
        when = np.arange(w.samples) >= w.samples * rng.uniform(0.2, 0.8)
    else:
        when = np.arange(w.samples) % int(rng.integers(8, 20)) < int(rng.integers(2, 5))
    w.gpu_clock[np.ix_(hot, when)] *= rng.uniform(0.45, 0.8)


# What is true of a job beside what was planted: a job that hangs for most of its time used little.
ALSO = {
    "job-hang": {"job-underused-gpus", "job-low-cpu-load", "job-serial"},
    "job-idle-gpus": {"job-underused-gpus"},
    "job-underused-gpus": {"job-idle-gpus"},
    "job-unequal-gpus": {"job-underused-gpus"},
    "job-unequal-load": {"job-low-cpu-load"},
    "job-serial": {"job-unequal-load", "job-idle-network"},
    "job-io-stalls": {"job-low-cpu-load"},
}


def simulate(seed: int) -> tuple[Job, str | None]:
    """A job, and the rule that ought to speak of it; None of a healthy one, which half are."""
    rng = np.random.default_rng(seed)
    rules = sorted(PLANTS.keys() - {LATER})
    rule = None if rng.random() < 0.5 else rules[int(rng.integers(len(rules)))]
    on_gpus = PLANTS[rule][1] if rule else None
    with_gpus = bool(rng.random() < 0.5) if on_gpus is None else on_gpus
    least = {"job-slow-node": 3, "job-unequal-load": 2, "job-idle-network": 2}
    nodes = int(rng.integers(least.get(rule or "", 1), 9))
    sizes = [4, 8] if rule == "job-unequal-gpus" else [1, 2, 4, 8]
    gpus = int(rng.choice(sizes)) if with_gpus else 0
    step_s = float(rng.choice([30.0, 60.0]))
    samples = int(rng.integers(60, 300))
    later = np.random.default_rng([seed, 62])
    cpus = int(rng.choice([16, 32, 64]))
    world = World(rng, nodes, cpus, gpus, samples, step_s, later=later)
    # As busy as GPUs are whose clock matters.
    if rule is None and gpus and world.work.mean() > 0.55 and later.random() < 0.4:
        rule = LATER
    if rule:
        PLANTS[rule][0](world)
    return observe(world, seed), rule


def observe(w: World, seed: int) -> Job:
    """What monitoring sees of it: sums, noise, and samples that are missing."""
    hosts = [f"n{(_APART * seed + n) % CLUSTER + 1:03}" for n in range(w.nodes)]
    per = w.gpus or 1
    by_node = w.work.reshape(w.nodes, per, w.samples).mean(axis=1)
    spins = w.spins.reshape(w.nodes, per, w.samples).mean(axis=1)
    # The host of GPUs has little to do: it feeds them.
    busy = np.clip(0.2 * by_node + 0.3 * spins if w.gpus else by_node + spins, 0, 1)
    # A slow node is busy all of the time, and the others wait for it in loops.
    done = by_node * (w.clock if w.clock.min() < 0.8 else 1.0)
    load = busy * w.cpus * w.threads + np.abs(w.rng.normal(0, 0.05, busy.shape))
    nodes = tuple((host, None) for host in hosts)
    figures = {
        ("cpu_load", NODE): load,
        ("cpu_user", NODE): np.clip(100 * busy, 0, 100),
        ("flops_any", NODE): done * 2e12 * w.rng.normal(1, 0.02, done.shape),
        ("mem_bw", NODE): done * 1.5e11 * w.rng.normal(1, 0.02, done.shape),
        ("clock", NODE): w.clock * 2.4e9,
        ("mem_used", NODE): w.memory,
        ("file_read", NODE): w.files,
        ("file_write", NODE): np.zeros_like(w.files),
        ("ib_recv", NODE): w.network,
        ("ib_xmit", NODE): w.network,
    }
    uses = {key: make_use(nodes, _lose(w, values), w.step_s) for key, values in figures.items()}
    if w.gpus:
        gpus = tuple((host, str(n)) for host in hosts for n in range(w.gpus))
        utilization = 100 * np.clip(w.work + w.spins, 0, 1)
        power = 70 + 430 * w.work + 130 * w.spins
        uses["acc_utilization", GPU] = make_use(gpus, _lose(w, utilization), w.step_s)
        # One that rests has a low clock, and no problem.
        clock = 1.98e9 * np.where(utilization < 20, 0.6, w.gpu_clock)
        uses["acc_clock", GPU] = make_use(gpus, _lose_later(w, clock), w.step_s)
        uses["acc_power", GPU] = make_use(gpus, _lose(w, power), w.step_s)
    seconds = w.samples * w.step_s
    row = {
        "rank": 0, "recording_id": 0, "job_row_id": seed, "job_id": str(seed), "raw_job_id": seed,
        "cluster": "sim", "sub_cluster": None, "partition": "p", "user": "u", "project": "p",
        "name": None, "application": None, "state": w.state, "exit_code": None, "submit_ns": 0,
        "start_ns": 10**18, "end_ns": None, "duration_ns": round(seconds * 1e9),
        "limit_ns": round(w.asked_s * 1e9), "nodes": w.nodes, "cpus": w.nodes * w.cpus,
        "gpus": w.nodes * w.gpus or None, "gpu_type": None,
        "sharing": "none" if w.shared == "none" else None,
        "memory_bytes": round(w.asked_bytes), "used_memory_bytes": None, "cpu_time_ns": None,
        "energy_j": None, "summary": None,
    }  # fmt: skip
    # As a cluster.json has it: the cores of a node.
    return Job(row, (), uses, {"cpu_load": {"peak": float(w.cpus)}})


def _lose_later(w: World, values: np.ndarray) -> np.ndarray:
    return np.where(w.later.random(values.shape) < 0.03, np.nan, values)


def _lose(w: World, values: np.ndarray) -> np.ndarray:
    """Three per cent of all samples are missing."""
    lost = w.rng.random(values.shape) < 0.03
    return np.where(lost, np.nan, values)
