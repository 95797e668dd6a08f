"""Flight recorder dumps: what each rank asked for, as PyTorch writes it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sightline
from sightline.core.model.run import Run

EPOCH = 1_758_610_505_000_000_000


def entry(
    sequence: int, op: str = "all_reduce", *, done: bool = False, line: int = 13, **told: Any
) -> dict[str, Any]:
    """A record of the group "0"; the program's own frame is behind two of PyTorch's."""
    return {
        "frames": [
            {"name": op, "filename": "/x/site-packages/torch/distributed/c10d.py", "line": 1},
            {"name": "step", "filename": "train.py", "line": line},
        ],
        "record_id": sequence,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": EPOCH + sequence,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": False,
        **told,
    }


def dump(entries: Sequence[dict[str, Any]], *, ranks: Sequence[int]) -> dict[str, Any]:
    group = {"name": "0", "desc": "default_pg", "ranks": str(list(ranks))}
    return {"version": "2.9", "pg_config": {"0": group}, "pg_status": {}, "entries": list(entries)}


def write_dumps(
    folder: Path, *entries: Sequence[dict[str, Any]] | None, as_json: bool = False
) -> list[str]:
    """A dump of each rank; None where a rank left none."""
    paths = []
    for rank, own in enumerate(entries):
        if own is None:
            continue
        document = dump(own, ranks=range(len(entries)))
        path = folder / f"dump_{rank}"
        path.write_bytes(
            json.dumps(document).encode() if as_json else pickle.dumps(document, protocol=2)
        )
        paths.append(str(path))
    return paths


def opened_dumps(
    folder: Path, *entries: Sequence[dict[str, Any]] | None, as_json: bool = False
) -> Run:
    """The run of a dump for each rank."""
    return sightline.open(*write_dumps(folder, *entries, as_json=as_json))
