"""One capture of a simulated fleet: daemons and clients that are processes, a job that is played.

    python benchmarks/fleet.py --ranks 1000 --nodes 8

Each client speaks Kineto's protocol at its daemon's door, five seconds between two questions, and
writes a trace of its rank that was made before: a job of `tests/support/many_ranks.py`, of which
one rank is late. Measured is `sightline capture` over all daemons, from the command to the answer,
and the memory of all that runs.

    python benchmarks/fleet.py --ranks 64 --nodes 8 --skew
    python benchmarks/fleet.py --ranks 8 --nodes 1 --captures 60 --period 60

With --skew the nodes' clocks are up to 50 ms ahead and behind, evenly, by a library that moves the
time of day of their processes (a network namespace has no clock of its own). With --captures one
follows the other, one in each --period s: what the daemons hold after each (memory, descriptors,
threads, processes) shows whether it grows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import select
import shutil
import signal
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
SKEW_MS = 50


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


def build(folder: Path, name: str) -> Path:
    """The client's program, or the library that moves a process' time of day."""
    source, made = Path(__file__).parent / "fleet_client" / f"{name}.c", folder / name
    kind = ["-shared", "-fPIC"] if name == "skew" else []
    subprocess.run(["cc", "-O2", "-Wall", *kind, "-o", str(made), str(source)], check=True)
    return made


@contextmanager
def run_daemon(folder: Path, clock: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A node's daemon, once it listens."""
    folder.mkdir()
    words = ["daemon", "--socket", f"{folder}/s", "--door", str(folder), "--keep", f"{folder}/kept"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock},
    )
    assert process.stderr is not None
    process.stderr.readline()
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def run_clients(
    program: Path, doors: list[Path], traces: list[Path], clocks: list[dict[str, str]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """A client for each trace, the first ones at the first door."""
    share = -(-len(traces) // len(doors))
    running = []
    for rank, trace in enumerate(traces):
        door = doors[rank // share]
        env = {"RANK": str(rank), "WORLD_SIZE": str(len(traces)), "SLURM_JOB_ID": "4711",
               "KINETO_ONDEMAND_TRACE_DIR": str(door / "out"),
               **clocks[rank // share]}  # fmt: skip
        (door / "out").mkdir(exist_ok=True)
        words = [program, str(door), str(trace)]
        running.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def skew_clocks(nodes: int, library: Path | None) -> tuple[list[int], list[dict[str, str]]]:
    """How far each node's clock is ahead, ms, and the environment that makes it so."""
    if library is None:
        return [0] * nodes, [{}] * nodes
    ahead = [round(SKEW_MS * (2 * node / max(nodes - 1, 1) - 1)) for node in range(nodes)]
    return ahead, [{"LD_PRELOAD": str(library), "SKEW_MS": str(ms)} for ms in ahead]


def read_starts(clients: list[subprocess.Popen[str]]) -> list[int]:
    """When each began to record, ns of one clock; of those that said so."""
    told = [c.stdout for c in clients if c.stdout and select.select([c.stdout], [], [], 0.1)[0]]
    return [int(stream.readline()) for stream in told]


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


def measure_time(pid: int) -> tuple[float, float]:
    """Processor time of a process, and of those that it waited for, s (proc(5), stat)."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    own, others = (sum(map(int, words[n : n + 2])) / ticks for n in (11, 13))
    return own, others


def describe_held(pids: list[int], doors: list[Path]) -> str:
    """What daemons hold between captures, once their processes have made the fingerprints."""
    while len(list_tree(pids)) > len(pids):
        time.sleep(0.2)
    held = measure_memory(pids)
    files = sum(1 for door in doors for _ in (door / "out").iterdir())
    kept = sum(1 for door in doors for _ in (door / "kept").iterdir())
    open_now, threads = (
        sum(1 for pid in pids for _ in Path(f"/proc/{pid}/{name}").iterdir())
        for name in ("fd", "task")
    )
    return (
        f"{held / (1 << 20):.1f} MB of daemons, {files} files left, {kept} captures kept, "
        f"{open_now} descriptors, {threads} threads"
    )


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
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--captures", type=int, default=1)
    parser.add_argument("--period", type=float, default=0.0, help="from one capture to the next, s")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clients and folders go with it
    with tempfile.TemporaryDirectory(prefix="f") as place, ExitStack() as stack:
        folder = Path(place)
        traces = write_traces(args.ranks, args.steps, folder / "traces")
        doors = [folder / f"n{node}" for node in range(args.nodes)]
        ahead, clocks = skew_clocks(args.nodes, build(folder, "skew") if args.skew else None)
        daemons = [
            stack.enter_context(run_daemon(door, clock))
            for door, clock in zip(doors, clocks, strict=True)
        ]
        program = build(folder, "client")
        clients = stack.enter_context(run_clients(program, doors, traces, clocks))
        time.sleep(6)  # all have asked once
        idle = measure_memory([daemon.pid for daemon in daemons])
        sockets = [word for door in doors for word in ("--socket", f"{door}/s")]
        words = [*sockets, "--for", "200ms", "--warm-up", "0s", "--json", "-o", f"{folder}/out"]
        command = [sys.executable, "-m", "sightline", "capture", *words]
        for number in range(args.captures - 1):
            next_one = time.monotonic() + args.period
            again = [*command[:-1], f"{folder}/soak{number}"]
            made = subprocess.run(again, check=False, capture_output=True, text=True)
            shutil.rmtree(f"{folder}/soak{number}.sightline", ignore_errors=bool(made.returncode))
            read_starts(clients)
            # On a machine that others use, too, one may come too late: what it leaves counts.
            why = f"; nothing was captured: {made.stderr.strip()}" if made.returncode else ""
            held = describe_held([d.pid for d in daemons], doors)
            print(f"{number + 1}: {held}{why}", flush=True)
            time.sleep(max(next_one - time.monotonic(), 0.0))
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
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out, err = process.communicate()
        took = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended.set()
        watcher.join()
        used = {"daemons": sum(measure_time(d.pid)[0] for d in daemons),
                "their reductions": sum(measure_time(d.pid)[1] for d in daemons),
                "capture": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                "clients": sum(measure_time(c.pid)[0] for c in clients)}  # fmt: skip
        if process.returncode:
            raise SystemExit(err)
        told = json.loads(out)
        starts = read_starts(clients)
        sent = sum(p.stat().st_size for p in (folder / "out.sightline").glob("*.ranks"))
        left = sum(1 for door in doors for _ in (door / "out").iterdir())
        stragglers = told["ranks"]["stragglers"] if told["ranks"] else []
        first = stragglers[0] if stragglers else None
    recorded = sum(node["recorded"] for node in told["nodes"])
    alone = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"{recorded} of {args.ranks} ranks on {args.nodes} nodes in {took:.1f} s")
    print(f"memory: {most[0] >> 20} MB of all, {alone} MB the largest, {idle >> 20} MB idle")
    print("processor time: " + ", ".join(f"{name} {s:.1f} s" for name, s in used.items()))
    print(f"sent: {sent / 1e6:.1f} MB, {sent / max(recorded, 1) / 1e3:.1f} kB a rank; left: {left}")
    print(f"problems: {len(told['problems'])} {told['problems'][:2]}")
    if starts:
        print(f"starts within {(max(starts) - min(starts)) / 1e6:.1f} ms")
    if args.skew:
        known = [
            abs(node["clock_offset_ns"] - ms * 10**6) <= node["clock_uncertainty_ns"]
            for node, ms in zip(told["nodes"], ahead, strict=True)
        ]
        print(f"clocks within what is stated: {sum(known)} of {args.nodes}")
        print(f"stated: {told['clock_uncertainty_ns'] / 1e6:.1f} ms at most")
    if first:
        print(f"first: ranks {first['ranks']}, {first['cause']}; planted: {LATE % args.ranks}")


if __name__ == "__main__":
    main()
