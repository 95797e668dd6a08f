"""How fast a large memory snapshot of PyTorch is read, against PyTorch's own tool.

    python benchmarks/memory_snapshot.py [SNAPSHOT] [--bytes BYTES] [--runs RUNS]

Writes a snapshot of BYTES (default 1 GB): the events of SNAPSHOT, or of a simulated program, again
and again with times moved on, each event an object of its own that shares frames with others, as
torch writes them. What a copy leaves allocated is freed at its end. Then, in turn, each step in a
process of its own: sightline's import, its screen and its page from the import, and
`pickle.load` with `torch.cuda._memory_viz.trace_plot` into a page, where torch is installed. That
page still has to be opened: the browser then does the work.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEER = """
import importlib.util, pickle, sys
spec = importlib.util.spec_from_file_location("viz", sys.argv[1])
viz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(viz)
with open(sys.argv[2], "rb") as file:
    data = pickle.load(file)
with open(sys.argv[3], "w") as page:
    page.write(viz.trace_plot(data))
"""


def replicate(document: dict[str, Any], copies: int) -> dict[str, Any]:
    """The document with its first device's events `copies` times.

    A copy frees what it allocates, and nothing else, so that memory does not grow with copies.
    Events of PyTorch 2.0 have no times: they get none.
    """
    events = next(trace for trace in document["device_traces"] if trace)
    times = [event["time_us"] for event in events if "time_us" in event]
    length = times[-1] - times[0] + 1000 if times else 0
    live: dict[int, dict[str, Any]] = {}
    repeated = []
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"].startswith("free") and event["addr"] not in live:
            continue  # allocated before the history begins: only the first copy can free it
        if event["action"] == "free_completed":
            del live[event["addr"]]
        if not event["action"].startswith("segment"):
            repeated.append(event)
    ends = [
        {**event, "action": action, **({"time_us": times[-1]} if times else {})}
        for event in live.values()
        for action in ("free_requested", "free_completed")
    ]
    made = []
    for number in range(copies):
        part = events if number == 0 else repeated
        for event in [*part, *(ends if number < copies - 1 else [])]:
            copy = dict(event)
            if "time_us" in copy:
                copy["time_us"] += number * length
            if "frames" in copy:
                copy["frames"] = list(copy["frames"])
            made.append(copy)
    return {**document, "device_traces": [made]}


def write_input(source: Path | None, path: Path, size: int) -> int:
    """Write the snapshot; how many events it has."""
    if source is None:
        sys.path.insert(0, str(ROOT / "tests"))
        from synth_memory.programs import simulate

        document = simulate("activations-kept", 1).document
    else:
        document = pickle.loads(source.read_bytes())  # named by who runs this
    grown = replicate(document, 3)
    # The first copy defines what the others refer to.
    each = (len(pickle.dumps(grown)) - len(pickle.dumps(replicate(document, 2)))) or 1
    grown = replicate(document, max(1, size // each))
    with path.open("wb") as file:
        pickle.dump(grown, file)
    return len(grown["device_traces"][0])


def measure(words: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Seconds, and the most memory in MB, of a command."""
    began = time.perf_counter()
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {words}")
    return time.perf_counter() - began, usage.ru_maxrss * resource.getpagesize() / 4096 / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("snapshot", nargs="?", type=Path)
    parser.add_argument("--bytes", type=int, default=10**9)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "snapshot.pickle"), Path(folder, "page.html")
        # In a process of its own: a child is said to have taken what its parent had.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            events = pool.submit(write_input, args.snapshot, path, args.bytes).result()
        size = path.stat().st_size
        print(f"{size / 1e9:.2f} GB, {events:,} events, {os.cpu_count()} cores")
        cli = [sys.executable, "-m", "sightline"]
        steps = {
            "import, file to store": [*cli, "sql", str(path), "SELECT 1"],
            "screen, from the store": [*cli, "memory", str(path)],
            "page, from the store": [*cli, "report", str(path), "-o", str(out)],
        }
        torch = importlib.util.find_spec("torch")
        if torch is not None and torch.origin is not None:
            viz = Path(torch.origin).parent / "cuda" / "_memory_viz.py"
            steps["pickle.load and trace_plot"] = [
                sys.executable, "-c", PEER, str(viz), str(path), str(out)
            ]  # fmt: skip
        seconds: dict[str, list[float]] = {step: [] for step in steps}
        most: dict[str, float] = dict.fromkeys(steps, 0.0)
        for number in range(args.runs):
            env = {**os.environ, "SIGHTLINE_CACHE": str(Path(folder, f"cache-{number}"))}
            for step, words in steps.items():
                took, memory = measure(words, env)
                seconds[step].append(took)
                most[step] = max(most[step], memory)
        first = statistics.median(seconds["import, file to store"])
        for step, took in seconds.items():
            middle = statistics.median(took)
            print(
                f"{step:<28}{middle:8.2f} s  {size / middle / 1e6:7.0f} MB/s"
                f"{most[step]:8.0f} MB  {middle / first:6.2f} × import"
            )


if __name__ == "__main__":
    main()
