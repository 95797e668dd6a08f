"""What a capture costs the job that it records: PyTorch's steps before it, in it and after it.

    python benchmarks/fleet_steps.py --ranks 8 --captures 5

Ranks of an unmodified training loop (Gloo, one rank late), a daemon and `sightline capture`, all
processes of one machine. Before the captures as many stretches of the same length are left alone:
how far their medians lie apart is what the machine does by itself (A/A). A step's processor time is
that of rank 0's process; its wall is the job's, since ranks wait for each other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median

from fleet import run_daemon

LATE, USUAL_S, LATE_S = 1, 0.020, 0.060
LOOP = """\
import os, sys, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank,
                        world_size=int(os.environ["WORLD_SIZE"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
log = open(sys.argv[1] + ".steps", "w", buffering=1) if rank == 0 else open(os.devnull, "w")
print("ready", flush=True)
while True:
    log.write(f"{time.time()} {time.process_time()}\\n")
    optimizer.zero_grad(); model(torch.randn(16, 64)).sum().backward(); optimizer.step()
    time.sleep(PAUSE)
"""


def train(stack: ExitStack, folder: Path, door: Path, ranks: int) -> Path:
    """Begin the job; the log of its steps: wall and processor time of rank 0, s, at each begin."""
    meeting, theirs = folder / "meet", folder / "theirs"
    theirs.mkdir()
    running = []
    for rank in range(ranks):
        loop = LOOP.replace("PAUSE", str(LATE_S if rank == LATE else USUAL_S))
        env = {**os.environ, "KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(door),
               "KINETO_ONDEMAND_TRACE_DIR": str(theirs), "OMP_NUM_THREADS": "1",
               "RANK": str(rank), "WORLD_SIZE": str(ranks)}  # fmt: skip
        words = [sys.executable, "-c", loop, str(meeting)]
        running.append(
            subprocess.Popen(
                words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        )
        stack.callback(running[-1].kill)
    for process in running:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("a rank did not begin: is torch installed?")
    return Path(f"{meeting}.steps")


def read_steps(log: Path, begin_s: float, end_s: float) -> tuple[list[float], list[float]]:
    """Wall and processor time of the steps that lie between two moments, s."""
    rows = [tuple(map(float, line.split())) for line in log.read_text().splitlines()[:-1]]
    kept = [row for row in rows if begin_s <= row[0] <= end_s]
    pairs = list(pairwise(kept))
    return [b[0] - a[0] for a, b in pairs], [b[1] - a[1] for a, b in pairs]


def describe(name: str, stretches: list[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """Print the medians of some stretches; of wall and processor time, s."""
    wall = [median(steps) for steps, _ in stretches]
    used = [median(steps) for _, steps in stretches]
    count = sum(len(steps) for steps, _ in stretches)
    print(
        f"{name}: {count} steps of {1e3 * median(wall):.2f} ms "
        f"({1e3 * min(wall):.2f} to {1e3 * max(wall):.2f}), "
        f"processor {1e3 * median(used):.2f} ms ({1e3 * min(used):.2f} to {1e3 * max(used):.2f})"
    )
    return median(wall), median(used)


def main() -> None:
    """Print what steps take alone, in captures and between them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--captures", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--stretch", type=float, default=10.0, help="left alone, s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="f") as place, ExitStack() as stack:
        folder = Path(place)
        door = folder / "n"
        stack.enter_context(run_daemon(door, {}))
        log = train(stack, folder, door, args.ranks)
        time.sleep(12)  # until all have asked, and are warm
        alone, inside, after, apart, first = [], [], [], [], []
        for _ in range(args.captures):
            begin = time.time()
            time.sleep(args.stretch)
            alone.append(read_steps(log, begin, time.time()))
        for number in range(args.captures):
            words = ["capture", "--socket", f"{door}/s", "--for", f"{args.seconds:g}s", "--json"]
            command = [sys.executable, "-m", "sightline", *words, "-o", f"{folder}/out{number}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(done.stderr)
            told = json.loads(done.stdout)
            if told["problems"]:
                print(f"problems: {told['problems'][:2]}")
            (kept,) = [p for p in door.glob("kept/*/state.json") if is_newest(p)]
            start = json.loads(kept.read_text())["start_ms"] / 1000
            inside.append(read_steps(log, start, start + args.seconds))
            starts = [read_start_ns(p) for p in kept.parent.glob("run.sightline/rank*.json*")]
            apart.append((max(starts) - min(starts)) / 1e6)
            found = told["ranks"]["stragglers"] if told["ranks"] else []
            first.append(found[0]["ranks"] if found else None)
            time.sleep(5)  # its fingerprint is made
            begin = time.time()
            time.sleep(args.stretch)
            after.append(read_steps(log, begin, time.time()))
        left = sum(1 for _ in (folder / "theirs").iterdir())
    before, used = describe("alone", alone)
    within, within_used = describe("inside", inside)
    behind, behind_used = describe("after", after)
    spread = [median(steps) / before - 1 for steps, _ in alone]
    print(f"A/A: stretches alone lie {100 * min(spread):+.1f} to {100 * max(spread):+.1f} % apart")
    print(f"after: wall {100 * (behind / before - 1):+.1f} %, "
          f"processor {100 * (behind_used / used - 1):+.1f} %")  # fmt: skip
    print(f"inside: wall {100 * (within / before - 1):+.1f} %, "
          f"processor {100 * (within_used / used - 1):+.1f} %")  # fmt: skip
    print(f"starts within {median(apart):.1f} ms ({max(apart):.1f} at worst)")
    print(f"first: {first}; planted: {[LATE]}; left: {left}")


def read_start_ns(trace: Path) -> int:
    """When the profiler began: its own event of that, which lies before all others."""
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt") as file:
        told = json.load(file)
    (start,) = (e["ts"] for e in told["traceEvents"] if e["name"].startswith("Iteration Start"))
    return int(told.get("baseTimeNanoseconds", 0)) + round(start * 1000)


def is_newest(state: Path) -> bool:
    """Whether no capture beside it is younger."""
    others = state.parent.parent.glob("*/state.json")
    return not any(other.stat().st_mtime_ns > state.stat().st_mtime_ns for other in others)


if __name__ == "__main__":
    main()
