"""One capture of a simulated fleet: daemons and clients that are processes, a job that is played.

    python benchmarks/fleet.py --ranks 1000 --nodes 8

Each client speaks Kineto's protocol at its daemon's door, five seconds between two questions, and
writes a trace of its rank that was made before: a job of `tests/support/many_ranks.py`, of which
one rank is late. Measured is `sightline capture` over all daemons, from the command to the answer,
and the memory of all that runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from support.many_ranks import HOST, Cause, Program, write_ranks  # noqa: E402

LATE, LATE_NS = 17, 400_000


def write_traces(ranks: int, steps: int, folder: Path) -> list[Path]:
    """The traces of all ranks, unpacked."""
    job = Program(ranks, steps=steps, causes=(Cause(HOST, LATE % ranks, LATE_NS),))
    made = []
    for path in write_ranks(job, folder):
        plain = path.with_suffix("")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
        made.append(plain)
    return made


def build_client(folder: Path) -> Path:
    """The client's program."""
    source, made = Path(__file__).parent / "fleet_client" / "client.c", folder / "client"
    subprocess.run(["cc", "-O2", "-Wall", "-o", str(made), str(source)], check=True)
    return made


@contextmanager
def run_daemon(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A node's daemon, once it listens."""
    folder.mkdir()
    words = ["daemon", "--socket", f"{folder}/s", "--door", str(folder), "--keep", f"{folder}/kept"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", *words], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def run_clients(program: Path, doors: list[Path], traces: list[Path]) -> Iterator[list[int]]:
    """A client for each trace, the first ones at the first door."""
    share = -(-len(traces) // len(doors))
    running = []
    for rank, trace in enumerate(traces):
        door = doors[rank // share]
        env = {"RANK": str(rank), "WORLD_SIZE": str(len(traces)), "SLURM_JOB_ID": "4711",
               "KINETO_ONDEMAND_TRACE_DIR": str(door / "out")}  # fmt: skip
        (door / "out").mkdir(exist_ok=True)
        running.append(subprocess.Popen([program, str(door), str(trace)], env=env))
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def measure_memory(pids: list[int]) -> int:
    """Bytes of processes that are theirs alone."""
    whole = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        whole += sum(
            int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:")
        )
    return whole


def list_tree(pids: list[int]) -> list[int]:
    """Processes and those that they started."""
    found = list(pids)
    for pid in found:
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, file.read_text().split())
    return found


def main() -> None:
    """Print what one capture took, as a row of docs/scale.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="f") as place, ExitStack() as stack:
        folder = Path(place)
        traces = write_traces(args.ranks, args.steps, folder / "traces")
        doors = [folder / f"n{node}" for node in range(args.nodes)]
        daemons = [stack.enter_context(run_daemon(door)) for door in doors]
        stack.enter_context(run_clients(build_client(folder), doors, traces))
        time.sleep(6)  # all have asked once
        idle = measure_memory([daemon.pid for daemon in daemons])
        sockets = [word for door in doors for word in ("--socket", f"{door}/s")]
        words = [*sockets, "--for", "200ms", "--warm-up", "0s", "--json", "-o", f"{folder}/out"]
        command = [sys.executable, "-m", "sightline", "capture", *words]
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        )
        most = [0]
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(2.0):
                pids = list_tree([process.pid, *(daemon.pid for daemon in daemons)])
                most[0] = max(most[0], measure_memory(pids))

        watcher = threading.Thread(target=watch)
        watcher.start()
        out, err = process.communicate()
        took = time.monotonic() - began
        ended.set()
        watcher.join()
        if process.returncode:
            raise SystemExit(err)
        told = json.loads(out)
        sent = sum(p.stat().st_size for p in (folder / "out.sightline").glob("*.ranks"))
        left = sum(1 for door in doors for _ in (door / "out").iterdir())
        stragglers = told["ranks"]["stragglers"] if told["ranks"] else []
        first = stragglers[0] if stragglers else None
    recorded = sum(node["recorded"] for node in told["nodes"])
    alone = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"{recorded} of {args.ranks} ranks on {args.nodes} nodes in {took:.1f} s")
    print(f"memory: {most[0] >> 20} MB of all, {alone} MB the largest, {idle >> 20} MB idle")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time of all of it: {used.ru_utime + used.ru_stime:.0f} s")
    print(f"sent: {sent / 1e6:.1f} MB, {sent / max(recorded, 1) / 1e3:.1f} kB a rank; left: {left}")
    print(f"problems: {len(told['problems'])} {told['problems'][:2]}")
    if first:
        print(f"first: ranks {first['ranks']}, {first['cause']}; planted: {LATE % args.ranks}")


if __name__ == "__main__":
    main()
