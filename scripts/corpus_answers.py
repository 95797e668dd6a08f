"""Write down what sightline says first of every file of the corpus; with --check, only compare.

    python scripts/corpus_answers.py [CORPUS] [--check] [--only WORD] [--most-mb MB] [--jobs N]

tests/corpus/answers.tsv has a row for each file of MANIFEST.tsv and each folder that a verdict
names: the exit code of `sightline report` (124: it took longer than a minute), the first line of
its screen or why there is none, the finding that stands first, and the grade of a verdict reached
without sightline (tests/cases) where there is one. A change of any answer shows in review.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import yaml
from diagnose_cases import CASES, CORPUS, ROOT, grade_answer, load_cases, name_answer

TABLE = ROOT / "tests" / "corpus" / "answers.tsv"
DONE, WRONG, BUG, LATE = 0, 2, 3, 124  # as doors/cli/main.py has them, and timeout(1)
MOST_SECONDS = 60  # the slowest of the corpus takes 9 s alone on one core
MOST_TEXT = 240  # of a refusal, which may list every ending that there is


class Row(NamedTuple):
    """What is said first of one recording, by its path in the corpus."""

    recording: str
    code: int
    says: str
    first: str
    grade: str


class _TooLateError(BaseException):
    """No `except Exception` on the way may take it for its own."""


def list_names(corpus: Path) -> list[str]:
    """Every file of the manifest that is there, and every folder that a verdict names."""
    with (corpus / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        files = {row["file"] for row in rows if (corpus / row["file"]).is_file()}
    return sorted(files | {name for name in _index_cases() if (corpus / name).is_dir()})


def ask(corpus: Path, name: str) -> Row:
    """The row of one recording, asked as `sightline report` asks it, from inside the corpus."""
    os.chdir(corpus)  # what is said names the path as it was given
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        return _ask(name)
    except _TooLateError:
        return Row(name, LATE, f"not done after {MOST_SECONDS} s", "", "")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooLateError


def _ask(name: str) -> Row:
    import sightline
    from sightline.errors import SightlineError
    from sightline.views.terminal.screen import render_screen

    try:
        session = sightline.open(name)
        says = render_screen(session.answer()).plain.split("\n", 1)[0]
        first = name_answer(session.findings())
    except SightlineError as error:
        return Row(name, WRONG, _shorten(error.why or error.what), "", "")
    except Exception as error:  # what the command calls a bug of ours
        return Row(name, BUG, _shorten(f"{type(error).__name__}: {error}"), "", "")
    return Row(name, DONE, _shorten(says), first, _grade(name, first))


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


@cache
def _index_cases() -> dict[str, dict[str, object]]:
    """Verdicts on one recording each, by its path."""
    return {case["recording"]: case for case in load_cases() if isinstance(case["recording"], str)}


@cache
def _load_causes() -> dict[str, list[str]]:
    causes: dict[str, list[str]] = yaml.safe_load((CASES / "causes.yaml").read_text())
    return causes


def _grade(name: str, first: str) -> str:
    case = _index_cases().get(name)
    return "" if case is None else grade_answer(case, first, _load_causes())


def ask_all(corpus: Path, names: Sequence[str], jobs: int) -> Iterator[Row]:
    """Rows in order of names; each process is a fresh one after 50 recordings."""
    # Polars' threads do not survive a fork, and what one recording leaves in memory is not kept.
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as fresh:  # no answer of another version, nor of a user
        os.environ["SIGHTLINE_CACHE"] = fresh
        with context.Pool(jobs, maxtasksperchild=50) as pool:
            yield from pool.imap(partial(ask, corpus.resolve()), names)


def read_table() -> dict[str, Row]:
    """The rows that were written down, by recording."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {r["recording"]: Row(**{**r, "code": int(r["code"])}) for r in rows}  # type: ignore[arg-type]


def write_table(rows: Sequence[Row]) -> None:
    """The whole table, sorted by recording."""
    lines = ["\t".join(Row._fields), *("\t".join(map(str, row)) for row in sorted(rows))]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def format_changes(before: dict[str, Row], after: Sequence[Row]) -> list[str]:
    """A line for each row that is not as it was, with - and + before its two versions."""
    old = ["\t".join(map(str, before[r.recording])) for r in after if r.recording in before]
    new = ["\t".join(map(str, row)) for row in after]
    return list(difflib.unified_diff(old, new, n=0, lineterm=""))[2:]


def main() -> int:
    """Exit 1 where --check finds a row that is not as written down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--check", action="store_true", help="compare with the table, write none")
    parser.add_argument("--only", default="", help="recordings with this in their path")
    parser.add_argument("--most-mb", type=float, default=1e9, help="leave larger files out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    most = args.most_mb * 1e6
    names = [n for n in list_names(args.corpus) if args.only in n]
    left_out = [n for n in names if (args.corpus / n).stat().st_size > most]
    names = sorted(set(names) - set(left_out))
    rows = []
    for row in ask_all(args.corpus, names, args.jobs):
        rows.append(row)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {len(names)}", file=sys.stderr, flush=True)
    before = read_table() if TABLE.exists() else {}
    print("\n".join(format_changes(before, rows)))
    codes = Counter(row.code for row in rows)
    print(f"{len(rows)} recordings, {len(left_out)} too large; exit codes {dict(codes)}")
    if args.check:
        return int(any(before.get(row.recording) != row for row in rows))
    write_table(list({**before, **{row.recording: row for row in rows}}.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
