"""A hundred questions over real recordings, asked as an agent asks them: `sightline mcp`'s tools.

    python scripts/agent_questions.py [CORPUS] [--half N] [--wrong]

Half have a figure as their answer, half ask why the program is slow. What is true stands in
tests/cases/*.yaml and was reached from the raw files, without sightline. Which cases are asked is
decided by a hash of their names; a figure is asked of recordings with the timeline of one device,
as of several it would not say whose it is. The agent is a script without a model: it opens the
recording, asks one table or the findings, and answers with what stands there; so the score is
that of the tools, and what a model adds or loses is not in it. Tokens are counted by
count_tokens.py; where its tokenizer is not there they are characters over 2.4, as in names of
kernels (views/for_llm.py). Beside it: what the same recording would take as text.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from types import ModuleType
from typing import Any

import yaml

import sightline
from sightline.doors.mcp.desk import Desk
from sightline.doors.mcp.questions import QUESTIONS
from sightline.doors.mcp.roots import check_roots
from sightline.errors import SightlineError

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
HALF, MOST_CALLS, MOST_TOKENS, LETTERS = 50, 4, 8_000, 2.4
CONTEXT = 200_000  # tokens that a large model reads at once
# What is asked of a figure, and where its answer stands: a column of the breakdown, or SQL.
FIGURES = {
    "window_ns": (
        "How long is it from the first device operation to the last, in ns?",
        "SELECT max(end_ns) - min(start_ns) AS n FROM device_ops",
    ),
    "idle_share": ("Which share of the window is the device idle?", "idle_ns"),
    "communication_exposed_share": (
        "Which share of the window is communication without compute?",
        "exposed_comm_ns",
    ),
    "copies_only_share": ("Which share is copies and memsets alone?", "exposed_copy_ns"),
    "compute_share": ("Which share of the window does a compute kernel run?", "compute_ns"),
    "kernels": (
        "How many kernels ran?",
        "SELECT count(*) AS n FROM device_ops WHERE kind = 'kernel'",
    ),
}


@dataclass(frozen=True)
class Question:
    """A question about one recording: a figure of the case, or `why`."""

    case: dict[str, Any]
    kind: str

    @property
    def paths(self) -> list[str]:
        """The recording's files, below the corpus."""
        given = self.case["recording"]
        return [given] if isinstance(given, str) else given


@dataclass
class Score:
    """What came of a question: right, partly, wrong or unread; and what it took."""

    question: Question
    grade: str = "unread"
    answer: str = ""
    calls: int = 0
    said: list[str] = field(default_factory=list)
    raw_letters: int = 0
    counted: int | None = None

    @property
    def tokens(self) -> float:
        """Of all that was asked and answered."""
        return sum(map(len, self.said)) / LETTERS if self.counted is None else self.counted


def load_script(name: str) -> ModuleType:
    """A script of this folder as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def shuffle_cases(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Verdicts of different recordings, in an order that nobody chose."""
    return sorted(
        (case for case in cases if "same_as" not in case),
        key=lambda case: hashlib.blake2b(case["name"].encode()).digest(),
    )


def list_questions(
    corpus: Path, cases: Sequence[dict[str, Any]], half: int = HALF
) -> list[Question]:
    """So many figures, of one kind after the other, and as many whys."""
    shuffled = shuffle_cases(cases)
    found: list[Question] = []
    counts = dict.fromkeys(FIGURES, 0)
    for case in reversed(shuffled):  # others than those that are asked why, where there are more
        if len(found) == half:
            break
        known = case["figures"] | {"window_ns": case["window_ns"]}
        kinds = [k for k in FIGURES if isinstance(known.get(k), (int, float))]
        # Without a share it is a verdict on profiled kernels, whose window is the sum of them.
        if kinds == ["window_ns"] or not has_one_device(corpus, Question(case, "")):
            continue
        kind = min(kinds, key=lambda k: counts[k])
        counts[kind] += 1
        found.append(Question(case, kind))
    return [*found, *(Question(case, "why") for case in shuffled[:half])]


def has_one_device(corpus: Path, question: Question) -> bool:
    """Whether a recording has the timeline of one device, and is read at all."""
    try:
        run = sightline.open([corpus / path for path in question.paths], same_job=True)
    except SightlineError:
        return False
    return bool(run.rows("device_ops")) and run.ask("breakdown").height == 1


