"""A real vLLM on a CPU (scripts/vllm_cpu.py), slow for one reason by its own flags, and without.

Each cause is recorded as a person does it, by `sightline run --server`, with the flags and without
them, in turns: the machine's other work falls on both alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

import sightline
from support import recording

FOLDER = os.environ.get("SIGHTLINE_VLLM", "")
UP_S = 900.0  # of a machine whose cores many use
OUTPUT_TOKENS = 64  # as `sightline run --server` asks for
_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Two threads that wait for each other suffer most where others use the cores, too.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_FLAGS = (
    *("--served-model-name", "small", "--max-model-len", "2048", "--block-size", "32"),
    *("--enforce-eager", "--enable-logging-iteration-details", "--enable-mfu-metrics"),
)


@dataclass(frozen=True)
class Cause:
    """What makes the server slow (flags, variables), what it is without, and what is asked of it.

    `prompts` are lengths in tokens, in turn; `sleeps`: it takes no processor time.
    """

    rule: str
    planted: Sequence[str]
    without: Sequence[str]
    requests: int
    clients: int
    prompts: Sequence[int]
    environment: Mapping[str, str] = field(default_factory=dict)
    sleeps: bool = False


CAUSES = {
    "prompts in small pieces": Cause(
        "prefill-stalls-decode",
        ("--max-num-batched-tokens", "64", "--max-num-seqs", "8", "--no-enable-prefix-caching"),
        ("--max-num-batched-tokens", "64", "--max-num-seqs", "8", "--enable-prefix-caching"),
        20, 5, (520, 40, 264),
    ),
    "a small KV cache": Cause(
        "kv-cache-preemption",
        ("--num-gpu-blocks-override", "20", "--max-num-seqs", "8", "--no-enable-prefix-caching",
         "--max-model-len", "512"),
        ("--max-num-seqs", "8", "--no-enable-prefix-caching", "--max-model-len", "512"),
        24, 8, (90, 120, 60),
    ),
    "a logits processor that sleeps": Cause(
        "host-sampling",
        ("--logits-processors", "slow_processor:Sleeps", "--max-num-seqs", "8"),
        ("--max-num-seqs", "8"),
        12, 4, (30, 60), environment={"SLEEPS_S": "0.02"}, sleeps=True,
    ),
    "a high load": Cause(
        "small-batch-decode",
        ("--max-num-seqs", "2"),
        ("--max-num-seqs", "16"),
        24, 12, (30, 60),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """One recording: its first finding, the clients' time from first to last, and the run."""

    rule: str
    gain_ns: int
    length_ns: int
    run: sightline.Session


