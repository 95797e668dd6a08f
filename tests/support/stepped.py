"""A program without a device that marks its steps, as `sightline run` leaves it: times are chosen.

Steps of equal length follow each other from time 0 on. Of some, PyTorch's profiler recorded the
operators, at the same places in each; at the ends of all, the counters of the operating system rose
by the same amounts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import sightline
from sightline.core.model import event_file as f
from sightline.core.model.run import Run
from sightline.core.model.usage_metrics import COMPUTE_THREADS, UNITS, USABLE_CPUS

MS = 1_000_000
PID = 4711
Operator = tuple[str, int, int]  # name, start in the step, end, ns


def write_program(
    folder: Path,
    *,
    step_ns: int,
    steps: int = 20,
    recorded: range = range(10, 16),
    operators: Sequence[Operator] | Mapping[int, Sequence[Operator]] = (),
    elsewhere: Sequence[Operator] = (),
    slower_ns: int | Mapping[int, int] = 0,
    rises: Mapping[str, int] | None = None,
    threads: int = 1,
    cpus: int = 2,
    rank: int | None = None,
) -> Run:
    """The run of such a folder, to which several ranks can be written.

    `recorded` steps are longer by `slower_ns`. That, and `operators`, are the same in each of them,
    or given by the step's number; another thread does what is `elsewhere`. `rises` says by how much
    each counter rises in each step.
    """
    folder.mkdir(exist_ok=True)
    marks, events, at = [], [], 0
    for number in range(steps):
        slower = slower_ns.get(number, 0) if isinstance(slower_ns, Mapping) else slower_ns
        end = at + step_ns + (slower if number in recorded else 0)
        if number in recorded:
            these = operators.get(number, ()) if isinstance(operators, Mapping) else operators
            events += [_operator(name, at + begin, at + stop) for name, begin, stop in these]
            events += [
                {**_operator(name, at + begin, at + stop), "tid": PID + 1}
                for name, begin, stop in elsewhere
            ]
        marks.append((at, end))
        at = end
    stem = f"proc-aaaaaaaa-{PID}" if rank is None else f"rank{rank}-aaaaaaaa-{PID + rank}"
    (folder / f"{stem}.events").write_bytes(_events(marks, rises or {}, threads, cpus))
    trace = {"schemaVersion": 1, "traceEvents": events}
    (folder / f"{stem}.torch-0.json").write_text(json.dumps(trace))
    return sightline.open(str(folder))


def _operator(name: str, start: int, end: int) -> dict[str, object]:
    cat = "python_function" if ".py(" in name or name.startswith("<") else "cpu_op"
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": PID, "args": {}, **times}


def _events(
    marks: Sequence[tuple[int, int]], rises: Mapping[str, int], threads: int, cpus: int
) -> bytes:
    slots = [f.HEADER.pack(f.MAGIC, f.VERSION, PID, 0)]
    names: dict[str, int] = {}

    def name(text: str) -> int:
        if text not in names:
            names[text] = number = len(names) + 1
            data = text.encode()
            for part, at in enumerate(range(0, len(data), f.TEXT_BYTES)):
                piece = data[at : at + f.TEXT_BYTES]
                slots.append(f.TEXT.pack(number, part, len(piece), piece, f.NAME))
        return names[text]

    slots.append(b"")  # the status, which says how many there are
    slots.append(f.EVENT.pack(0, 0, 0, PID, 0, 0, f.NO_DEVICE, f.CLOCK))
    for number, (start, end) in enumerate(marks):
        step = name("ProfilerStep#")
        slots.append(f.EVENT.pack(start, end, step, PID, number, 0, f.NO_DEVICE, f.STEP))
        samples = {
            f"{key} [{unit}]" if (unit := UNITS[key]) else key: rise * (number + 1)
            for key, rise in rises.items()
        }
        if not number:
            samples |= {USABLE_CPUS: cpus, COMPUTE_THREADS: threads}
        for key, value in samples.items():
            metric = name(key)
            slots.append(f.COUNTER.pack(end, value, metric, PID, 0, 0, f.NO_DEVICE, f.SAMPLE))
    slots[1] = f.STATUS.pack(f.CLOSED, 0, 0, len(slots), 0, 0, 0, f.STATE)
    return b"".join(slots)
