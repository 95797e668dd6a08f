"""What the in-code API costs: ranges, marks and steps, recorded and not, by either recorder.

    python benchmarks/inline.py [--torch] [--times N]

The compiled recorder and the plain one, N times (default 3) in turn, each in a process of its own;
beside them floors (a call into C that does nothing, a look at the clock) and peers where they are
installed: nvtx's Python package, PyTorch's record_function, neither of them recorded by anything.
Prints the least and the median of all rounds of 10,000, in ns per call without the loop's own time.
With --torch, torch is imported in all (each range then asks whether its profiler runs).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

INSIDE = """
import json, sys, time
torch = None
if "--torch" in sys.argv:
    import torch
import sightline as sl
N = 10_000
works = {}
def work(function):
    works[function.__name__] = function
@work
def empty():
    for _ in range(N):
        pass
@work
def ranges():
    for _ in range(N):
        with sl.annotate("attention"):
            pass
@work
def marks():
    for _ in range(N):
        sl.mark("moment")
@work
def steps():
    for _ in range(N):
        sl.step()
from sightline.record.inline import session, usage
@work
def usages():
    # Every step is counted: what sl.step() takes once each EVERY_NS.
    usage.EVERY_NS = 0
    if (steps := session.state.step) is not None:
        steps._usage._next = 0
    for _ in range(N):
        sl.step()
look = time.perf_counter_ns
@work
def clock():
    for _ in range(N):
        look()
try:
    from sightline._marks import read_nothing
except ImportError:
    pass
else:
    @work
    def nothing():
        for _ in range(N):
            read_nothing()
try:
    import nvtx
except ImportError:
    pass
else:
    @work
    def of_nvtx():
        for _ in range(N):
            with nvtx.annotate("attention"):
                pass
if torch is not None:
    @work
    def of_torch():
        for _ in range(N):
            with torch.profiler.record_function("attention"):
                pass
said = {}
for name, one in works.items():
    said[name] = []
    for _ in range(9):
        began = time.perf_counter_ns()
        one()
        said[name].append((time.perf_counter_ns() - began) / N)
print(json.dumps(said))
"""
ROWS = {
    "ranges": 'with sl.annotate("attention")',
    "marks": 'sl.mark("moment")',
    "steps": "sl.step()",
    "usages": "the same, counters read each time",
    "nothing": "floor: a call into C",
    "clock": "floor: time.perf_counter_ns()",
    "of_nvtx": "peer: nvtx.annotate",
    "of_torch": "peer: record_function",
}


def measure(variables: dict[str, str], words: list[str]) -> dict[str, list[float]]:
    """Rounds of each kind of work in ns per call."""
    env = {k: v for k, v in os.environ.items() if k != "SIGHTLINE_RUN"} | variables
    command = [sys.executable, "-c", INSIDE, *words]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    words = ["--torch"] if args.torch else []
    recorders = {"compiled": {}, "plain": {"SIGHTLINE_RECORDER": "plain"}}
    rounds: dict[tuple[str, str], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.times):
            for recorder, chosen in recorders.items():
                for case, run in (
                    ("not recorded", {}),
                    ("recorded", {"SIGHTLINE_RUN": json.dumps({"folder": folder})}),
                ):
                    kept = rounds.setdefault((recorder, case), {})
                    for name, times in measure({**chosen, **run}, words).items():
                        kept.setdefault(name, []).extend(times)
    print(f"ns per call: least (median); load {os.getloadavg()[0]:.1f}")
    print(f"{'':36}" + "".join(f"{f'{r}, {c}':>24}" for r, c in rounds))
    for name, label in ROWS.items():
        cells = []
        for found in rounds.values():
            if name not in found:
                cells.append("-")
                continue
            least, usual = (f(found[name]) - f(found["empty"]) for f in (min, median))
            cells.append(f"{least:.0f} ({usual:.0f})")
        if set(cells) != {"-"}:
            print(f"{label:36}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
