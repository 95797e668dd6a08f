"""Which variant of a program is faster, by how much, and why: tried in turn.

sightline try -- python a.py -- python b.py
sightline try 'python a.py' 'python b.py'            the same
sightline try --set workers=0,4,8 -- python train.py --workers {workers}
sightline try --env OMP_NUM_THREADS=1,4 -- ./simulation
sightline try --until 1% -- ./old -- ./new           go on until known to ±1 %
sightline try --value 'step_ms=([0-9.]+)' -- ...     compare what is printed

Each round runs every variant once, in random order. It ends as soon as the
differences are known well enough: their intervals hold at every look, so that
stopping early raises no false alarms. Then the first and the fastest are
recorded once each, to say why.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

from sightline.doors.cli._output import add_target, encode_json, wants_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.experiment.judge import Aim
    from sightline.experiment.measure import Outcome, Ruler
    from sightline.experiment.rounds import Round, Trial
    from sightline.experiment.surroundings import Surroundings
    from sightline.experiment.variants import Variant

HELP = "run variants of a program in turn: which is faster, and why"
RUNS = 30
_INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sightline try [options] -- COMMAND... -- COMMAND..."
    what = parser.add_argument_group("what to try")
    what.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="try each value in the place of {NAME} in the commands; may be given several times",
    )
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="try each value of an environment variable; may be given several times",
    )
    what.add_argument(
        "--value",
        metavar="REGEX",
        help="compare the number that the program prints last, in the brackets of REGEX, instead "
        "of the time from start to end",
    )
    what.add_argument(
        "--more-is-better",
        action="store_true",
        help="--value: more of it is better, such as tokens/s",
    )
    how = parser.add_argument_group("how long")
    how.add_argument(
        "--until",
        metavar="PCT",
        help="go on until each difference is known to ±PCT; default: to 1 %%, or to a third of it",
    )
    how.add_argument(
        "--runs", type=int, default=RUNS, metavar="N", help=f"at most N of each variant ({RUNS})"
    )
    how.add_argument("--seconds", type=float, metavar="S", help="at most S seconds in all")
    how.add_argument("--timeout", type=float, metavar="S", help="end a run after S seconds")
    how.add_argument("--seed", type=int, metavar="N", help="seed of the random order; default: any")
    how.add_argument(
        "--ignore-failure", action="store_true", help="measure runs with other exit codes than 0"
    )
    after = parser.add_argument_group("what is printed")
    after.add_argument("--no-why", action="store_true", help="record neither, and give no reasons")
    after.add_argument(
        "--show-output", action="store_true", help="show what programs print, on standard error"
    )
    after.add_argument("--json", action="store_true", help="print as data, with every run")
    add_target(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND", help="programs, each after --"
    )


def run(args: argparse.Namespace) -> int:
    import random
    import secrets

    from sightline.experiment.describe import describe_trial
    from sightline.experiment.rounds import INTERRUPTED, Limits, run_rounds
    from sightline.experiment.surroundings import Surroundings

    variants = _list_variants(args)
    aim, ruler, unit = _read_aim(args), _read_ruler(args), "ns" if args.value is None else ""
    limits = Limits(args.runs, args.seconds)
    seed = secrets.randbelow(1_000_000) if args.seed is None else args.seed
    around = Surroundings()

    def describe(trial: Trial) -> dict[str, Any]:
        more = args.more_is_better
        return {**describe_trial(variants, trial, aim, unit, more_is_better=more), "seed": seed}

    try:
        measure = _Measure(variants, ruler, around)
        dice = random.Random(seed)  # noqa: S311  # an order, not a secret
        trial = run_rounds(len(variants), measure, aim, limits, dice, _make_teller(describe))
    finally:
        around.close()
    data = describe(trial)
    interrupted = trial.stopped == INTERRUPTED
    data["why"] = None
    try:
        if not (args.no_why or interrupted):
            data["why"] = _explain(data, variants)
    except KeyboardInterrupt:  # what was measured is said all the same
        interrupted = True
    _deliver(args, data)
    return _INTERRUPTED if interrupted else 0


class _Measure:
    """Runs one variant, and counts its runs, so that a failure says which one it was."""

    def __init__(self, variants: Sequence[Variant], ruler: Ruler, around: Surroundings) -> None:
        self._variants, self._ruler, self._around = variants, ruler, around
        self._done = [0] * len(variants)

    def __call__(self, number: int) -> tuple[Outcome, dict[str, Any]]:
        from sightline.experiment.measure import explain_failure, run_program

        variant = self._variants[number]
        outcome, around = self._around.watch(lambda: run_program(variant, self._ruler))
        if outcome.value is None:
            raise explain_failure(variant, outcome, self._done[number], self._ruler)
        self._done[number] += 1
        return outcome, around


def _list_variants(args: argparse.Namespace) -> list[Variant]:
    from sightline.experiment.variants import (
        check_programs,
        list_variants,
        read_settings,
        split_commands,
    )

    variants = list_variants(
        split_commands(args.command),
        read_settings("--set", args.set),
        read_settings("--env", args.env),
    )
    check_programs(variants)
    return variants


def _read_aim(args: argparse.Namespace) -> Aim:
    from sightline.compare.sequential import MIN_ROUNDS
    from sightline.errors import RequestError
    from sightline.experiment.judge import Aim

    if args.runs < MIN_ROUNDS:
        raise RequestError(
            f"--runs {args.runs} is not a valid value",
            why=f"{MIN_ROUNDS} runs of each variant are the fewest that show how they vary",
        )
    for name in ("seconds", "timeout"):
        value = getattr(args, name)
        if value is not None and not 0 < value < 1e9:
            raise RequestError(
                f"--{name} {value:g} is not a valid value", why="it must be more than 0 s"
            )
    if args.until is None:
        return Aim()
    text = args.until.strip().removesuffix("%").strip()
    try:
        until = float(text)
    except ValueError:
        until = math.nan
    if not 0 < until < 100:
        raise RequestError(
            f"--until {args.until} is not a valid value", why="it must be a percentage, such as 1%"
        )
    return Aim(math.log1p(until / 100))


def _read_ruler(args: argparse.Namespace) -> Ruler:
    from sightline.errors import RequestError
    from sightline.experiment.measure import Ruler, read_pattern

    if args.more_is_better and args.value is None:
        raise RequestError("--more-is-better is of --value", why="for a time, less is better")
    pattern = None if args.value is None else read_pattern(args.value)
    return Ruler(pattern, args.timeout, args.show_output, args.ignore_failure)


def _make_teller(describe: Any) -> Any:
    """What each round came to, and after the first how long all may take."""
    from sightline.core.talk import Talk
    from sightline.doors.cli._shared import find_width
    from sightline.experiment.rounds import ALL_RUNS, Trial
    from sightline.views.comparison.experiment import describe_round

    stream, width = Talk(sys.stderr), find_width(sys.stderr)

    def tell(rounds: Sequence[Round]) -> None:
        print(describe_round(describe(Trial(list(rounds), ALL_RUNS)), width), file=stream)

    return tell


def _explain(data: dict[str, Any], variants: Sequence[Variant]) -> dict[str, Any] | None:
    """Why the first differs from the fastest; None where nothing is to be explained."""
    import tempfile
    from pathlib import Path

    from sightline.doors.cli._shared import heed_interrupts
    from sightline.experiment.why import choose_sides, explain_difference

    heed_interrupts()  # Polars has been loaded
    sides = choose_sides(data)
    if sides is None:
        return None
    named = {variant.name: variant for variant in variants}
    with tempfile.TemporaryDirectory(prefix="sightline-try-") as folder:
        return explain_difference(
            (named[sides[0]], named[sides[1]]),
            Path(folder),
            lambda name: print(f"recording {name} once, to say why", file=sys.stderr),
            is_faster=sides[2],
        )


def _deliver(args: argparse.Namespace, data: dict[str, Any]) -> None:
    from sightline.doors.cli._edge import print_screen
    from sightline.doors.cli._shared import find_width
    from sightline.views.comparison.experiment import render_trial

    if wants_json(args):
        print(encode_json(data).decode().rstrip())
        return
    width = find_width(sys.stdout)
    print_screen(render_trial(data, width), sys.stdout, width)
