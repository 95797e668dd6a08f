"""The real recordings beside the checkout (../shared): the one place that says where they lie.

A test that opens one carries the marker `corpus`, is skipped where they are absent, and is either a
property of any recording (`list_recordings`, as parameters) or names its file by its path in
MANIFEST.tsv (`corpus / "nsys/…"`). `support.corpus_guard` fails a test that opens one unmarked.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from support.places import ROOT

SHARED = ROOT.parent / "shared"
CORPUS = SHARED / "corpus"


@cache
def read_manifest() -> dict[str, str]:
    """What MANIFEST.tsv says of each file's contents, by its path; nothing without a corpus."""
    if not CORPUS.is_dir():
        return {}
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["file"]: row["contents"] or "" for row in rows}


def list_recordings(*patterns: str, damaged: bool = False) -> list[Path]:
    """Files of the corpus that match one of the glob patterns, sorted; none without a corpus.

    Those that the manifest calls damaged are left out, or are the only ones.
    """
    files = {path for pattern in patterns for path in CORPUS.glob(pattern) if path.is_file()}
    said = read_manifest()
    return sorted(p for p in files if ("damaged" in said.get(name_recording(p), "")) == damaged)


def name_recording(path: Path) -> str:
    """The path in MANIFEST.tsv: what tests of many recordings are called by."""
    return path.relative_to(CORPUS).as_posix()
