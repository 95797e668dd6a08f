"""sightline: why is this GPU program slow, what does that cost, and what to change.

    import sightline

    run = sightline.open("trace.json.gz")
    sightline.findings(run)       # why it is slow, the largest gain first
    run.report()                  # the whole first screen, as data
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

from collections.abc import Sequence
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
from sightline.version import __version__ as __version__

if TYPE_CHECKING:
    from sightline.inline.annotate import annotate, mark
    from sightline.inline.capture import capture
    from sightline.inline.gpu_monitor import gpu_monitor
    from sightline.inline.memory import checkpoint, memory_history
    from sightline.inline.step import step
    from sightline.inline.timing import profile
    from sightline.model.declare import Finding
    from sightline.model.run import Run


__all__ = [
    "DamagedError",
    "Finding",
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
    "findings",
    "gpu_monitor",
    "mark",
    "memory_history",
    "open",
    "profile",
    "save",
    "step",
]

# Where each name is; loaded when it is first used, since Polars takes 0.15 s to import.
_PLACES = {
    "Finding": "model.declare",
    "Run": "model.run",
    "annotate": "inline.annotate",
    "mark": "inline.annotate",
    "step": "inline.step",
    "capture": "inline.capture",
    "checkpoint": "inline.memory",
    "memory_history": "inline.memory",
    "gpu_monitor": "inline.gpu_monitor",
    "profile": "inline.timing",
}


def open(*paths: str, keep_identity: bool = False) -> Run:
    """A run made of recordings and stores; each path is a file, a folder or a glob.

    With `keep_identity`, host and user names that a recording holds are kept.
    Raises InputError.
    """
    from sightline.model.declare import ImportOptions
    from sightline.opening.run import open_run

    return open_run(paths, options=ImportOptions(keep_identity=keep_identity))


def findings(run: Run, *, rules: Sequence[str] = (), vendor: bool = False) -> list[Finding]:
    """Why the program is slow: what all rules find, the largest gain first, abstentions last.

    `rules` are files or folders of rules of your own (docs/own-rules.md); `vendor` asks those that
    are named after `nsys analyze`, too. Raises InputError where a rule of your own is wrong.
    """
    from sightline.rules.custom.facts import load_checked_rules
    from sightline.rules.diagnose import diagnose_run

    own = load_checked_rules(list(rules)) if rules else []
    return diagnose_run(run, own, vendor=vendor)


def save(run: Run, path: str) -> None:
    """Write a run to a store: a folder of Parquet files. Raises StoreError."""
    from pathlib import Path

    from sightline.opening.save import save_run

    save_run(run, Path(path))


def __getattr__(name: str) -> object:
    if name in _PLACES:
        import importlib

        found: object = getattr(importlib.import_module(f"sightline.{_PLACES[name]}"), name)
        globals()[name] = found  # the next use costs no call
        return found
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")
