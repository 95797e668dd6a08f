"""Run folders with a trace and samples of the CPU's stacks, on one clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import sightline
from sightline.core.model.run import Run
from sightline.core.model.run_folder import write_facts
from sightline.core.model.stack_file import RECORD, StackWriter
from support.traces import PID

MARK = "0123abcd"
PERIOD_NS = 10_000
FRAMES: list[Any] = [
    ["native", "main", None, "/bin/python"], ["python", "train_step", "/t.py", None],
    ["native", "cudaLaunchKernel", None, "/lib/libcudart.so.13"],
    ["native", "load_batch", None, "/lib/libdata.so"],
]  # fmt: skip
# main > train_step > libcudart; main > load_batch; main alone
NODES = [(-1, 0), (0, 1), (1, 2), (0, 3)]
IN_LAUNCH, LOADING, MAIN = 2, 3, 0


def opened(
    folder: Path,
    samples: list[tuple[int, int, int]],
    events: list[Any],
    frames: list[Any] = FRAMES,
    nodes: list[tuple[int, int]] = NODES,
) -> Run:
    """A run folder with a trace and samples: (µs, thread, node), on one clock."""
    place = folder / "run.sightline"
    place.mkdir()
    write_facts(place, f"{MARK}-1", {"host_mark": MARK})
    trace = place / f"rank0-{MARK}-{PID}.torch-0.json"
    trace.write_text(json.dumps({"traceEvents": events}))
    writer = StackWriter(place / f"host-{MARK}.{PID}.cpu.stacks", 0)
    writer.write_facts({"period_ns": PERIOD_NS, "clock": [[0, 0]]})
    writer.write_frames(0, frames)
    writer.write_nodes(nodes)
    records = [(1000 * at, PID, tid, node, 0, 0) for at, tid, node in samples]
    writer.write_samples(np.array(records, RECORD))
    writer.close()
    return sightline.open(str(place))
