"""`%load_ext sightline`: the magic `%%sightline` records a cell, and shows why it is slow.

    %%sightline
    train_one_epoch(model)

    %%sightline run -o epoch      the session is then in `run`, the recording in epoch.sightline

With PyTorch imported its profiler records the cell, on the GPU, too; else the cell's Python stacks
are sampled.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.core.cleanup import register_cleanup
from sightline.errors import MissingDataError, RequestError, SightlineError

if TYPE_CHECKING:
    from sightline.session import Session

_OUTSIDE = ("IPython", "ipykernel")  # packages that lead into a cell
_NAME = "recorded"  # the variable that holds the session, where no other is named


class _Parser(argparse.ArgumentParser):
    """Its errors are ours: argparse's would end the notebook's kernel."""

    def error(self, message: str) -> Any:
        raise RequestError(f"%%sightline: {message}", hint="%%sightline [NAME] [-o FOLDER]")


def register(shell: Any) -> None:
    """Give an IPython shell the cell magic."""
    shell.register_magic_function(
        lambda line, cell: _run_cell(shell, line, cell), "cell", "sightline"
    )


def _run_cell(shell: Any, line: str, cell: str) -> None:
    """Record the cell, keep its session under the name that was given, and show what it says."""
    parser = _Parser(prog="%%sightline", add_help=False)
    parser.add_argument("name", nargs="?", default=_NAME)
    parser.add_argument("-o", "--output")
    parser.add_argument("--stacks", action="store_true")
    try:
        args = parser.parse_args(shlex.split(line))
        if not args.name.isidentifier():
            raise RequestError(f"{args.name} is not the name of a variable")
        run = _record(shell, cell, args)
        shell.user_ns[args.name] = run
        for value in _choose_shown(run):
            _show(value)
    except SightlineError as error:
        sys.stderr.write(f"sightline: {error}\n")


def _record(shell: Any, cell: str, args: argparse.Namespace) -> Session:
    """The session of a cell that was run, whether it failed or not: IPython shows its error."""
    from sightline.session import open_session

    place = args.output or str(Path(_make_scratch()) / "cell")
    if "torch" not in sys.modules:
        return open_session([str(_sample_cell(shell, cell, place))])
    from sightline.record.inline.timing import profile

    made = profile(place, stacks=args.stacks)
    with made:
        folder = made.folder
        shell.run_cell(cell)
    if folder is None:
        raise MissingDataError(
            "the cell ran unrecorded",
            why="this process is recorded already, or SIGHTLINE_OFF is set",
        )
    return open_session([str(folder)])


def _sample_cell(shell: Any, cell: str, place: str) -> Path:
    """The run folder of a cell whose Python stacks were sampled, without IPython's own frames.

    Where it is known what of the time the cell ran, there are two profiles, as py-spy's are.
    """
    from sightline.core.model import run_folder
    from sightline.record.inline.python_stacks import PythonStacks
    from sightline.record.inline.rank import make_host_mark

    with PythonStacks() as stacks:
        shell.run_cell(cell)
    if not stacks.weights:
        raise MissingDataError("nothing was sampled", why="the cell ran for too short a time")
    try:
        folder = run_folder.make_free_folder(Path(place + run_folder.FOLDER_ENDING).absolute())
        if stacks.ran:
            mark, pid = make_host_mark(), os.getpid()
            stem = f"host-{mark}.{pid}"
            whole = folder / f"{stem}.wall.speedscope.json"
            stacks.write(whole, _OUTSIDE, run_folder.WALL_TIME)
            stacks.write_ran(folder / f"{stem}.cpu.speedscope.json", _OUTSIDE)
            run_folder.write_facts(folder, f"{mark}-{pid}", {"host_mark": mark, "state": "ended"})
        else:
            stacks.write(folder / "cell.speedscope.json", _OUTSIDE)
    except OSError as error:
        raise RequestError(f"cannot write {place}", why=error.strerror) from error
    return folder


def _make_scratch() -> str:
    folder = tempfile.TemporaryDirectory(prefix="sightline-cell-")
    register_cleanup(folder.cleanup)
    return folder.name


def _choose_shown(run: Session) -> list[Any]:
    """Findings; and the stacks where they are all that there is."""
    shown: list[Any] = [run.findings()]
    if run.rows("stack_weights"):
        with contextlib.suppress(SightlineError):
            shown.append(run.flame())
    return shown


def _show(value: Any) -> None:
    importlib.import_module("IPython.display").display(value)
