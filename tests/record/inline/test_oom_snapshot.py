"""A program whose allocation fails leaves a snapshot, and fails as it would have."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import sightline as sl
from support import recording
from support.snapshots import alloc, entry, frames, segment, snapshot

# The parts of torch that the allocator's observer goes through; an allocation of over 1 kB fails.
TORCH = """
import types
_later, _observers = [], []
class OutOfMemoryError(RuntimeError):
    pass
def _start(call):
    call()
def _record(**options):
    assert options["max_entries"] > 0
def _dump(path):
    with open(path, "wb") as file:
        file.write({data!r})
def empty(size):
    if size > 1024:
        for observer in _observers:
            observer(0, size, 1 << 30, 4096)
        raise OutOfMemoryError("CUDA out of memory")
memory = types.SimpleNamespace(_record_memory_history=_record, _dump_snapshot=_dump)
cuda = types.SimpleNamespace(_lazy_call=_start, memory=memory)
_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=_observers.append)
"""
PROGRAM = """
import torch
for size in (4096, 2048):
    try:
        torch.empty(size)
    except torch.OutOfMemoryError as error:
        print("failed:", error)
torch.empty(8192)
"""


def run(folder: Path, dump: bytes) -> tuple[Path, str, str, int]:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(TORCH.format(data=dump))
    (folder / "train.py").write_text(PROGRAM)
    done = recording.run(
        "--oom-snapshot", "--backend", "nvml", "-o", "t", "--no-report", "--", sys.executable,
        "train.py", cwd=folder, env=recording.clean(PYTHONPATH=str(folder)),
    )  # fmt: skip
    return folder / "t.sightline", done.stdout, done.stderr, done.returncode


def test_the_first_failure_leaves_a_snapshot(tmp_path: Path) -> None:
    stack = frames("train.py:5:<module>")
    failed = entry("oom", 0, 4096, 9, stack, device_free=512)
    held = snapshot([alloc(64, 512, 1, stack), failed], [segment(64, (512, "active_allocated"))])
    folder, out, err, code = run(tmp_path, pickle.dumps(held))
    assert out == "failed: CUDA out of memory\n" * 2
    assert (code, "OutOfMemoryError: CUDA out of memory" in err) == (1, True)
    assert len(list(folder.glob("*.memory-oom-0.pickle"))) == 1
    assert not list(folder.glob(".part-*"))
    row = sl.open(str(folder)).ask("out_of_memory").row(0, named=True)
    assert (row["asked_bytes"], row["device_free_bytes"], row["place"]) == (
        4096,
        512,
        "<module> (train.py:5)",
    )


def test_without_the_option_nothing_is_watched(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH.format(data=b""))
    (tmp_path / "train.py").write_text("import torch\nprint(len(torch._observers))")
    done = recording.run(
        "--backend", "nvml", "-o", "t", "--no-report", "--", sys.executable, "train.py",
        cwd=tmp_path, env=recording.clean(PYTHONPATH=str(tmp_path)),
    )  # fmt: skip
    assert done.stdout == "0\n", done.stderr
