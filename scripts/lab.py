"""The lab's pages: outputs in lessons, kept recordings, and docs/lab.md.

    python scripts/lab.py                 write the outputs in all lessons, and docs/lab.md, anew
    python scripts/lab.py --check         compare them; exit 1 where one differs
    python scripts/lab.py --run NAME...   run exercises here, keep recordings and figures (or: all)

In a lesson, a ```sh block of `sightline` commands is followed by a ```text block with what they
print, run in the exercise's folder at 80 columns.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sightline.core.model.run_folder import ENDING
from sightline.lab.exercises import SIDES, Exercise, Measured, list_exercises
from sightline.lab.gains import compare_gains
from sightline.lab.trial import Trial, run_jobs, run_trials, sum_up, try_kept

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "lab.md"
# A block of commands, and the block of output behind it.
PAIR = re.compile(
    r"(?P<all>```sh\n(?P<commands>.*?)```\n\n```text\n)(?P<output>.*?)(?=```)", re.DOTALL
)
TIMES = 3
# A repetition counts where other processes used less of the CPUs than this (ours: 5 % of two).
OTHERS_CPUS, MOST_ATTEMPTS, QUIET_S = 0.1, 10, 240.0
LIBRARIES = {"torch": "PyTorch", "jax": "JAX", "mpi4py": "mpi4py"}
GOOD_PCT = 15.0  # the goal that docs/lab.md states
INTRODUCTION = """\
Programs that are slow for one reason, each with its fix. `sightline lab` lists them,
`sightline lab show NAME` prints a lesson, and `sightline lab run NAME` records both sides and
compares the gain that the report promised with the gain that the fix brought. Where a machine
cannot run one, its kept recordings are judged.

Gains are shares of a step. *Predicted* is the gain of the first finding in the slow side's report;
*realised* is measured on steps that no profiler disturbs, where there are such. *Error* is the
difference in % of the realised gain. *First*: in how many repetitions the planted cause was the
first finding. *Status* says who made the recordings: real ones are of the machine that the
exercise's `expected.toml` names; simulated ones are of no machine. There both figures come from a
simulator, and agreement shows less.""".splitlines()


def print_output(commands: str, folder: Path) -> str:
    """What `sightline` commands print to standard output, one after the other."""
    said = []
    for line in commands.strip().splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] != "sightline":
            raise SystemExit(f"{folder.name}: only sightline is known here: {line}")
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{folder.name}: {line}\n{done.stderr}")
        said.append(done.stdout)
    lines = "\n".join(said).rstrip("\n").split("\n")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def renew_lesson(exercise: Exercise) -> tuple[str, str]:
    """The lesson as it is, and with the outputs as they are now."""
    text = (exercise.folder / "README.md").read_text(encoding="utf-8")

    def renew(match: re.Match[str]) -> str:
        return match["all"] + print_output(match["commands"], exercise.folder)

    return text, PAIR.sub(renew, text)


def keep_recording(made: Path, kept: Path) -> None:
    """A copy without logs, its traces compressed."""
    shutil.copytree(made, kept)
    for log in kept.glob("*.log"):
        log.unlink()
    for trace in kept.glob("*.json"):
        if trace.name.endswith(ENDING):
            continue
        packed = gzip.compress(trace.read_bytes(), 9, mtime=0)
        trace.with_name(f"{trace.name}.gz").write_bytes(packed)
        trace.unlink()


def read_busy() -> tuple[float, float]:
    """How long the machine's CPUs have been busy, and for how long with what this process ran, s.

    proc(5), /proc/stat: user, nice, system, of the first line; in ticks.
    """
    user, nice, system = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
    own = os.times()
    ours = own.user + own.system + own.children_user + own.children_system
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), ours


def run_alone(exercise: Exercise, folder: Path) -> Iterator[tuple[Path, Trial]]:
    """TIMES repetitions beside which nobody else used the machine, and where they were recorded.

    Whatever they came to: what is looked at is other processes' use of the CPUs alone.
    """
    kept = 0
    for attempt in range(MOST_ATTEMPTS):
        wait_for_quiet(exercise.name)
        place = folder / str(attempt)
        began, (busy, ours) = time.monotonic(), read_busy()
        (trial,) = run_trials(exercise, place, 1, lambda text: None)
        after, own = read_busy()
        others = (after - busy - (own - ours)) / (time.monotonic() - began)
        first = trial.prediction.finding.rule if trial.prediction.finding else None
        told = f"predicted {trial.prediction.gain_pct or 0:.1f}, realised {trial.realised_pct:.1f}"
        print(f"{exercise.name}: {told}, {first}; others used {others:.2f} CPUs", flush=True)
        if others > OTHERS_CPUS:
            continue
        yield place / "1", trial
        kept += 1
        if kept == TIMES:
            return
    raise SystemExit(f"{exercise.name}: others use this machine; what was measured before stays")


def wait_for_quiet(name: str) -> None:
    """Wait until nobody uses the CPUs. Raises SystemExit where that does not come."""
    limit = time.monotonic() + QUIET_S
    while time.monotonic() < limit:
        began, (busy, ours) = time.monotonic(), read_busy()
        time.sleep(1.0)
        after, own = read_busy()
        if (after - busy - (own - ours)) / (time.monotonic() - began) < OTHERS_CPUS:
            return
    raise SystemExit(f"{name}: others use this machine; what was measured before stays")


def keep_runs(exercise: Exercise) -> None:
    """Run it TIMES times here; keep the recordings of the middle run, and the gains of all."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if exercise.jobs:
            shutil.rmtree(exercise.folder / "recorded", ignore_errors=True)
            for paths in run_jobs(exercise, folder, lambda text: print(text, flush=True)).values():
                for path in paths:
                    keep_recording(path, exercise.folder / "recorded" / path.name)
            return
        places, trials = zip(*run_alone(exercise, folder), strict=True)
        gains = [t.realised_pct for t in trials]
        middle = gains.index(statistics.median_low(gains))
        shutil.rmtree(exercise.folder / "recorded", ignore_errors=True)
        for side in SIDES:
            made = places[middle] / f"{side}.sightline"
            keep_recording(made, exercise.folder / "recorded" / made.name)
    where = f"{os.cpu_count()} CPUs, {_name_versions(exercise)}"
    _write_measured(exercise, sum_up(exercise, trials, where))


