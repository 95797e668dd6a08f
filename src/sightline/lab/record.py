"""Run one side of an exercise and record it, as a person would: with `sightline run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sightline.errors import RequestError
from sightline.lab.exercises import Exercise


def record_side(exercise: Exercise, side: str, folder: Path, ranks: int | None = None) -> Path:
    """Record into folder/SIDE.sightline; its path.

    Raises RequestError where the exercise has no program, or where that fails.
    """
    program = exercise.find_program(side)
    if program is None:
        raise RequestError(
            f"'{exercise.name}' has nothing to run",
            why="it teaches how to read recordings",
            hint=f"sightline lab show {exercise.name}",
        )
    count = ranks or exercise.ranks
    target = folder / f"{side if ranks is None else f'{side}-{ranks}'}.sightline"
    words = [
        *(sys.executable, "-m", "sightline", "run", "--no-report", *exercise.record),
        *("-o", str(target), "--", *_list_words(program, count, launched=ranks is not None)),
    ]
    done = subprocess.run(  # noqa: S603  # a program of the lab's own
        words, cwd=exercise.folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = [line for line in done.stderr.splitlines() if line.strip()][-3:]
        raise RequestError(
            f"{side} of '{exercise.name}' failed with exit code {done.returncode}",
            why="; ".join(last) or None,
        )
    return target


def _list_words(program: Path, ranks: int, *, launched: bool) -> list[str]:
    """The command, from within the exercise's folder: no path of this machine is recorded."""
    if program.suffix == ".cu":
        built = program.with_suffix("")
        subprocess.run(  # noqa: S603
            ["nvcc", "-O3", "-lineinfo", "-o", str(built), str(program)],  # noqa: S607
            check=True,
        )
        return [f"./{built.name}"]
    if launched or ranks > 1:
        return ["torchrun", "--standalone", "--nproc-per-node", str(ranks), program.name]
    return ["python", program.name]
