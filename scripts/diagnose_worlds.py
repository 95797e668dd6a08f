"""Ask sightline why simulated programs are slow, and compare its answers with the truth.

    .venv/bin/python scripts/diagnose_worlds.py --seeds 2 --show

Each program of tests/worlds is simulated with each cause that can be planted in it, written in one
format after another, and diagnosed through the public door. A case counts only where the cause
truly costs over 5 % of the window and more than anything else that could be removed. What the tool
answers is compared, never used: nothing here is tuned until it agrees.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import yaml

import sightline
from worlds import kineto, nsight
from worlds.causes import CAUSES, MIXTURES
from worlds.programs import NATIVE, PROGRAMS, TOGETHER
from worlds.truth import Case, judge, make_case

FORMATS = (
    "kineto-new",
    "nsys",
    "kineto-mid",
    "kineto-amd",
    "kineto-old",
    "nsys-plain",
    "kineto-bare",
)
ANSWERS = Path(__file__).resolve().parents[1] / "tests/worlds/rules_for_causes.yaml"
COUNTS = ("cases", "first", "gain", "bound", "in two", "invalid")
NEAR = 0.10  # a gain is near where it is off by at most this share of the true one


@dataclass
class Answer:
    """What the tool said of one recording."""

    case: Case
    format: str
    findings: list[sightline.Finding] = field(default_factory=list)
    abstained: list[sightline.Finding] = field(default_factory=list)
    error: str = ""

    def right(self, cause: str) -> list[str]:
        """The rules that are a right answer to a cause in this format."""
        return RIGHT[cause] + RIGHT["formats"].get(self.format, {}).get(cause, [])

    def names(self) -> list[str]:
        """The rules that spoke, first things first, each once."""
        return list(dict.fromkeys(f.rule for f in self.findings))


def write_case(case: Case, form: str, folder: Path) -> list[str]:
    """Write a case's recording in one format."""
    if form.startswith("kineto-"):
        dialect = form.split("-")[1]
        python = case.seed % 2 == 0
        bare = dialect == "bare"
        paths = kineto.write_run(
            case.run, folder, "new" if bare else dialect, case.seed, python=python, bare=bare
        )
    else:
        together = case.program in TOGETHER
        annotated = form == "nsys"
        paths = nsight.write_run(
            case.run, folder, case.seed, annotated=annotated, together=together
        )
    return [str(path) for path in paths]


def ask(case: Case, form: str) -> Answer:
    """Diagnose one recording."""
    answer = Answer(case, form)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_case(case, form, Path(folder))
        try:
            found = sightline.findings(sightline.open(*paths))
        except Exception as error:  # whatever it is, it is an answer that is wrong
            answer.error = f"{type(error).__name__}: {error}"
            return answer
    # What a run is bound by is no problem that could be planted: it is said before the first.
    answer.findings = [f for f in found if not (f.abstained or f.states_limit)]
    answer.abstained = [f for f in found if f.abstained]
    return answer


def formats_of(program: str, causes: tuple[str, ...], wanted: list[str]) -> list[str]:
    """The formats that can hold a program and show its causes."""
    forms = [f for f in wanted if program not in NATIVE or f.startswith("nsys")]
    for cause in (CAUSES[name] for name in causes):
        forms = [f for f in forms if f in (cause.formats or FORMATS)]
        forms = [f for f in forms if vendor_of(f) in cause.vendors]
    return forms


def vendor_of(form: str) -> str:
    """The device that a format's recordings are of."""
    return "amd" if form == "kineto-amd" else "nvidia"


def single_cases(args: argparse.Namespace) -> Iterator[Answer]:
    """Each cause in each program, formats taken in turn so that each pair sees several."""
    turn = 0
    for cause in CAUSES.values():
        if args.cause and cause.name not in args.cause:
            continue
        for program in cause.programs:
            if args.program and program not in args.program:
                continue
            forms = formats_of(program, (cause.name,), args.formats)
            if not forms:
                continue
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                chosen = forms if args.all_formats else [forms[turn % len(forms)]]
                turn += 1
                cases: dict[str, Case] = {}
                for form in chosen:
                    vendor = vendor_of(form)
                    if vendor not in cases:
                        cases[vendor] = make_case(program, (cause.name,), seed, vendor)
                    yield ask(cases[vendor], form)


def healthy_cases(args: argparse.Namespace) -> Iterator[Answer]:
    """Each program without a cause."""
    for turn, program in enumerate(PROGRAMS):
        if args.program and program not in args.program:
            continue
        forms = formats_of(program, (), args.formats)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            form = forms[(turn + seed) % len(forms)]
            yield ask(judge(program, {}, seed, vendor_of(form)), form)


def mixed_cases(args: argparse.Namespace) -> Iterator[Answer]:
    """Two causes at once."""
    for turn, (program, *causes) in enumerate(MIXTURES):
        if args.program and program not in args.program:
            continue
        forms = formats_of(program, tuple(causes), args.formats)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            form = forms[(turn + seed) % len(forms)]
            yield ask(make_case(program, tuple(causes), seed, vendor_of(form)), form)


