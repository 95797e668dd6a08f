"""A day of eight GPUs at one reading a second, as `sightline watch` keeps it: how large, how fast.

    python benchmarks/watch_day.py [--hours 24] [--gpus 8] [--folder FOLDER]

The readings are simulated: what changes does so with noise in every digit that NVML gives (GPM's
shares are doubles), the rest stays. The clock is simulated, too: the writer, its hourly files and
the processes that seal them are those of the command. Prints the size, processor time a round, and
how long questions take: in a process that has read nothing before, and the whole command.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from math import sin
from pathlib import Path

from sightline.core.watched_metrics import METRICS
from sightline.record.monitor.history import HistoryWriter, Limits, start_sealing
from sightline.record.monitor.readings import GPU, Device, Entity, Reading
from sightline.record.monitor.rounds import Round

SECOND = 1_000_000_000
QUESTIONS = {
    "mean power by GPU": "SELECT device_id, avg(power_w) FROM gpus GROUP BY 1",
    "hours under 50 % SM active": "SELECT device_id, count(*) / 3600.0 FROM gpus "
    "WHERE sm_active_pct < 50 GROUP BY 1",
    "power by minute": "SELECT time_ns // 60000000000, avg(power_w), max(power_w) FROM gpus "
    "GROUP BY 1 ORDER BY 1",
    "joules": "SELECT device_id, max(energy_j) - min(energy_j) FROM gpus GROUP BY 1",
    "what happened": "SELECT * FROM events",
}
NOISY = ("graphics active", "SM active", "SM occupancy", "integer active", "tensor active",
         "tensor HMMA active", "DRAM active", "FP32 active", "FP16 active")  # fmt: skip
MOVED = ("PCIe sent", "PCIe received", "NVLink sent", "NVLink received")
SLOW = ("power limit", "corrected ECC errors", "uncorrected ECC errors", "PCIe replays",
        "rows remapped, corrected", "PCIe width", "PCIe generation")  # fmt: skip
STILL = {"tensor DFMA active": 0.0, "tensor IMMA active": 0.0, "FP64 active": 0.0, "XID": 0.0,
         "memory clock": 3201.0, "performance state": 0.0, "memory total": 150e9,
         **{name: 0.0 for name in METRICS if name.startswith("clocks lowered")}}  # fmt: skip


def read_gpu(chance: random.Random, second: int, gpu: int, energy: list[float]) -> dict[str, float]:
    busy = 50 + 40 * sin(second / 300 + gpu)
    power = round(100 + 5 * busy + chance.gauss(0, 8), 3)
    energy[gpu] += power
    told = {
        **STILL,
        "power": power,
        "instantaneous power": round(power + chance.gauss(0, 5), 3),
        "energy": round(energy[gpu], 3),
        "SM clock": 1980.0 - 15 * chance.randrange(8),
        "clock event reasons": 4.0 * (power > 320),
        "temperature": float(round(40 + busy / 4)),
        "memory temperature": float(round(50 + busy / 4)),
        "memory used": 60e9 + 2e6 * round(busy),
        "memory free": 90e9 - 2e6 * round(busy),
        "memory reserved": 600e6,
        "GPU utilization": float(round(min(100, busy + chance.randrange(5)))),
        "memory utilization": float(round(busy / 2)),
    }
    told |= {name: min(100.0, busy * chance.uniform(0.5, 1)) for name in NOISY}
    told |= {name: chance.randrange(10**6) * 1e3 for name in MOVED}
    told["NVLink total"] = told["NVLink sent"] + told["NVLink received"]
    if second % 30 == 0:
        told |= dict.fromkeys(SLOW, 1.0)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp()) / "day"

    def seal(folder: Path, ended: Sequence[Path]) -> None:
        done = start_sealing(folder, ended)
        assert done is not None
        done.wait()

    chance = random.Random(1)
    writer = HistoryWriter(folder, Limits(), 1.0, seal=seal)  # type: ignore[arg-type]
    writer.set_devices([Device(n, "nvidia", "NVIDIA H200") for n in range(args.gpus)])
    # Yesterday, so that no day of it is thinned yet.
    begin = (time.time_ns() // (86_400 * SECOND) - 1) * 86_400 * SECOND
    energy, spent = [0.0] * args.gpus, 0.0
    seconds = round(args.hours * 3600)
    for second in range(seconds):
        at = begin + second * SECOND + chance.randrange(10**6)
        now = Round(at, second * SECOND)
        for gpu in range(args.gpus):
            told = read_gpu(chance, second, gpu, energy)
            now.readings.append(Reading(Entity(GPU, gpu), at, told))
        started = time.process_time()
        writer.write(now)
        spent += time.process_time() - started
    writer.close()
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{args.hours:g} h of {args.gpus} GPUs: {size / 1e6:.1f} MB")
    print(f"writing a round: {spent / seconds * 1e3:.3f} ms of processor time")
    longest = measure_questions(folder)
    if args.folder is None:
        shutil.rmtree(folder)
    print(json.dumps({"megabytes": size / 1e6, "answer_s": longest}))


def measure_questions(folder: Path) -> float:
    """Prints medians of five, and gives the longest of the answers'."""
    longest = 0.0
    ask = (
        "import sys, time; from pathlib import Path\n"
        "from sightline.answer.history_sql import answer_history\n"
        "import duckdb, polars\n"
        "began = time.perf_counter(); answer_history(Path(sys.argv[1]), sys.argv[2])\n"
        "print(time.perf_counter() - began)"
    )
    for name, question in QUESTIONS.items():
        answers, commands = [], []
        for _ in range(5):
            command = [sys.executable, "-c", ask, str(folder), question]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            answers.append(float(done.stdout))
            began = time.perf_counter()
            command = [sys.executable, "-m", "sightline", "sql", str(folder), question]
            subprocess.run(command, capture_output=True, check=True)
            commands.append(time.perf_counter() - began)
        answer, command_s = statistics.median(answers), statistics.median(commands)
        longest = max(longest, answer)
        print(f"{name:<28} {answer:6.3f} s, the whole command {command_s:6.3f} s")
    return longest


if __name__ == "__main__":
    main()
