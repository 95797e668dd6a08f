"""`on_trace_ready=sightline.trace_handler("runs/")`: traces of PyTorch's profiler, ready to open.

In the place of `torch.profiler.tensorboard_trace_handler`, whose arguments it takes:

    runs/step-000012/rank0.pt.trace.json.gz    one folder for each capture, a file for each rank

`sightline runs/` opens it. The last `keep` captures of a process stay, and the host's name and the
folder's path are blanked in each. Nothing that goes wrong here ends the training.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.record.inline.rank import find_identity, make_host_mark
from sightline.record.inline.session import tell_person
from sightline.record.inline.torch_profiler import without_names

ENDING = ".pt.trace.json.gz"  # as TensorBoard's plug-in, and everyone after it, looks for
# The training waits for it: 0.33 s for a trace of 56 MB; the fastest level takes 0.14 s and leaves
# half as much again, the best 1.7 s for a tenth less.
_LEVEL = 6


def trace_handler(
    dir_name: str | os.PathLike[str],
    worker_name: str | None = None,
    use_gzip: bool = True,
    *,
    keep: int = 1,
) -> Callable[[Any], None]:
    """A function for `on_trace_ready`, which writes each trace and keeps the last ones.

    `worker_name` is how the file is called; by default by its rank, or else its host and process.
    `keep` is how many stay, 1 or more: with 1, `sightline DIR` opens the capture; of several each
    is opened by its own folder.
    Raises ValueError where `keep` is less than 1.
    """
    if keep < 1:
        raise ValueError("keep must be 1 or more")
    folder, written = Path(dir_name), list[Path]()

    def write(profiler: Any) -> None:
        try:
            path = _write(profiler, folder, len(written), worker_name, use_gzip)
        except Exception as error:  # whatever torch or the disk says: the training goes on
            tell_person(f"the trace could not be written: {error}")
            return
        if path not in written:
            written.append(path)
        while len(written) > keep:
            _remove(written.pop(0))

    return write


def _write(
    profiler: Any, folder: Path, count: int, worker_name: str | None, use_gzip: bool
) -> Path:
    number = getattr(profiler, "step_num", count)
    place = folder / f"step-{number:06d}"
    place.mkdir(parents=True, exist_ok=True)
    ending = ENDING if use_gzip else ENDING.removesuffix(".gz")
    path = place / f"{worker_name or _name_worker()}{ending}"
    # Hidden from whoever opens the folder meanwhile, and there under its name once it is whole.
    part = place / f".part-{os.getpid()}.json"
    packed = part.with_suffix(".gz")
    try:
        profiler.export_chrome_trace(str(part))
        without_names(part)
        if use_gzip:
            with part.open("rb") as source, gzip.open(packed, "wb", _LEVEL) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            packed.replace(path)
        else:
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
        packed.unlink(missing_ok=True)
    return path


def _name_worker() -> str:
    rank = find_identity().rank
    return f"rank{rank}" if rank is not None else f"proc-{make_host_mark()}-{os.getpid()}"


def _remove(path: Path) -> None:
    """Remove a trace of our own, and its folder once no rank has one in it."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()
