"""Hold the first finding on real recordings against verdicts that were reached without sightline.

    python scripts/diagnose_cases.py [CORPUS] [--only WORD] [--show]

The verdicts are in tests/cases/*.yaml, each with its figures and the query that gives them; which
of our findings say what is in tests/cases/causes.yaml. `known` of a verdict says how a reader
graded what is said there now, where that is less than its name alone would give. CORPUS is the
folder of the recordings.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import sightline
from sightline.core.model.declare import Finding
from sightline.core.units import format_ns, format_pct
from sightline.errors import SightlineError

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "cases"
CORPUS = ROOT.parent / "shared" / "corpus"
RIGHT, PARTLY, WRONG, UNREAD = "right", "partly", "wrong", "unread"
GRADES = (RIGHT, PARTLY, WRONG)  # the better first


@dataclass(frozen=True)
class Judged:
    """One recording, what was said first, and whether that is what the verdict says."""

    case: dict[str, Any]
    grade: str
    answer: str
    found: list[Finding]


def load_cases() -> list[dict[str, Any]]:
    """All verdicts, in order of their files."""
    files = sorted(p for p in CASES.glob("*.yaml") if p.name != "causes.yaml")
    return [case for file in files for case in yaml.safe_load(file.read_text())]


def name_answer(found: list[Finding]) -> str:
    """What a person reads first: a finding, a remark (in brackets), or silence."""
    first = next((f for f in found if not f.abstained), None)
    if first is None:
        return "silence"
    # One rule has a finding for each cause of idle time.
    cause = str(first.where.get("cause", "")).replace("_", " ")
    several = first.rule in ("gpu-idle", "start-up") and cause
    name = f"{first.rule}: {cause}" if several else first.rule
    # What stands with a number and a gain on the screen is no remark, whatever its severity.
    return f"({name})" if first.is_remark else name


def grade_answer(case: dict[str, Any], answer: str, says: dict[str, list[str]]) -> str:
    """Right: among the acceptable first answers. Partly: true, but not first."""
    loud = not answer.startswith("(") and answer != "silence"
    names = {answer.strip("()"), answer.strip("()").partition(":")[0]}
    if not loud:
        names.add("silence")
    for grade, causes in ((RIGHT, case["first"]), (PARTLY, case.get("also") or [])):
        if any(names & set(says[cause]) for cause in causes):
            return grade
    # To say nothing of a problem is a miss, but no lie.
    return WRONG if loud else PARTLY


def judge_case(corpus: Path, case: dict[str, Any], says: dict[str, list[str]]) -> Judged:
    """Open the recording as a person would, and hold the first finding against the verdict."""
    paths = case["recording"]
    paths = [paths] if isinstance(paths, str) else paths
    try:
        run = sightline.open(*(str(corpus / p) for p in paths))
        found = list(sightline.findings(run))
    except SightlineError as error:
        return Judged(case, UNREAD, str(error).splitlines()[-1], [])
    answer = name_answer(found)
    # What a reader still misses stands in the verdict: a name that fits is not all of an answer.
    grades = (grade_answer(case, answer, says), case.get("known", RIGHT))
    return Judged(case, max(grades, key=GRADES.index), answer, found)


def print_case(judged: Judged, *, show: bool) -> None:
    """One line; with `show` the verdict and the first three findings of what is not right."""
    case = judged.case
    print(f"{judged.grade:7} {case['name'][:44]:44} {judged.answer[:34]:34} {case['first'][0]}")
    if not show or judged.grade in (RIGHT, UNREAD):
        return
    low, high = case["cost_ns"]
    print(f"        {' '.join(case['verdict'].split())}")
    print(f"        first {case['first']}  also {case.get('also')}")
    print(f"        cost {format_ns(low)} to {format_ns(high)} of {format_ns(case['window_ns'])}")
    for f in [f for f in judged.found if not f.abstained][:4]:
        print(
            f"        > {f.severity} {f.title}: cost {format_ns(f.cost_ns or 0)} "
            f"({format_pct(f.cost_pct or 0)}), gain {format_ns(f.gain_ns or 0)} - {f.summary}"
        )


def main() -> int:
    """Exit 0 where at least 95 % are right and none is wrong, of those without a known miss."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--show", action="store_true", help="what was said instead, and why")
    args = parser.parse_args()
    says = yaml.safe_load((CASES / "causes.yaml").read_text())
    grades: Counter[str] = Counter()
    known = 0
    for case in load_cases():
        if args.only in case["name"]:
            judged = judge_case(args.corpus, case, says)
            grades[judged.grade] += 1
            known += judged.grade == case.get("known")
            print_case(judged, show=args.show)
    total = max(grades.total() - grades[UNREAD], 1)
    shares = (f"{grades[g]} {g} ({format_pct(100 * grades[g] / total)})" for g in GRADES)
    print(f"of {total}: {', '.join(shares)}; {grades[UNREAD]} of formats that are not read")
    missed = sum(grades[g] for g in (PARTLY, WRONG)) - known
    return 0 if missed <= 0.05 * total and not grades[WRONG] else 1


if __name__ == "__main__":
    sys.exit(main())
