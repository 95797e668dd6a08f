"""A recording comes into the corpus with its row, its verdict, what was said of it, and a grade."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from support import traces
from support.places import ROOT

HEAD = "file\tbytes\torigin_repo\torigin_path\tcommit\tlicence\tcontents\n"
FROM = ["--repo", "ann/slow", "--path", "runs/t.json", "--commit", "abc", "--licence", "MIT"]
NAME = "kineto/ann__slow/runs/t.json"
VERDICT = ["--verdict", "the host is late:\tit sleeps"]


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "MANIFEST.tsv").write_text(HEAD)
    return folder


def run(corpus: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "add_recording.py", "--corpus", corpus, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def read_row(path: Path) -> list[str]:
    return path.read_text().splitlines()[1].split("\t")


def test_a_recording_is_described_asked_and_graded(empty: Path, tmp_path: Path) -> None:
    trace = traces.write(tmp_path, [traces.kernel("a", 0, 100), traces.kernel("b", 900, 100)])
    done = run(empty, "add", trace, "--folder", "kineto", *FROM, *VERDICT)
    assert done.returncode == 0, done.stderr
    content = trace.read_bytes()
    assert (empty / NAME).read_bytes() == content
    row = [NAME, str(len(content)), "ann/slow", "runs/t.json", "abc", "MIT", ""]
    assert read_row(empty / "MANIFEST.tsv") == row
    (judged,) = empty.glob("judged-*.tsv")
    name, verdict, grade, answer, _ = read_row(judged)
    assert (name, verdict, grade) == (NAME, "the host is late: it sleeps", "")
    assert answer == "(hardly-any-work)"
    assert run(empty, "grade", NAME, "partly", "--note", "which host?").returncode == 0
    assert read_row(judged)[2] == "partly"
    assert read_row(judged)[4].endswith(": which host?")
    assert "no row without a grade" in run(empty, "grade", NAME, "right").stderr


def test_large_texts_are_packed_and_nothing_is_added_twice(empty: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text('{"events": []' + " " * 200_000 + "}")
    words = ("add", trace, "--folder", "kineto", *FROM, *VERDICT)
    assert run(empty, *words).returncode == 0
    assert gzip.decompress((empty / f"{NAME}.gz").read_bytes()) == trace.read_bytes()
    assert read_row(empty / "MANIFEST.tsv")[0] == f"{NAME}.gz"
    (judged,) = empty.glob("judged-*.tsv")
    assert read_row(judged)[3].startswith("no answer: ")
    assert "in the corpus already" in run(empty, *words).stderr
    assert len((empty / "MANIFEST.tsv").read_text().splitlines()) == 2
