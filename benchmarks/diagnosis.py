"""Does the diagnosis hold? Every family of planted problems against its healthy twin.

    python benchmarks/diagnosis.py [--seeds N] [--sizes 1,2,3] [--events N] [FAMILY ...]
    python benchmarks/diagnosis.py --lab

Prints a table, and writes benchmarks/diagnosis.md when all families are asked for. The second form
does so for the lab's programs that ran for real: `python scripts/lab.py --run all` measures them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import sightline  # noqa: E402
from sightline import findings  # noqa: E402
from sightline.core.model.declare import Finding  # noqa: E402
from sightline.core.model.run import Run  # noqa: E402
from support.as_nsys import recorded  # noqa: E402
from synth import Run as Program  # noqa: E402
from synth.families import FAMILIES, Family, window_ns  # noqa: E402

TARGET = ROOT / "benchmarks" / "diagnosis.md"


@dataclass
class Score:
    """What one family's cases came to."""

    cases: int = 0
    first: int = 0
    loud_twins: int = 0
    errors: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def opened(family: Family, program: Program, folder: Path) -> Run:
    """The run that the tool makes of a recording of the program."""
    return sightline.open(str(recorded(family, program, folder)))


def judged(found: list[Finding]) -> list[Finding]:
    """What is above info."""
    return [f for f in found if not f.abstained and f.severity != "info"]


def score(family: Family, sizes: list[int], seeds: range) -> Score:
    """Every size and seed of a family, planted and healthy."""
    result = Score()
    for size in sizes:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as name:
                program, twin = (family.build(size, seed, p) for p in (True, False))
                # The truth is of the whole program, a long first step included.
                whole = opened(family, program, Path(name) / "planted").with_window("whole")
                found = judged(findings(whole))
                quiet = judged(findings(opened(family, twin, Path(name) / "healthy")))
            result.cases += 1
            truth = window_ns(program) - window_ns(twin)
            if found and found[0].rule == family.rule:
                result.first += 1
                result.errors.append(100 * ((found[0].gain_ns or 0) - truth) / truth)
            else:
                result.wrong.append(f"{size}/{seed}: {[f.rule for f in found]}")
            if quiet:
                result.loud_twins += 1
                result.wrong.append(f"{size}/{seed} twin: {[f.rule for f in quiet]}")
    return result


def large(events: int) -> str:
    """How long all findings of a large recording take after its import."""
    from synth.families import _steps  # the planted loader, many steps

    def part(t, rng, number, planted):  # type: ignore[no-untyped-def]
        from synth.families import _item

        for _ in range(10):
            _item(t, rng, number, planted)

    one = _steps("large", part)(0, 0, True)
    per_step = sum(len(r.ranges) + len(r.ops) for r in one.ranks) / 4
    build = _steps("large", part)
    with tempfile.TemporaryDirectory() as name:
        program = build(round((events / per_step - 4) / 4), 0, True)
        run = opened(Family("large", build), program, Path(name))
        rows = run.rows("device_ops") + run.rows("host_ops")
        nodes = run.ask("dependencies").height
        again = Run(run.parts)
        begin, cpu = time.perf_counter(), time.process_time()
        found = findings(again)
        took, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return (
        f"{rows:,} events ({nodes:,} nodes): all findings in {took:.2f} s after import "
        f"({cpu:.2f} s of CPU time), first {found[0].rule}, on {os.cpu_count()} cores with a load "
        f"average of {os.getloadavg()[0]:.1f}."
    )


def list_lab() -> list[str]:
    """The lab's exercises that ran for real: what was promised, and what the fix brought."""
    from statistics import fmean

    from sightline.lab.exercises import list_exercises
    from sightline.lab.gains import compare_gains

    rows, errors, first, runs = [], [], 0, 0
    for exercise in list_exercises():
        found = exercise.measured
        if found is None or not exercise.status.startswith("real"):
            continue
        error = compare_gains(found.predicted_pct, found.realised_pct)
        off = "" if error is None else f"{error:+.1f} %"
        errors.append(float("inf") if error is None else abs(error))
        first, runs = first + found.first, runs + len(found.realised_pct)
        rows.append(
            f"| {exercise.name} | {found.first} of {len(found.realised_pct)} | "
            f"{fmean(found.predicted_pct):.1f} % | {fmean(found.realised_pct):.1f} % | {off} |"
        )
    near = sum(e <= 15 for e in errors)
    return [
        LAB,
        "",
        f"{first} of {runs} recordings with the planted cause first; the gain of {near} of "
        f"{len(errors)} programs within 15 % of what its fix brought (docs/lab.md says why others "
        "are not).",
        "",
        "| program | planted cause first | predicted gain of a step | realised | off by |",
        "|---|---:|---:|---:|---:|",
        *rows,
        "",
    ]


LAB = "## Real programs, before and after their fix"


def write_lab() -> None:
    """Renew the lab's part of the page, which is its last."""
    lines = list_lab()
    print("\n".join(lines))
    text = TARGET.read_text(encoding="utf-8").split(f"\n{LAB}")[0].rstrip("\n")
    TARGET.write_text(f"{text}\n\n" + "\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", default="0,1,2")
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--lab", action="store_true")
    args = parser.parse_args()
    if args.lab:
        write_lab()
        return
    sizes = [int(s) for s in args.sizes.split(",")]
    lines = [
        "| planted problem | cases | found first | healthy twins with a finding | gain stated less "
        "true gain, median | worst |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    totals = Score()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SIGHTLINE_CACHE"] = cache
        for name in args.families or FAMILIES:
            s = score(FAMILIES[name], sizes, range(args.seeds))
            off = sorted(s.errors, key=abs)
            middle, worst = (off[len(off) // 2], off[-1]) if off else (float("nan"),) * 2
            line = (
                f"| {name} | {s.cases} | {s.first} | {s.loud_twins} | {middle:+.2f} % | "
                f"{worst:+.2f} % |"
            )
            print(line, *s.wrong[:3], flush=True)
            lines.append(line)
            totals.cases += s.cases
            totals.first += s.first
            totals.loud_twins += s.loud_twins
            totals.errors += s.errors
        within = sum(abs(e) <= 5 for e in totals.errors)
        summary = (
            f"{totals.first} of {totals.cases} first ({100 * totals.first / totals.cases:.1f} %), "
            f"{totals.loud_twins} healthy twins with a finding, gain within 5 % in {within} of "
            f"{len(totals.errors)}."
        )
        print(summary)
        speed = large(args.events) if args.events else ""
        print(speed)
    if not args.families:
        TARGET.write_text(_page(lines, summary, speed, args), encoding="utf-8")
        write_lab()


def _page(lines: list[str], summary: str, speed: str, args: argparse.Namespace) -> str:
    return "\n".join(
        [
            "# Diagnosis by construction",
            "",
            "`python benchmarks/diagnosis.py --events 1000000` writes this page. Each family of",
            "`tests/synth/families.py` is a simulated program with one planted problem, and a",
            "healthy twin: the same program without it. The true gain is the difference of the two",
            "windows in the simulator; the stated one is `gain_ns` of the first finding. Nothing",
            "of the tool is used to make the truth. Programs are recorded as PyTorch's profiler",
            "writes them; two whose evidence only Nsight Systems has, as its export.",
            "",
            f"Sizes {args.sizes}, {args.seeds} seeds each. {summary}",
            "",
            *lines,
            "",
            speed,
            "",
        ]
    )


if __name__ == "__main__":
    main()