def _name_versions(exercise: Exercise) -> str:
    """The libraries that the exercise is about."""
    import importlib.metadata

    used = [need for need in exercise.needs if need in LIBRARIES]
    versions = [importlib.metadata.version(name).split("+")[0] for name in used]
    return ", ".join(f"{LIBRARIES[n]} {v}" for n, v in zip(used, versions, strict=True))


def _write_measured(exercise: Exercise, found: Measured) -> None:
    path = exercise.folder / "expected.toml"
    head = path.read_text(encoding="utf-8").split("\n[measured]")[0].rstrip("\n")
    predicted = ", ".join(f"{v:.1f}" for v in found.predicted_pct)
    realised = ", ".join(f"{v:.1f}" for v in found.realised_pct)
    path.write_text(
        f'{head}\n\n[measured]\nwhere = "{found.where}"\npredicted_pct = [{predicted}]\n'
        f"realised_pct = [{realised}]\nfirst = {found.first}\n",
        encoding="utf-8",
    )


def write_table(exercises: list[Exercise]) -> str:
    """docs/lab.md."""
    rows, errors = [], []
    for exercise in exercises:
        found = exercise.measured
        kept = None if found else try_kept(exercise)
        if found is None and kept is not None:
            found = sum_up(exercise, [kept], "kept recordings")
        cells = ["", "", "", ""]
        if found is not None and found.realised_pct:
            error = compare_gains(found.predicted_pct, found.realised_pct)
            cells = [
                f"{statistics.fmean(found.predicted_pct):.1f} %",
                f"{statistics.fmean(found.realised_pct):.1f} %",
                "" if error is None else f"{error:+.0f} %",
                f"{found.first} of {len(found.realised_pct)}",
            ]
            if exercise.measured and error is not None:
                errors.append(error)
        link = f"[{exercise.name}](../lab/{exercise.name}/README.md)"
        finding = f"`{exercise.finding}`" if exercise.finding else ""
        rows.append(
            f"| {link} | {exercise.title} | {finding} | {exercise.status} | "
            + " | ".join(cells)
            + " |"
        )
    good = sum(abs(e) <= GOOD_PCT for e in errors)
    misses = [f"- **{e.name}**: {e.why_not_predicted}" for e in exercises if e.why_not_predicted]
    covers = [f"- {e.name}: {', '.join(e.covers)}" for e in exercises]
    return "\n".join(
        [
            "# The lab",
            "",
            *INTRODUCTION,
            "",
            f"Of the {len(errors)} exercises that ran for real, {good} were predicted within "
            f"{GOOD_PCT:.0f} % of the realised gain.",
            "",
            "| exercise | what is slow | first finding | status | predicted | realised | error "
            "| first |",
            "|---|---|---|---|---:|---:|---:|---:|",
            *rows,
            "",
            "## Where the prediction misses",
            "",
            *misses,
            "",
            "## What each covers",
            "",
            *covers,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", nargs="+", metavar="NAME")
    args = parser.parse_args()
    if args.run:
        for exercise in list_exercises():
            runs = exercise.find_program("baseline") is not None and not exercise.list_lacks()
            runs = runs and exercise.finding is not None  # else there is nothing to compare
            if runs and (exercise.name in args.run or args.run == ["all"]):
                keep_runs(exercise)
    exercises = list_exercises()
    wrong = []
    for exercise in exercises:
        before, after = renew_lesson(exercise)
        if before != after:
            wrong.append(exercise.name)
            if not args.check:
                (exercise.folder / "README.md").write_text(after, encoding="utf-8")
    table = write_table(exercises)
    if not TABLE.is_file() or TABLE.read_text(encoding="utf-8") != table:
        wrong.append(TABLE.name)
        if not args.check:
            TABLE.write_text(table, encoding="utf-8")
    for name in wrong:
        print(f"{name} {'differs: make lab' if args.check else 'written'}")
    return 1 if args.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
