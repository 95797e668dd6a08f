"""The figures that scripts/agent_questions.py asks for, asked of peers.

    python benchmarks/agent_peers.py [CORPUS] [--tracelens PYTHON]

As an agent with a shell would: one command, whose output is read. nsys-ai answers by `nsys-ai skill
run overlap_breakdown FILE`, and is installed from PyPI into an environment of its own under
benchmarks/data. TraceLens answers by its report of a PyTorch trace, of which an agent reads
gpu_timeline.csv; it is on GitHub alone: --tracelens names the Python of an environment that has
it. A peer is asked about the recordings that it reads by itself: databases of Nsight Systems, and
PyTorch's traces. Truth and the meaning of *exact* are those of agent_questions.py.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from side_by_side import Peer, set_up, version_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import agent_questions as questions  # noqa: E402
from count_tokens import count_tokens  # noqa: E402

NEAR = 0.01  # of a share; of a time or a count as a ratio
LONGEST_S = 600
Figures = dict[str, float]


@dataclass(frozen=True)
class Answer:
    """What a peer says of one recording, and how much an agent has to read for it."""

    figures: Figures
    text: str


def ask_nsys_ai(python: Path, recording: Path) -> Answer:
    """Its split of the window into compute, NCCL and idle; ms. Copies are idle to it."""
    with tempfile.TemporaryDirectory() as folder:  # it keeps a cache beside the file
        copy = Path(folder) / recording.name
        copy.write_bytes(recording.read_bytes())
        words = [python.with_name("nsys-ai"), "skill", "run", "overlap_breakdown", copy]
        text = _run([*words, "--format", "json"], Path(folder))
    told = json.loads(text[text.index("[") :])[0]
    if "error" in told:
        raise ValueError(told["error"])
    window = told["total_ms"]
    return Answer(
        {
            "window_ns": window * 1e6,
            "idle_share": told["idle_ms"] / window,
            "communication_exposed_share": told["nccl_only_ms"] / window,
            "compute_share": (told["compute_only_ms"] + told["overlap_ms"]) / window,
            "kernels": told["compute_kernels"] + told["nccl_kernels"],
        },
        text,
    )


def ask_tracelens(python: Path, recording: Path) -> Answer:
    """Its table of the GPU's time; ms."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python.with_name("TraceLens_generate_perf_report_pytorch")]
        _run([*words, "--profile_json_path", recording, "--output_csvs_dir", folder], Path(folder))
        text = (Path(folder) / "gpu_timeline.csv").read_text("utf-8")
    times = {row["type"]: float(row["time ms"]) for row in csv.DictReader(text.splitlines())}
    window = times["total_time"]
    return Answer(
        {
            "window_ns": window * 1e6,
            "idle_share": times["idle_time"] / window,
            "communication_exposed_share": times["exposed_comm_time"] / window,
            "copies_only_share": times["exposed_memcpy_time"] / window,
            "compute_share": times["computation_time"] / window,
        },
        text,
    )


def _run(words: list[Any], place: Path) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=place, capture_output=True, text=True, timeout=LONGEST_S
    )
    if done.returncode:
        raise ValueError((done.stderr.strip() or done.stdout.strip())[-300:])
    return done.stdout


def reads_nsys_ai(recording: Path) -> bool:
    """Nsight Systems' databases; of reports it asks `nsys`."""
    return recording.suffix == ".sqlite" and "nsys" in recording.parts


def reads_tracelens(recording: Path) -> bool:
    """PyTorch's traces."""
    return "kineto" in recording.parts and recording.name.endswith((".json", ".json.gz"))


def print_line(
    title: str,
    asked: list[questions.Question],
    corpus: Path,
    ask: Callable[[Path], Answer],
) -> None:
    """One peer's line of the table, and below it what it could not answer."""
    exact = near = answered = 0
    texts, failures = [], []
    for question in asked:
        known = question.case["figures"] | {"window_ns": question.case["window_ns"]}
        truth = known[question.kind]
        try:
            answer = ask(corpus / question.paths[0])
        except (ValueError, KeyError, OSError, subprocess.TimeoutExpired) as error:
            failures.append(f"{question.case['name'][:50]}: {str(error).splitlines()[-1][:160]}")
            continue
        texts.append(answer.text)
        value = answer.figures.get(question.kind)
        if value is None:
            continue
        answered += 1
        exact += questions.is_exact(value, truth)
        reach = NEAR if question.kind.endswith("share") else NEAR * truth
        near += abs(value - truth) <= reach
    tokens = f"{fmean(count_tokens(texts)):,.0f}" if texts else ""
    print(f"| {title} | {len(asked)} | {answered} | {exact} | {near} | {tokens} |")
    for failure in failures:
        print(f"    {failure}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=questions.CORPUS)
    parser.add_argument("--tracelens", type=Path, metavar="PYTHON")
    parser.add_argument("--half", type=int, default=questions.HALF, metavar="N")
    args = parser.parse_args()
    cases = questions.load_script("diagnose_cases").load_cases()
    every = questions.list_questions(args.corpus, cases, args.half)
    figures = [q for q in every if q.kind != "why" and len(q.paths) == 1]
    print("| peer | asked | answered | exact | within 1 % | tokens to read, mean |")
    print("|---|---:|---:|---:|---:|---:|")
    python = set_up("nsys-ai", Peer("nsys-ai", "", ("nsys-ai",)))
    if isinstance(python, Path):
        asked = [q for q in figures if reads_nsys_ai(args.corpus / q.paths[0])]
        ask = functools.cache(functools.partial(ask_nsys_ai, python))
        print_line(f"nsys-ai {version_of(python, 'nsys-ai')}", asked, args.corpus, ask)
    else:
        print(f"nsys-ai: {python}", file=sys.stderr)
    if args.tracelens:
        asked = [q for q in figures if reads_tracelens(args.corpus / q.paths[0])]
        ask = functools.cache(functools.partial(ask_tracelens, args.tracelens))
        print_line("TraceLens", asked, args.corpus, ask)
    return 0


if __name__ == "__main__":
    sys.exit(main())