class Agent:
    """A script that asks tools; it counts its calls, and the letters of both sides."""

    def __init__(self, corpus: Path, score: Score) -> None:
        self._desk, self._score = Desk(check_roots([str(corpus)])), score

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers."""
        text = QUESTIONS[tool](self._desk, **arguments)
        self._score.calls += 1
        self._score.said += [f"{tool} {json.dumps(arguments)}", text]
        answer: dict[str, Any] = json.loads(text)
        return answer


def answer_figure(agent: Agent, question: Question) -> float:
    """Open, and one table."""
    recording = agent.call("open", paths=question.paths, same_job=len(question.paths) > 1)
    name = recording["data"]["id"]
    source = FIGURES[question.kind][1]
    if source.startswith("SELECT"):
        return float(agent.call("table", recording=name, sql=source)["rows"][0]["n"])
    (row,) = agent.call("table", recording=name, analysis="breakdown")["rows"]
    return float(row[source] / row["window_ns"])


def answer_why(agent: Agent, question: Question) -> str:
    """Open, all findings, and the first one whole: its name as a person reads it."""
    recording = agent.call("open", paths=question.paths, same_job=len(question.paths) > 1)
    name = recording["data"]["id"]
    rows = agent.call("findings", recording=name)["rows"]
    first = next((row for row in rows if "reason" not in row), None)
    if first is None:
        return "silence"
    where = agent.call("findings", recording=name, finding=first["id"])["data"].get("where", {})
    cause = str(where.get("cause", "")).replace("_", " ")
    rule = str(first["rule"])
    said = f"{rule}: {cause}" if rule in ("gpu-idle", "start-up") and cause else rule
    gains = any(first.get(f"gain_{unit}") for unit in ("ns", "bytes", "j"))
    return said if gains else f"({said})"


def is_exact(answer: float, truth: float) -> bool:
    """Whether they agree to the last digit that the verdict has, rounded or cut."""
    text = repr(truth) if isinstance(truth, float) else str(truth)
    if "." in text:
        reach = 10.0 ** -len(text.partition(".")[2])
    else:
        reach = 10.0 ** (len(text) - len(text.rstrip("0"))) if text.endswith("0") else 0.0
    return abs(answer - truth) <= reach


def count_letters(path: Path) -> int:
    """How many letters a recording is as text: JSON unpacked, all else as it is."""
    if path.is_dir():
        return sum(count_letters(p) for p in path.rglob("*") if p.is_file())
    if path.suffix != ".gz":
        return path.stat().st_size
    with gzip.open(path) as file:
        return sum(len(part) for part in iter(lambda: file.read(1 << 20), b""))


def ask(corpus: Path, question: Question, diagnose: ModuleType, says: dict[str, Any]) -> Score:
    """Ask one question, and grade the answer."""
    score = Score(question)
    agent = Agent(corpus, score)
    score.raw_letters = sum(count_letters(corpus / path) for path in question.paths)
    try:
        if question.kind == "why":
            score.answer = answer_why(agent, question)
            score.grade = diagnose.grade_answer(question.case, score.answer, says)
        else:
            value = answer_figure(agent, question)
            known = question.case["figures"] | {"window_ns": question.case["window_ns"]}
            truth = known[question.kind]
            score.answer = f"{value:g} ({truth:g})"
            score.grade = "right" if is_exact(value, truth) else "wrong"
    except SightlineError as error:
        score.answer = error.sentence()
    return score


def count_all(scores: Sequence[Score]) -> None:
    """Count what was said, if a tokenizer is there; else say that tokens are estimated."""
    tokenizer = load_script("count_tokens")
    try:
        counts = tokenizer.count_tokens(["\n".join(score.said) for score in scores])
    except tokenizer.NoPackageError as error:
        print(f"Tokens are characters over {LETTERS}: {error}.", file=sys.stderr)
        return
    for score, count in zip(scores, counts, strict=True):
        score.counted = count


def print_table(scores: Sequence[Score]) -> None:
    """The two halves: how many are right, in how many calls and tokens; the recordings as text."""
    print("| questions | asked | right | partly | wrong | unread | most calls | tokens | most |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for label, part in (
        ("a figure", [s for s in scores if s.question.kind != "why"]),
        ("why is it slow", [s for s in scores if s.question.kind == "why"]),
    ):
        if not part:
            continue
        counts = [
            str(sum(s.grade == g for s in part)) for g in ("right", "partly", "wrong", "unread")
        ]
        tokens = [s.tokens for s in part]
        print(
            f"| {label} | {len(part)} | {' | '.join(counts)} | {max(s.calls for s in part)} "
            f"| {fmean(tokens):,.0f} | {max(tokens):,.0f} |"
        )
    raw = [s.raw_letters / LETTERS for s in scores]
    fits = sum(tokens <= CONTEXT for tokens in raw)
    print(
        f"\nas text: {median(raw):,.0f} tokens (median), {max(raw):,.0f} at most; "
        f"{fits} of {len(raw)} fit {CONTEXT:,}"
    )


def main() -> int:
    """Exit 1 where a figure is not exact, or a question takes too much."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument(
        "--half", type=int, default=HALF, metavar="N", help=f"of each kind ({HALF})"
    )
    parser.add_argument("--wrong", action="store_true", help="list what is not right")
    args = parser.parse_args()
    diagnose = load_script("diagnose_cases")
    says = yaml.safe_load((diagnose.CASES / "causes.yaml").read_text())
    questions = list_questions(args.corpus, diagnose.load_cases(), args.half)
    scores = [ask(args.corpus, question, diagnose, says) for question in questions]
    count_all(scores)
    print_table(scores)
    if args.wrong:
        for score in scores:
            if score.grade != "right":
                case = score.question.case
                print(
                    f"{score.grade:7} {case['name'][:50]:50} {score.question.kind}: {score.answer}"
                )
    exact = all(s.grade == "right" for s in scores if s.question.kind != "why")
    short = all(s.calls <= MOST_CALLS and s.tokens <= MOST_TOKENS for s in scores)
    return 0 if exact and short else 1


if __name__ == "__main__":
    sys.exit(main())
