"""Add a real recording to the corpus beside the checkout: its row, what it gave, its grade.

    python scripts/add_recording.py add FILE --folder ncu --repo OWNER/NAME --path PATH \\
        --commit SHA --licence MIT --verdict "what is true, by the raw rows alone" [--contents TEXT]
    python scripts/add_recording.py grade NAME right|partly|wrong [--note TEXT]

`add` copies the file to FOLDER/OWNER__NAME/PATH of the corpus (JSON over 200 kB and other texts
over 300 kB gzipped, as MANIFEST.md says), appends its row to MANIFEST.tsv, and only then asks: the
verdict is written before the answer is seen. What sightline said goes to judged-YEAR-MONTH.tsv,
without a grade; `grade` adds that, by the path in the manifest. Tests over the corpus
(`pytest -m corpus`) take the new file from the manifest by themselves.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import subprocess
import sys
from datetime import date
from pathlib import Path

from diagnose_cases import CORPUS, PARTLY, RIGHT, ROOT, WRONG, name_answer

import sightline
from sightline.errors import SightlineError

LARGE_JSON, LARGE_TEXT = 200_000, 300_000  # bytes; MANIFEST.md
TEXTS = {".csv", ".log", ".out", ".txt", ".xml"}
MANIFEST = ("file", "bytes", "origin_repo", "origin_path", "commit", "licence", "contents")
JUDGED = ("file", "verdict from the raw data, written first", "grade", "first finding", "note")


def read_rows(path: Path) -> list[list[str]]:
    """Header and rows of a table; nothing where there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_rows(path: Path, rows: list[list[str]]) -> None:
    """The whole table, through a file beside it: an interrupt leaves the old one."""
    lines = ("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)
    beside = path.with_name(f".{path.name}")
    beside.write_text("".join(lines), encoding="utf-8")
    beside.replace(path)


def copy_recording(source: Path, corpus: Path, name: str) -> str:
    """Copy a file to its place, packed where it is a large text; its path in the manifest."""
    content = source.read_bytes()
    large = {".json": LARGE_JSON} | dict.fromkeys(TEXTS, LARGE_TEXT)
    if len(content) > large.get(source.suffix, len(content)):
        # Without a time: the same file gives the same bytes.
        content, name = gzip.compress(content, mtime=0), f"{name}.gz"
    target = corpus / name
    if target.exists():
        raise SystemExit(f"{name} is in the corpus already")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return name


def ask(path: Path) -> str:
    """What a person reads first of it: the first finding, or why it cannot be read."""
    try:
        return name_answer(sightline.findings(sightline.open(str(path))))
    except SightlineError as error:
        return f"no answer: {error}"


def find_commit() -> str:
    """The commit that answers; a grade is of one version."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or "an unknown commit"


def add(args: argparse.Namespace) -> None:
    """Copy, describe, and then ask."""
    name = f"{args.folder}/{args.repo.replace('/', '__')}/{args.path}"
    rows = read_rows(args.corpus / "MANIFEST.tsv")
    if not rows:
        raise SystemExit(f"no MANIFEST.tsv in {args.corpus}")
    assert rows[0] == list(MANIFEST), rows[0]
    name = copy_recording(args.file, args.corpus, name)
    size = (args.corpus / name).stat().st_size
    row = [name, str(size), args.repo, args.path, args.commit, args.licence, args.contents]
    write_rows(args.corpus / "MANIFEST.tsv", [*rows, row])
    answer = ask(args.corpus / name)
    judged = args.corpus / f"judged-{date.today():%Y-%m}.tsv"
    said = read_rows(judged) or [list(JUDGED)]
    write_rows(judged, [*said, [name, args.verdict, "", answer, f"at {find_commit()}"]])
    print(f"{name}\n  verdict   {args.verdict}\n  sightline {answer}")
    print(f"Now grade it:  {sys.argv[0]} grade '{name}' {RIGHT}|{PARTLY}|{WRONG} --note WHY")


def grade(args: argparse.Namespace) -> None:
    """Write the grade into the row that `add` left without one."""
    for judged in sorted(args.corpus.glob("judged-*.tsv")):
        rows = read_rows(judged)
        for row in rows[1:]:
            if row[0] == args.name and not row[2]:
                row[2] = args.grade
                row[4] = f"{row[4]}: {args.note}" if args.note else row[4]
                write_rows(judged, rows)
                print(f"{args.name}: {args.grade}")
                return
    raise SystemExit(f"{args.name} has no row without a grade in judged-*.tsv")


def main() -> None:
    """One of the two steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    steps = parser.add_subparsers(required=True)
    first = steps.add_parser("add", help="copy it, describe it, ask sightline")
    first.add_argument("file", type=Path)
    for option in ("--folder", "--repo", "--path", "--commit", "--licence", "--verdict"):
        first.add_argument(option, required=True)
    first.add_argument("--contents", default="")
    first.set_defaults(step=add)
    second = steps.add_parser("grade", help="grade what sightline said first")
    second.add_argument("name")
    second.add_argument("grade", choices=(RIGHT, PARTLY, WRONG))
    second.add_argument("--note", default="")
    second.set_defaults(step=grade)
    args = parser.parse_args()
    args.step(args)


if __name__ == "__main__":
    main()
