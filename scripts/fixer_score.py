"""The fixer's score: does who obeys the first finding, and does nothing else, get a faster program?

    python scripts/fixer_score.py [NAME ...] [--rounds N] [--results FILE]
    python scripts/fixer_score.py --write             docs/fixer.md anew from the kept results

Fifty programs that run on a CPU: those of benchmarks/fixer/programs, and exercises of the lab. Each
is recorded once by `sightline run`. Of what `sightline findings --json` says, the first finding is
obeyed: the edit that benchmarks/fixer/edits.toml declares for its rule is made, and both programs
are run in turn, unrecorded. What is not declared is not made. Other output than before is no gain.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sightline.lab.exercises import Exercise, find_exercise
from sightline.lab.gains import estimate
from sightline.lab.record import record_side

ROOT = Path(__file__).resolve().parents[1]
FIXER = ROOT / "benchmarks" / "fixer"
RESULTS = FIXER / "results.json"
TABLE = ROOT / "docs" / "fixer.md"
ROUNDS = 3
LONGEST_S = 300.0


@dataclass(frozen=True)
class Edit:
    """A change of a program, and the findings that call for it.

    `rules`: ids of rules; `names`: of which the finding's words hold one, none for any finding of
    these rules; `replace`: pairs of texts, the first of which occurs once; empty for an exercise of
    the lab, whose improved side is the edited program.
    """

    rules: tuple[str, ...]
    names: tuple[str, ...] = ()
    replace: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Program:
    """A slow program, and what obeying a finding would mean for it."""

    name: str
    path: Path
    edits: tuple[Edit, ...]
    exercise: Exercise | None = None


@dataclass(frozen=True)
class Score:
    """What came of one program: gains in % of its time, a round each; none if not obeyed."""

    name: str
    finding: str | None
    summary: str
    stated_pct: float | None
    realised_pct: tuple[float, ...] = ()
    is_same_output: bool = True
    why_not: str | None = None


def list_programs() -> list[Program]:
    """All fifty, as edits.toml declares them."""
    told = tomllib.loads((FIXER / "edits.toml").read_text(encoding="utf-8"))
    lab = told.pop("lab")
    programs = [
        Program(name, next((FIXER / "programs").glob(f"{name}.*")), _read_edits(value["edit"]))
        for name, value in told.items()
    ]
    for name, rules in lab.items():
        exercise = find_exercise(name)
        path = exercise.find_program("baseline")
        assert path is not None, name
        programs.append(Program(name, path, (Edit(tuple(rules)),), exercise))
    return programs


def _read_edits(rows: Sequence[dict[str, Any]]) -> tuple[Edit, ...]:
    return tuple(
        Edit(
            tuple(row["rules"]),
            tuple(row.get("names", ())),
            tuple((old, new) for old, new in row["replace"]),
        )
        for row in rows
    )


def choose_first(findings: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The first finding that judges something; None where all abstain."""
    return next((finding for finding in findings if not finding["abstained"]), None)


def choose_edit(finding: dict[str, Any], edits: Sequence[Edit]) -> Edit | None:
    """The edit that the finding calls for; None where there is nothing to obey."""
    words = json.dumps([finding[key] for key in ("summary", "evidence", "where", "fix")])
    for edit in edits:
        if finding["rule"] in edit.rules and (
            not edit.names or any(name in words for name in edit.names)
        ):
            return edit
    return None


def apply_edit(text: str, edit: Edit) -> str:
    """The program's text with the edit made. Raises ValueError where it does not fit."""
    for old, new in edit.replace:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} occurs {text.count(old)} times")
        text = text.replace(old, new)
    return text


def write_edited(program: Program, edit: Edit, folder: Path) -> Path:
    """The edited program: beside the slow one for an exercise, else in the folder."""
    if program.exercise is not None:
        improved = program.exercise.find_program("improved")
        assert improved is not None, program.name
        return improved
    path = folder / f"edited_{program.path.name}"
    text = program.path.read_text(encoding="utf-8")
    path.write_text(apply_edit(text, edit), encoding="utf-8")
    return path


def record(program: Program, folder: Path) -> Path:
    """Record the slow program as a person would; the recording's path."""
    if program.exercise is not None:
        return record_side(program.exercise, "baseline", folder)
    target = folder / f"{program.name}.sightline"
    words = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(target), "--"]
    _run([*words, *_list_words(program, program.path, folder)], program.path.parent)
    return target


