"""A snapshot of PyTorch's GPU memory when an allocation fails, of a program that is not changed.

The allocator calls an observer before it raises (c10::cuda::CUDACachingAllocator,
attachOutOfMemoryObserver). The first failure of a process is kept: a program that tries smaller and
smaller batches fails often, and each snapshot takes time.

Every error in here ends the recording and never the program.
"""

from __future__ import annotations

import os
from typing import Any

from sightline.record.inline import session
from sightline.record.inline.session import state

# Enough for the steps before the failure; PyTorch keeps an entry and its frames in about 1 kB.
MAX_ENTRIES = 200_000


def at_import(torch: Any) -> None:
    """torch has just been imported: watch its allocator from the first use of a GPU on."""
    if not state.on or not state.plan.get("oom_snapshot"):
        return
    torch.cuda._lazy_call(lambda: _watch(torch))


def _watch(torch: Any) -> None:
    kept: list[str] = []

    def observe(device: int, asked: int, total: int, free: int) -> None:
        if kept or state.folder is None:
            return
        kept.append(f"{session.name_files()}.memory-oom-0.pickle")
        _guarded(lambda: _dump(torch, kept[0]))

    def attach() -> None:
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES, stacks="python")
        torch._C._cuda_attach_out_of_memory_observer(observe)

    _guarded(attach)


def _dump(torch: Any, name: str) -> None:
    assert state.folder is not None
    part = state.folder / f".part-{os.getpid()}-{name}"
    try:
        torch.cuda.memory._dump_snapshot(str(part))
        part.replace(state.folder / name)
    finally:
        part.unlink(missing_ok=True)


def _guarded(work: Any) -> None:
    try:
        work()
    except Exception as error:  # whatever torch raises: the program goes on
        file = session.open_recorder()
        if file is not None:
            file.fact(oom_snapshot_failed=f"{type(error).__name__}: {error}"[:500])
