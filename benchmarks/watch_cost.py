"""What `sightline watch` costs while it runs: processor time and memory, on a fake machine.

    python benchmarks/watch_cost.py [--seconds 60]

Eight GPUs with all metrics of an H200 and two processes each, by the fake NVML of the tests (its
answers cost less than a driver's: the figure is ours alone), one round a second, with a history,
the exporter scraped every five seconds, and the policies that ship. Also the processes that seal.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import fake_nvml as fake

TICKS = os.sysconf("SC_CLK_TCK")


def read_cost(pid: int) -> tuple[float, float]:
    """Seconds of processor time of the process itself, and its resident MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, pages * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    machine = fake.make_eight()
    for place, device in enumerate(machine.devices):
        device.processes += [fake.Process(10_000 + 10 * place + n, 30 << 30, sm=50) for n in (0, 1)]
    library = fake.build_library(folder)
    env = {**os.environ, **fake.list_variables(machine, library, folder)}
    port = 9471
    command = [sys.executable, "-m", "sightline", "watch", "-o", str(folder / "history"),
               "--metrics", str(port), "--policy", "default"]  # fmt: skip
    child = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    time.sleep(5)
    begun, _ = read_cost(child.pid)
    largest = 0.0
    for second in range(args.seconds):
        time.sleep(1)
        if second % 5 == 0:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()
        largest = max(largest, read_cost(child.pid)[1])
    spent = read_cost(child.pid)[0] - begun
    child.send_signal(signal.SIGTERM)
    child.wait()
    print(f"processor time: {100 * spent / args.seconds:.2f} % of a core")
    print(f"resident memory: {largest:.1f} MB")


if __name__ == "__main__":
    main()