def is_near(gain: int | None, truth: int) -> bool:
    """Whether a gain is about the true one."""
    return gain is not None and abs(gain - truth) <= NEAR * truth


def is_bound(finding: sightline.Finding) -> bool:
    """Whether a finding says that its gain is a bound, which must not be below the true one."""
    return (finding.method or "").startswith("bound")


def describe(answer: Answer) -> str:
    """What was planted, what it costs, and what the tool says first."""
    case = answer.case
    window = case.window_ns / 1e6
    planted = ", ".join(
        f"{cause} {gain / 1e6:.1f} ms ({100 * gain / case.window_ns:.0f} %)"
        for cause, gain in case.gains.items()
    )
    lines = [
        f"{case.program} seed {case.seed} {answer.format}: window {window:.1f} ms; "
        f"planted {planted or 'nothing'}"
    ]
    if answer.error:
        lines.append(f"    error: {answer.error}")
    for place, finding in enumerate(answer.findings[:3], 1):
        gain = "none" if finding.gain_ns is None else f"{finding.gain_ns / 1e6:.1f} ms"
        lines.append(
            f"    {place}. {finding.rule} [{finding.severity}] gain {gain}: {finding.summary[:170]}"
        )
    wanted = {rule for cause in case.causes for rule in answer.right(cause)}
    for finding in answer.abstained:
        if finding.rule in wanted:
            lines.append(f"    abstains: {finding.rule}: {(finding.reason or '')[:120]}")
    return "\n".join(lines)


RIGHT: dict[str, Any] = yaml.safe_load(ANSWERS.read_text()) if ANSWERS.exists() else {}


def report_singles(answers: Iterator[Answer], show: bool) -> None:
    """One line for each cause: how often the first answer is right, and its gain near.

    A gain that is given as a bound, and is one, is counted apart where it is not near.
    """
    rows: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for answer in answers:
        cause = answer.case.causes[0]
        row = rows[cause]
        if not answer.case.is_valid():
            row["invalid"] += 1
            continue
        row["cases"] += 1
        names = answer.names()
        right = bool(names) and names[0] in answer.right(cause)
        truth, gain = answer.case.gains[cause], answer.findings[0].gain_ns if right else None
        near = is_near(gain, truth)
        bound = right and not near and is_bound(answer.findings[0]) and (gain or 0) > truth
        row["first"] += right
        row["gain"] += near
        row["bound"] += bound
        row["in two"] += any(name in answer.right(cause) for name in names[:2])
        if show and not (near or bound):
            print(("MISS  " if not right else "GAIN  ") + describe(answer), flush=True)
    rows["all"] = {count: sum(row[count] for row in rows.values()) for count in COUNTS}
    print(f"\n{'cause':24}" + "".join(f"{count:>9}" for count in COUNTS))
    for cause, row in rows.items():
        print(f"{cause:24}" + "".join(f"{row[count]:9}" for count in COUNTS))


def report_healthy(answers: Iterator[Answer], show: bool) -> None:
    """Programs without a cause: what the tool finds above a remark."""
    count = loud = 0
    for answer in answers:
        count += 1
        above = [f for f in answer.findings if f.severity != "info"]
        loud += bool(above or answer.error)
        if show and (above or answer.error):
            answer.findings = above
            print("LOUD  " + describe(answer), flush=True)
    print(f"\nhealthy programs: {count}, with findings above info: {loud}")


def report_mixed(answers: Iterator[Answer], show: bool) -> None:
    """Two causes: are both in the first two answers, the larger first?"""
    count = both = first = 0
    for answer in answers:
        case = answer.case
        if not case.is_valid():
            continue
        count += 1
        names = answer.names()
        found = all(any(n in answer.right(c) for n in names[:2]) for c in case.causes)
        both += found
        first += bool(names) and names[0] in answer.right(case.leading())
        if show and not found:
            print("MIXED " + describe(answer), flush=True)
    print(f"\nmixtures: {count}, both in the first two: {both}, the larger first: {first}")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="how many, for each pair")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--all-formats", action="store_true", help="each case in all formats")
    parser.add_argument("--cause", nargs="+", choices=sorted(CAUSES))
    parser.add_argument("--program", nargs="+", choices=sorted(PROGRAMS))
    parser.add_argument(
        "--only",
        nargs="+",
        default=["single", "healthy", "mixed"],
        choices=["single", "healthy", "mixed"],
    )
    parser.add_argument("--show", action="store_true", help="print what was missed")
    args = parser.parse_args()
    if "single" in args.only:
        report_singles(single_cases(args), args.show)
    if "healthy" in args.only:
        report_healthy(healthy_cases(args), args.show)
    if "mixed" in args.only:
        report_mixed(mixed_cases(args), args.show)


if __name__ == "__main__":
    main()
