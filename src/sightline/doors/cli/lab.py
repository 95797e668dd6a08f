"""Exercises that are slow for one reason: find it, fix it, see what that gains.

sightline lab                     all exercises, and which run here
sightline lab show data-loading   its lesson
sightline lab run data-loading    record it before and after the fix, thrice

`run` prints the gain that the report of the slow side promises next to the gain
that the fix brings. Where a machine cannot run an exercise, the recordings that
come with it are judged. It exits with 1 if the planted cause is not the first
finding.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.lab.exercises import Exercise, Measured

HELP = "exercises: find the cause, fix it, compare predicted and real gain"
TIMES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print as JSON")
    commands = parser.add_subparsers(dest="action", metavar="ACTION")
    commands.add_parser("list", help="the exercises, as without an action")
    show = commands.add_parser("show", help="the lesson of an exercise")
    show.add_argument("name", metavar="EXERCISE")
    record = commands.add_parser("run", help="record both sides, and compare the gains")
    record.add_argument("name", metavar="EXERCISE")
    record.add_argument("--times", type=int, default=TIMES, help=f"repetitions ({TIMES})")
    record.add_argument("-o", "--output", metavar="FOLDER", help="folder to keep the recordings in")
    record.add_argument(
        "--kept", action="store_true", help="judge the recordings that ship with the lab"
    )
    record.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.action == "show":
        return _show(args.name)
    if args.action == "run":
        return _run(args)
    return _list(as_json=args.json)


def _list(*, as_json: bool) -> int:
    import json

    from sightline.lab.exercises import explain_lacks, list_exercises

    exercises = list_exercises()
    if as_json:
        print(json.dumps([_describe(e) for e in exercises], indent=1))
        return 0
    width = max(len(e.name) for e in exercises)
    for exercise in exercises:
        lacks = exercise.list_lacks()
        if exercise.find_program("baseline") is None:
            state = "reads recordings"
        else:
            state = f"needs {explain_lacks(lacks)}" if lacks else "runs here"
        print(f"{exercise.name:<{width}}  {exercise.title}")
        print(f"{'':<{width}}  {exercise.finding or 'no planted cause'} · {state}")
    print("\nOne of them:  sightline lab show NAME   sightline lab run NAME")
    return 0


def _describe(exercise: Exercise) -> dict[str, Any]:
    return {
        "name": exercise.name,
        "title": exercise.title,
        "covers": exercise.covers,
        "finding": exercise.finding,
        "recordings": exercise.status,
        "needs": exercise.needs,
        "lacks": exercise.list_lacks(),
    }


def _show(name: str) -> int:
    from sightline.doors.cli._shared import find_width
    from sightline.lab.exercises import find_exercise
    from sightline.lab.lesson import render_lesson

    print(render_lesson(find_exercise(name), find_width(sys.stdout)), end="")
    return 0


def _run(args: argparse.Namespace) -> int:
    import json
    import tempfile
    from pathlib import Path

    from sightline.doors.cli._edge import let_reader_go
    from sightline.doors.cli._shared import GATE_FAILED
    from sightline.errors import RequestError
    from sightline.lab.exercises import explain_lacks, find_exercise
    from sightline.lab.lesson import describe_trial, render_trial
    from sightline.lab.trial import run_trials, sum_up, try_kept

    exercise = find_exercise(args.name)
    if args.times < 1:
        raise RequestError(f"--times {args.times} is not a number of repetitions")
    lacks = exercise.list_lacks()
    if args.kept or lacks or exercise.find_program("baseline") is None:
        kept = try_kept(exercise)
        if kept is None:
            raise RequestError(
                f"'{exercise.name}' cannot be run here",
                why=f"it needs {explain_lacks(lacks)}" if lacks else "it only reads recordings",
                hint=f"Its lesson:  sightline lab show {exercise.name}",
            )
        if lacks:
            _say(f"this needs {explain_lacks(lacks)}: its own recordings ({exercise.status})")
        trials, where = [kept], f"kept recordings: {exercise.status}"
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(args.output).absolute() if args.output else Path(scratch)
            if exercise.jobs:
                return _scale(exercise, folder)
            trials = list(run_trials(exercise, folder, args.times, _say))
        where = "this machine"
    measured = sum_up(exercise, trials, where)
    with let_reader_go():
        if args.json:
            print(json.dumps(describe_trial(exercise, trials, measured), indent=1))
        else:
            print(render_trial(exercise, trials, measured), end="")
    return _judge(exercise, measured, GATE_FAILED)


def _scale(exercise: Exercise, folder: Path) -> int:
    from sightline.doors.cli.scaling import print_scaling
    from sightline.lab.trial import run_jobs

    for side, paths in run_jobs(exercise, folder, _say).items():
        print(f"\n{side}\n")
        print_scaling([str(path) for path in paths])
    return 0


def _judge(exercise: Exercise, measured: Measured, failed: int) -> int:
    if exercise.finding is None:
        return 0
    return 0 if measured.first == len(measured.realised_pct) else failed


def _say(text: str) -> None:
    print(f"sightline: {text}", file=sys.stderr, flush=True)
