"""What the commands that record share: the run's folder, and the report on what is in it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from sightline.core.foreign_files import hold_folder
from sightline.core.model import run_folder
from sightline.doors.cli._edge import keep_talk, print_screen
from sightline.doors.cli._shared import find_width
from sightline.errors import RequestError


def name_folder(output: str | None, default: str) -> Path:
    """The folder that -o names, or the one of a default name; with its ending."""
    name = (output or default).rstrip("/").removesuffix(run_folder.FOLDER_ENDING)
    return Path(name + run_folder.FOLDER_ENDING).absolute()


def make_folder(folder: Path, *, chosen: bool, join: bool = False, or_else: str = "") -> Path:
    """Make the folder; a name of our own gets a number where it is taken. Raises RequestError.

    `or_else`: what else can be done where the chosen one exists.
    """
    try:
        if not chosen:
            return run_folder.make_free_folder(folder)
        run_folder.make_folder(folder, join=join)
        return folder
    except FileExistsError as error:
        raise RequestError(
            f"cannot record into {show_folder(folder)}",
            why="it exists already and is not empty",
            hint=f"Choose another name with -o{or_else}.",
        ) from error
    except OSError as error:
        raise _refuse(folder, error) from error


def _refuse(folder: Path, error: OSError) -> RequestError:
    return RequestError(
        f"cannot record into {folder}",
        why=(error.strerror or str(error)).lower(),
        hint="Nothing has been run or recorded. Choose a folder that can be written to:  -o",
    )


@contextlib.contextmanager
def hold_made(folder: Path) -> Iterator[Path]:
    """The folder under a path that nobody else can lead elsewhere; in it is the log of what could
    not be told. Raises RequestError.
    """
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(hold_folder(folder))
        except OSError as error:
            raise _refuse(folder, error) from error
        keep_talk(held, f"sightline-{os.getpid()}.log")
        yield held


def remove_recording(held: Path, folder: Path) -> None:
    """Remove a recording of nothing: what `hold_made` holds, and then its name."""
    for inside in held.iterdir():
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside, ignore_errors=True)
        else:
            inside.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def remove_empty(folder: Path) -> None:
    """A folder that nothing came into is of no use."""
    with contextlib.suppress(OSError):
        for inside in (folder / "server", folder):
            if inside.is_dir():
                inside.rmdir()


def show_folder(folder: Path) -> Path:
    """The folder as seen from here, so that what is printed can be typed."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def print_report(folder: Path, out: TextIO, *, page: bool = False) -> None:
    """The screen on `out`; `page`: the page beside the folder, too. Raises SightlineError."""
    from sightline.session import open_session
    from sightline.views.terminal.screen import render_screen

    run = open_session([str(show_folder(folder))])
    answer = run.answer()
    width = find_width(out)
    print_screen(render_screen(answer, width), out, width)
    if page:
        from sightline.doors.cli.report import write_page_beside

        write_page_beside(run, answer, [str(folder)])


def name_again(folder: Path) -> str:
    """The command that shows the report once more."""
    import shlex

    return f"sightline report {shlex.quote(str(show_folder(folder)))}"