def ask_findings(recording: Path) -> list[dict[str, Any]]:
    """What `sightline findings --json` says of it."""
    words = [sys.executable, "-m", "sightline", "findings", str(recording), "--json"]
    found: list[dict[str, Any]] = json.loads(_run(words, recording.parent).stdout)
    return found


def _list_words(program: Program, path: Path, folder: Path) -> list[str]:
    if path.suffix != ".c":
        return [sys.executable, str(path)]
    built = folder / path.stem
    if not built.exists():
        _run(["gcc", "-O2", "-g", "-o", str(built), str(path)], folder)
    return [str(built)]


def measure(program: Program, path: Path, folder: Path) -> tuple[float, str]:
    """Run one side unrecorded: seconds (time_main.py) of the slowest rank, and what it printed."""
    seconds = folder / "seconds"
    seconds.unlink(missing_ok=True)
    environment: tuple[str, ...] = ()
    if path.suffix == ".c":
        words = _list_words(program, path, folder)
    else:
        words = [str(FIXER / "time_main.py"), str(path), str(seconds)]
        exercise = program.exercise
        if exercise is not None and exercise.ranks > 1:
            count = str(exercise.ranks)
            launch = ["mpiexec", "-n", count, sys.executable]
            if exercise.launcher == "torchrun":
                launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
                launch += ["--nproc-per-node", count]
            words = [*launch, *words]
        else:
            words = [sys.executable, *words]
        environment = exercise.environment if exercise is not None else ()
    began = time.perf_counter()
    done = _run(words, path.parent, environment)
    took = time.perf_counter() - began
    if seconds.exists():
        took = max(map(float, seconds.read_text(encoding="utf-8").split()))
    return took, done.stdout


