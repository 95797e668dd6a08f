"""sightline: why is this GPU program slow, what does that cost, and what to change.

    import sightline

    run = sightline.open("trace.json.gz")
    run.ask("breakdown")          # a Polars frame
    run.scan("device_ops")        # a lazy frame over the recorded kernels, copies and fills

And in a program that is to be recorded (docs/record.md), where each is a no-op unless it is:

    import sightline as sl

    with sl.annotate("attention"):
        ...
    sl.step()                     # at the end of each iteration

Everything not named here is private, or documented as extension API in docs/contributing.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.errors import (
    DamagedError,
    InputError,
    MissingDataError,
    RequestError,
    SightlineError,
    StoreError,
    UnknownFormatError,
)

if TYPE_CHECKING:
    from sightline.inline.annotate import annotate, mark
    from sightline.inline.capture import capture
    from sightline.inline.gpu_monitor import gpu_monitor
    from sightline.inline.memory import checkpoint, memory_history
    from sightline.inline.step import step
    from sightline.inline.timing import profile
    from sightline.model.run import Run

__version__ = "0.1.0"

__all__ = [
    "DamagedError",
    "InputError",
    "MissingDataError",
    "RequestError",
    "Run",
    "SightlineError",
    "StoreError",
    "UnknownFormatError",
    "annotate",
    "capture",
    "checkpoint",
    "gpu_monitor",
    "mark",
    "memory_history",
    "open",
    "profile",
    "save",
    "step",
]

# Where each part of the in-code API is; loaded when it is first used.
_INLINE = {
    "annotate": "annotate",
    "mark": "annotate",
    "step": "step",
    "capture": "capture",
    "checkpoint": "memory",
    "memory_history": "memory",
    "gpu_monitor": "gpu_monitor",
    "profile": "timing",
}


def open(*paths: str, keep_identity: bool = False) -> Run:
    """A run made of recordings and stores; each path is a file, a folder or a glob.

    With `keep_identity`, host and user names that a recording holds are kept.
    Raises InputError.
    """
    from sightline.model.declare import ImportOptions
    from sightline.opening.run import open_run

    return open_run(paths, options=ImportOptions(keep_identity=keep_identity))


def save(run: Run, path: str) -> None:
    """Write a run to a store: a folder of Parquet files. Raises StoreError."""
    from pathlib import Path

    from sightline.opening.save import save as save_run

    save_run(run, Path(path))


def __getattr__(name: str) -> object:
    if name == "Run":  # Polars takes 0.15 s to import: not before it is needed
        from sightline.model.run import Run

        return Run
    if name in _INLINE:
        import importlib

        found: object = getattr(importlib.import_module(f"sightline.inline.{_INLINE[name]}"), name)
        globals()[name] = found  # the next use costs no call
        return found
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")
