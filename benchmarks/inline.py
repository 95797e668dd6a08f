"""What the in-code API costs: ranges and steps, recorded and not.

    python benchmarks/inline.py [--torch]

Prints the least and the median of 9 rounds of 10,000, in ns per call, in processes of their own.
With --torch, torch is imported (each range then asks whether its profiler runs).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

INSIDE = """
import json, statistics, sys, time
if "--torch" in sys.argv:
    import torch
import sightline as sl
N = 10_000
def ranges():
    for _ in range(N):
        with sl.annotate("attention"):
            pass
def steps():
    for _ in range(N):
        sl.step()
def marks():
    for _ in range(N):
        sl.mark("moment")
from sightline.inline import usage
def usages():
    # Every step is counted: what sl.step() takes once each EVERY_NS.
    usage.EVERY_NS = 0
    for _ in range(N):
        sl.step()
def empty():
    for _ in range(N):
        pass
said = {}
for work in (empty, ranges, steps, marks, usages):
    rounds = []
    for _ in range(9):
        began = time.perf_counter_ns()
        work()
        rounds.append((time.perf_counter_ns() - began) / N)
    said[work.__name__] = [min(rounds), statistics.median(rounds)]
print(json.dumps(said))
"""


def measured(variables: dict[str, str]) -> dict[str, list[float]]:
    env = {k: v for k, v in os.environ.items() if k != "SIGHTLINE_RUN"} | variables
    words = [sys.executable, "-c", INSIDE, *sys.argv[1:]]
    done = subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        off = measured({})
        on = measured({"SIGHTLINE_RUN": json.dumps({"folder": folder})})
    print(f"{'':<8}{'not recorded':>20}{'recorded':>20}{'ratio':>8}")
    for name in ("ranges", "steps", "marks", "usages"):
        least, usual = (on[name][i] - on["empty"][i] for i in (0, 1))
        free, free_usual = (off[name][i] - off["empty"][i] for i in (0, 1))
        print(
            f"{name:<8}{free:>8.0f} ({free_usual:.0f}) ns{least:>12.0f} ({usual:.0f}) ns"
            f"{least / max(free, 1):>8.1f}"
        )


if __name__ == "__main__":
    main()