@dataclass(frozen=True)
class Server:
    """A server that runs: its address, the process that was started, and its log."""

    url: str
    pid: int
    log: Path

    def take_processor_s(self) -> float:
        """Processor time of its workers until now, which compute the model, s."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
                fields = rest.split()
                if name.startswith("VLLM::Worker") and self._is_above(int(fields[1])):
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _is_above(self, pid: int) -> bool:
        while pid > 1 and pid != self.pid:
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                return False
            pid = int(stat.rpartition(")")[2].split()[1])
        return pid == self.pid


@dataclass(frozen=True)
class Pass:
    """A load that was sent without recording it: seconds on the wall, and of the worker."""

    wall_s: float
    processor_s: float


@contextlib.contextmanager
def serve(
    folder: Path,
    flags: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    with_stack: bool = False,
) -> Iterator[Server]:
    """The server with these flags, while it is asked; its traces go to `folder`.

    Only with stacks a trace has the functions of a KV connector, and is many times as large.
    """
    home = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    profiler = {
        "profiler": "torch",
        "torch_profiler_dir": str(folder.absolute()),
        "torch_profiler_with_stack": with_stack,
        "torch_profiler_dump_cuda_time_total": False,
    }
    command = [
        str(home / "env/bin/vllm"), "serve", str(home / "model"), "--host", "127.0.0.1",
        "--port", str(port), *_FLAGS, "--profiler-config", json.dumps(profiler), *flags,
    ]  # fmt: skip
    variables = {**recording.clean(), **_ENVIRONMENT, **(environment or {})}
    variables["PYTHONPATH"] = str(home)
    with (folder / "serve.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=variables)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(url, server, folder / "serve.log")
            yield Server(url, server.pid, folder / "serve.log")
        finally:
            server.terminate()
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + UP_S
    while time.monotonic() < limit:
        if server.poll() is not None:
            raise RuntimeError("the server has ended:\n" + log.read_text()[-4000:])
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.5)
    raise RuntimeError("the server does not answer:\n" + log.read_text()[-4000:])


def write_prompts(path: Path, lengths: Sequence[int], count: int) -> Path:
    """Prompts of so many tokens (letters) in turn; no two begin alike."""
    dice = random.Random(7)
    with path.open("w") as lines:
        for number in range(count):
            letters = "".join(dice.choices("abcdefgh ", k=lengths[number % len(lengths)]))
            lines.write(json.dumps({"prompt": letters}) + "\n")
    return path


def record(url: str, folder: Path, name: str, cause: Cause) -> sightline.Session:
    """What `sightline run --server` makes of the cause's load."""
    prompts = write_prompts(folder / f"{name}.jsonl", cause.prompts, cause.requests)
    done = recording.run(
        *("--server", "vllm", url, "--traces", folder, "--load", prompts, "--no-report"),
        *("--requests", str(cause.requests), "--concurrency", str(cause.clients), "-o", name),
        cwd=folder,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return sightline.open(str(folder / f"{name}.sightline"))


def send(server: Server, cause: Cause) -> Pass:
    """The cause's load, unrecorded: it warms up, fills a prefix cache, or is measured."""
    from sightline.record.collect.server_load import Load, read_prompts, send_load

    path = Path(f"{FOLDER}/load-{os.getpid()}.jsonl")
    try:
        prompts = read_prompts(write_prompts(path, cause.prompts, cause.requests))
    finally:
        path.unlink()
    before, began = server.take_processor_s(), time.monotonic()
    send_load(server.url, Load(cause.requests, cause.clients, prompts), lambda _: None)
    return Pass(time.monotonic() - began, server.take_processor_s() - before)


def measure(run: sightline.Session) -> Measured:
    """What comes first in a recording, and how long its clients were served."""
    first = run.answer().findings[0]
    asked = run.table("served_requests")
    length = int(asked["end_ns"].max()) - int(asked["start_ns"].min())  # type: ignore[arg-type]
    return Measured(first["rule"], int(first["gain_ns"] or 0), length, run)


@dataclass(frozen=True)
class Compared:
    """With the cause and without it, in pairs: passes that nobody recorded, and recordings."""

    passes: list[tuple[Pass, Pass]]
    pairs: list[tuple[Measured, Measured]]


def compare(cause: Cause, folder: Path, passes: int, rounds: int) -> Compared:
    """The server with its cause and without, in turns."""
    with (
        serve(folder / "planted", cause.planted, cause.environment) as slow,
        serve(folder / "without", cause.without) as fast,
    ):
        for server in (slow, fast):
            send(server, cause)  # first steps compile, and take long
        made = Compared([], [])
        for _ in range(passes):
            made.passes.append((send(slow, cause), send(fast, cause)))
        for number in range(rounds):
            planted = measure(record(slow.url, folder / "planted", f"r{number}", cause))
            without = measure(record(fast.url, folder / "without", f"r{number}", cause))
            made.pairs.append((planted, without))
    return made


def count_tokens(run: sightline.Session) -> tuple[int, int]:
    """Tokens that the steps made, and those that the clients got.

    Each request that a step continues gets one, and each prompt's last step makes the first. Of
    requests that start anew after a preemption the engine's own texts say how many it continues.
    """
    names = run.table("host_ops", ["name"]).get_column("name").cast(pl.String)
    continued = names.str.extract(r"^execute_context_.*_generation_(\d+)\(").drop_nulls()
    asked = run.table("served_requests")
    made = int(continued.cast(pl.Int64).sum()) + asked.height
    return made, int(asked["output_tokens"].sum())


def find_unexplained(run: sightline.Session) -> tuple[float, float]:
    """The median request's share of TTFT, and of the rest, that lies in no step and no gap, %."""
    rows = run.ask("request_time")
    first = rows.select((pl.col("ttft_delivery_ns").abs() / pl.col("ttft_ns")).median()).item()
    rest = rows.select((pl.col("delivery_ns").abs() / pl.col("rest_ns")).median()).item()
    return 100 * first, 100 * rest


def stay_idle(url: str, folder: Path, seconds: float = 8.0) -> sightline.Session:
    """A low load: one request every two seconds while the server is recorded."""
    ended = threading.Event()

    def ask() -> None:
        from sightline.record.collect.server_load import Load, send_load

        while not ended.wait(2.0):
            send_load(url, Load(1, 1, ("a few words",)), lambda _: None)

    client = threading.Thread(target=ask)
    client.start()
    try:
        done = recording.run(
            *("--server", "vllm", url, "--traces", folder, "--seconds", str(seconds)),
            *("--no-report", "-o", "idle"),
            cwd=folder,
            timeout=600,
        )
    finally:
        ended.set()
        client.join()
    assert done.returncode == 0, done.stderr
    return sightline.open(str(folder / "idle.sightline"))


def summarize(cause: Cause, made: Compared) -> tuple[float, float, float]:
    """The cause's gain, of the load's length, %: predicted, measured, and how far that varies.

    Both are medians. What is measured is processor time of the worker, which the cores' other users
    hardly change, or, of a cause that sleeps, the wall's: the shortest pass of each side.
    """
    predicted = statistics.median(100 * one.gain_ns / one.length_ns for one, _ in made.pairs)
    if cause.sleeps:
        slow, fast = (min(one.wall_s for one in side) for side in zip(*made.passes, strict=True))
        walls = [100 * (1 - b.wall_s / a.wall_s) for a, b in made.passes]
        return predicted, 100 * (1 - fast / slow), max(walls) - min(walls)
    shares = [100 * (1 - b.processor_s / a.processor_s) for a, b in made.passes]
    return predicted, statistics.median(shares), max(shares) - min(shares)
