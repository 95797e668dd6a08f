"""Run one side of an exercise and record it, as a person would: with `sightline run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
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
    if program.suffix == ".cu":
        command, place = [f"./{_compile(program, folder).name}"], folder
    else:
        launched = count > 1 or ranks is not None
        command = _list_words(program, count, exercise.launcher if launched else None)
        place = exercise.folder
    words = [
        *(sys.executable, "-m", "sightline", "run", "--no-report", *exercise.record),
        *("-o", str(target), "--", *command),
    ]
    done = _run(words, place, exercise.environment)
    if done.returncode != 0:
        raise _explain(f"{side} of '{exercise.name}'", done)
    return target


def _compile(program: Path, folder: Path) -> Path:
    """A CUDA program, built beside its recording: the lab itself may not be written to."""
    built = folder / program.stem
    done = _run(["nvcc", "-O3", "-lineinfo", "-o", str(built), str(program)], folder)
    if done.returncode != 0:
        raise _explain(f"compiling {program.name}", done)
    return built


def _run(
    words: list[str], place: Path, environment: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    # "python" and "torchrun" are those beside this Python, whose PyTorch was looked for.
    beside = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")])}
    if os.geteuid() == 0:  # in a container one is root, and Open MPI wants to hear that twice
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    env |= dict(setting.split("=", 1) for setting in environment)
    return subprocess.run(  # noqa: S603  # a program of the lab's own, or what builds it
        words, cwd=place, env=env, capture_output=True, text=True, check=False
    )


def _explain(what: str, done: subprocess.CompletedProcess[str]) -> RequestError:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    # What sightline says of the recording comes behind the program's own words.
    own = [line for line in lines if not line.startswith(("sightline:", "  "))]
    return RequestError(
        f"{what} failed with exit code {done.returncode}",
        why="; ".join((own or lines)[-3:]) or None,
    )


def _list_words(program: Path, ranks: int, launcher: str | None) -> list[str]:
    """The command, from within the exercise's folder: no path of this machine is recorded."""
    if launcher == "mpiexec":
        return ["mpiexec", "-n", str(ranks), "python", program.name]
    if launcher is not None:
        return ["torchrun", "--standalone", "--nproc-per-node", str(ranks), program.name]
    return ["python", program.name]
