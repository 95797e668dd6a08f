"""sightline: why is this GPU program slow, what does that cost, and what to change.

    import sightline

    run = sightline.open("trace.json.gz")
    run.findings()                # why it is slow, the largest gain first
    run.explain("launch-bound")   # what a rule looks for, and what to do
    run.report()                  # the whole first screen, as data
    run.ask("breakdown")          # a Polars frame
    run.scan("device_ops")        # a lazy frame over the recorded kernels, copies and memsets

And in a program that is to be recorded (docs/record.md), where each is a no-op unless it is:

    import sightline as sl

    with sl.annotate("attention"):
        ...
    sl.step()                     # at the end of each iteration

Everything not named here is private, or documented as extension API in docs/contributing.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

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

# Checkers take this name for true; typing's own costs more to import than all else here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from sightline.core.model.declare import Finding
    from sightline.core.model.run import Run
    from sightline.record.inline.annotate import annotate, mark
    from sightline.record.inline.capture import capture
    from sightline.record.inline.gpu_monitor import gpu_monitor
    from sightline.record.inline.listen import listen
    from sightline.record.inline.memory import checkpoint, memory_history
    from sightline.record.inline.step import step
    from sightline.record.inline.timing import profile
    from sightline.record.inline.trace_handler import trace_handler
    from sightline.session import Session


__all__ = [
    "DamagedError",
    "Finding",
    "InputError",
    "MissingDataError",
    "RequestError",
    "Run",
    "Session",
    "SightlineError",
    "StoreError",
    "UnknownFormatError",
    "annotate",
    "capture",
    "checkpoint",
    "explain",
    "findings",
    "gpu_monitor",
    "listen",
    "mark",
    "memory_history",
    "open",
    "profile",
    "save",
    "step",
    "trace_handler",
]

# Where each name is; loaded when it is first used, since Polars takes 0.15 s to import.
_PLACES = {
    "Finding": "core.model.declare",
    "Run": "core.model.run",
    "Session": "session",
    "annotate": "record.inline.annotate",
    "mark": "record.inline.annotate",
    "step": "record.inline.step",
    "capture": "record.inline.capture",
    "checkpoint": "record.inline.memory",
    "memory_history": "record.inline.memory",
    "gpu_monitor": "record.inline.gpu_monitor",
    "listen": "record.inline.listen",
    "profile": "record.inline.timing",
    "trace_handler": "record.inline.trace_handler",
}


def open(
    *paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    window: str | None = None,
    keep_identity: bool = False,
    same_job: bool = False,
) -> Session:
    """A run made of recordings and stores; each path is a file, a folder or a glob.

    Several may be given one by one or as a list. `window` is the part of the timeline that answers
    are about: 'steady', 'step:N', or a range such as '10ms..25ms'. With `keep_identity`, host and
    user names that a recording holds are kept. Recordings of different jobs are an error, unless
    `same_job` says that they are of one. Raises InputError.

        >>> sightline.open("trace.json.gz")
        <sightline run: trace.json.gz · PyTorch profiler · ... · 95 GPU operations · ...>
        >>> sightline.open("no.json")
        Traceback (most recent call last):
        sightline.errors.InputError: ...
    """
    from sightline.core.model.declare import ImportOptions
    from sightline.session import open_session

    names = [name for given in paths for name in _list_paths(given)]
    if not names:
        raise InputError("no recording is named", hint='sightline.open("trace.json.gz")')
    options = ImportOptions(keep_identity=keep_identity)
    return open_session(names, window=window, options=options, same_job=same_job)


def _list_paths(given: object) -> list[str]:
    """One path as a list of one; a list of paths as it is. Raises InputError for anything else."""
    if isinstance(given, (str, os.PathLike)):
        return [str(os.fspath(given))]
    if isinstance(given, Iterable) and not isinstance(given, bytes):
        return [path for one in given for path in _list_paths(one)]
    raise InputError(
        f"{given!r} is not a path", hint="Give a string, a pathlib.Path, or a list of them."
    )


def findings(run: Run, *, rules: Sequence[str] = (), vendor: bool = False) -> list[Finding]:
    """Why the program is slow: what all rules find, the largest gain first, abstentions last.

    `rules` are files or folders of rules of your own (docs/own-rules.md); `vendor` asks those that
    are named after `nsys analyze`, too. Raises InputError where a rule of your own is wrong.

        >>> [(found.rule, found.gain_ns) for found in sightline.findings(run)]
        [('dataloader-starved', 11070940), ('h2d-bound', 180047), ('clock-throttled', None)]
    """
    from sightline.session import Session

    return Session.of(run).findings(rules=rules, vendor=vendor)


def save(run: Run, path: str) -> None:
    """Write a run to a store: a folder of Parquet files. Raises StoreError.

    >>> sightline.save(run, "kept.sightline")
    >>> sightline.open("kept.sightline").rows("device_ops")
    95
    """
    from pathlib import Path

    from sightline.opening.save import save_run

    save_run(run, Path(path))


def explain(name: str, *, rules: Sequence[str] = ()) -> str:
    """The page of a rule or an analysis: what it looks for, from where on, and what to do.

    `rules` are files or folders of rules of your own. Raises RequestError for an unknown name.

        >>> sightline.explain("launch-bound").splitlines()[0]
        'The device finishes each operation before the host has launched the next one.'
    """
    from sightline.session import explain as explain_name

    return explain_name(name, rules=rules)


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext sightline` calls: gives notebooks the cell magic `%%sightline`."""
    from sightline.doors.notebook import register

    register(shell)


def __dir__() -> list[str]:
    """The public names, and nothing that only stands here to be called by them."""
    return sorted([*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__"])


def __getattr__(name: str) -> object:
    if name in _PLACES:
        import importlib

        found: object = getattr(importlib.import_module(f"sightline.{_PLACES[name]}"), name)
        globals()[name] = found  # the next use costs no call
        return found
    raise AttributeError(f"module 'sightline' has no attribute '{name}'")
