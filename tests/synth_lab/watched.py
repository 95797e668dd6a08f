"""GPUs as monitors see them: a log of nvidia-smi, and a history of `sightline watch`.

Powers and clocks are ours, of the order of an H100 that trains or idles.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from support.histories import Phase, train, write_history

GPU = "NVIDIA H100 80GB HBM3"
PERIOD_S = 30
BEGIN = datetime(2026, 1, 5, 8)
COLUMNS = (
    "timestamp, index, name, power.draw [W], utilization.gpu [%], clocks.current.sm [MHz], "
    "memory.used [MiB], temperature.gpu"
)
# Seconds, W, % use, MHz, MiB, °C: training; the notebook is left open; the notebook is closed.
MORNING = (
    (1_800, 610, 98, 1_755, 61_440, 66),
    (3_600, 118, 0, 1_980, 61_440, 42),
    (900, 76, 0, 345, 4, 36),
)
HOUR = 3_600


def write_log(target: Path) -> None:
    """What `nvidia-smi --query-gpu=... --format=csv -l 30` writes in a morning."""
    lines, now = [COLUMNS], BEGIN
    for seconds, watts, use, clock, memory, heat in MORNING:
        for _ in range(seconds // PERIOD_S):
            now += timedelta(seconds=PERIOD_S)
            lines.append(
                f"{now:%Y/%m/%d %H:%M:%S}.000, 0, {GPU}, {watts:.2f} W, {use} %, {clock} MHz, "
                f"{memory} MiB, {heat}"
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_two_limits(target: Path) -> None:
    """An hour of the same training at 700 W, and one at 450 W."""
    high = train(650.0, 1_800.0, power_limit=700.0)
    low = train(420.0, 1_500.0, power_limit=450.0)
    low["DRAM active"] = high["DRAM active"] * low["SM clock"] / high["SM clock"]
    phases = [Phase(HOUR, {0: high}), Phase(HOUR, {0: low})]
    write_history(target, phases, period_s=PERIOD_S, name=GPU)
    (target / "watch.lock").unlink(missing_ok=True)