def _run(
    words: Sequence[str], place: Path, environment: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    beside = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": os.pathsep.join([beside, os.environ.get("PATH", "")])}
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    env |= dict(setting.split("=", 1) for setting in environment)
    done = subprocess.run(
        list(words), cwd=place, env=env, capture_output=True, text=True, timeout=LONGEST_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
    return done


def run_rounds(
    rounds: int, run_side: Callable[[int], tuple[float, str]]
) -> tuple[tuple[float, ...], bool]:
    """Both sides (0 slow, 1 edited) in turn, begun by each in every other round.

    The gain of each round in % of the slow side's time, and whether all runs printed the same.
    """
    gains, outputs = [], set()
    for number in range(rounds):
        took = {}
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            took[side], output = run_side(side)
            outputs.add(output)
        gains.append(100 * (1 - took[1] / took[0]))
    return tuple(gains), len(outputs) == 1


def score_program(program: Program, rounds: int, folder: Path) -> Score:
    """Record, obey, and run both."""
    finding = choose_first(ask_findings(record(program, folder)))
    if finding is None:
        return Score(program.name, None, "", None, why_not="there is no finding")
    told = (program.name, finding["rule"], finding["summary"], finding["gain_pct"])
    edit = choose_edit(finding, program.edits)
    if edit is None:
        return Score(*told, why_not="nothing declared for this finding")
    sides = (program.path, write_edited(program, edit, folder))
    gains, same = run_rounds(rounds, lambda side: measure(program, sides[side], folder))
    return Score(*told, gains, same)


def judge(score: Score) -> str:
    """One word on a program: what obeying brought, by the 95 % interval of its gain."""
    if score.why_not is not None:
        return "nothing to obey"
    if not score.is_same_output:
        return "other output"
    found = estimate(score.realised_pct)
    if found.low > 0:
        return "faster"
    return "slower" if found.high < 0 else "undecided"


def write_page(scores: Sequence[Score], where: str) -> str:
    """docs/fixer.md."""
    verdicts = [judge(score) for score in scores]
    counts = {word: verdicts.count(word) for word in dict.fromkeys(verdicts)}
    obeyed = [score for score in scores if score.realised_pct]
    counted = ", ".join(f"{count} {word}" for word, count in counts.items())
    return "\n".join(
        [
            "# The fixer's score",
            "",
            *_INTRODUCTION,
            "",
            f"The first finding could be obeyed in {len(obeyed)} of {len(scores)}: {counted}.",
            f"Measured on {where}.",
            "",
            "| program | first finding | stated gain | realised gain | interval | verdict |",
            "|---|---|---:|---:|---:|---|",
            *_write_rows(scores),
            "",
            "## By finding",
            "",
            "| finding | first in | obeyed | faster | realised gain, median |",
            "|---|---:|---:|---:|---:|",
            *_write_rules(scores),
            "",
            "## Where there was nothing to obey",
            "",
            *(f"- **{s.name}**: {s.summary or s.why_not}" for s in scores if s.why_not is not None),
            "",
        ]
    )


_INTRODUCTION = """\
Does who obeys the first finding, and does nothing else, get a faster program? Fifty programs that
run on a CPU, each slow for one reason: 32 small ones in plain Python, NumPy, PyTorch and C
(`benchmarks/fixer`), and 18 exercises of [the lab](lab.md). What obeying each finding means for
each program was written down and committed before the first of them was recorded.
`scripts/fixer_score.py` records each once with `sightline run`, makes the edit that is declared for
the first finding, and runs both programs in turn, unrecorded. A finding for which no edit is
declared is not obeyed: that counts as a failure of the finding, and stands below.

*Stated* is the gain of the finding, a share of what was recorded, and an upper bound; a dash where
it states none. *Realised* is how much less time the program takes, with the 95 % interval over
rounds: all steps but the first where it marks steps, else its `main` without imports, of C the
process. *Faster*: the interval is above zero.

The exercises were run three times, of which the last counts (the second for growing-graph,
jax-on-cpu and kv-cache): the first timed all of `main`, compilation included, and in the first two
other programs on the two CPUs were often the first finding (`host-preempted`), which no edit mends.
The last ran with priority over them. The programs of `benchmarks/fixer` were run once, but for
`sorted_for_a_few`, which came out the same the second time, and `length_each_time`: it had no
finding until a library without names was told by who calls it, and what stands here is its third
run, after that.""".splitlines()


def _write_rows(scores: Sequence[Score]) -> Iterator[str]:
    for score in scores:
        stated = "–" if score.stated_pct is None else f"{score.stated_pct:.1f} %"
        realised, interval = "", ""
        if score.realised_pct:
            found = estimate(score.realised_pct)
            realised = f"{found.mean:.1f} %"
            interval = f"{found.low:.1f} to {found.high:.1f} %"
        rule = f"`{score.finding}`" if score.finding else "none"
        cells = (score.name, rule, stated, realised, interval, judge(score))
        yield f"| {' | '.join(cells)} |"


def _write_rules(scores: Sequence[Score]) -> Iterator[str]:
    from statistics import fmean, median

    for rule in sorted({score.finding for score in scores if score.finding}):
        own = [score for score in scores if score.finding == rule]
        obeyed = [score for score in own if score.realised_pct]
        faster = sum(judge(score) == "faster" for score in own)
        middle = f"{median(fmean(s.realised_pct) for s in obeyed):.1f} %" if obeyed else ""
        yield f"| `{rule}` | {len(own)} | {len(obeyed)} | {faster} | {middle} |"


def keep(scores: Sequence[Score], where: str, path: Path) -> None:
    """All scores as JSON, a line each."""
    rows = ",\n".join(f"  {json.dumps(asdict(score), ensure_ascii=False)}" for score in scores)
    text = f'{{"where": {json.dumps(where)}, "scores": [\n{rows}\n]}}\n'
    path.write_text(text, encoding="utf-8")


def read_kept(path: Path) -> tuple[list[Score], str]:
    """What `keep` has written."""
    told = json.loads(path.read_text(encoding="utf-8"))
    scores = [
        Score(**{**row, "realised_pct": tuple(row["realised_pct"])}) for row in told["scores"]
    ]
    return scores, told["where"]


def describe_machine() -> str:
    """Where it was measured."""
    return f"{len(os.sched_getaffinity(0))} CPUs, Python {sys.version.split()[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="only write docs/fixer.md")
    args = parser.parse_args()
    scores: list[Score] = []
    programs = [p for p in list_programs() if not args.names or p.name in args.names]
    for program in [] if args.write else programs:
        lacks = program.exercise.list_lacks() if program.exercise else []
        if lacks:
            print(f"{program.name}: not run here, without {', '.join(lacks)}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                score = score_program(program, args.rounds, Path(folder))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                score = Score(program.name, None, "", None, why_not=f"failed: {error}")
        scores.append(score)
        print("\n".join(_write_rows([score])), flush=True)
        keep(scores, describe_machine(), args.results)
    if args.write or not args.names:
        TABLE.write_text(write_page(*read_kept(args.results)), encoding="utf-8")
        print(f"{TABLE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
