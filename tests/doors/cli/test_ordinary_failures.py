"""What the system refuses is not a bug in sightline, and no fault of the recording."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from support import traces as t
from support.command import sightline
from support.exports import two_kernels
from support.snapshots import alloc, snapshot

EVENTS = [t.step(1, 0, 90), t.op("aten::mm", 1, 20), t.kernel("gemm", 30, 5)]


def run(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command line of a shell, in which `sightline` is this one."""
    program = f"'{sys.executable}' -m sightline.doors.cli.main"
    return subprocess.run(
        ["sh", "-c", command.replace("sightline", program)],
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    t.write(tmp_path, EVENTS, "a.json")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sightline report a.json --no-html >/dev/full", 2),
        ("sightline report a.json --json >/dev/full", 2),
        ("sightline stats kernels a.json >&-", 2),
        ("sightline report a.json --no-html 2>&- ", 0),
        ("sightline report missing.json 2>&- ", 2),
        ("sightline stats kernels a.json | true", 0),
        ("PYTHONIOENCODING=ascii sightline report a.json --no-html", 0),
        ("PYTHONIOENCODING=latin-1 sightline report a.json --no-html", 0),
        ("sightline export a.json --to chrome -o /dev/full", 2),
        ("sightline report a.json -o missing/x.html", 2),
    ],
)
def test_outputs_that_take_nothing(folder: Path, command: str, code: int) -> None:
    done = run(command, folder)
    assert done.returncode == code, done.stderr
    assert "bug" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", [".", "..", "/", "a.json", "/proc/x"])
def test_stores_that_cannot_be(folder: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    if target == "a.json":
        (folder / "a.json.sightline").write_text("mine")
    assert sightline("import", "a.json", "-o", target).code == 2
    assert sorted(p.name for p in folder.iterdir())[0] == "a.json"


@pytest.mark.pages
def test_names_that_are_no_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(folder / "empty"))  # read, not found as another's
    name = os.fsdecode(b"n\xffme.json")
    (folder / "a.json").rename(folder / name)
    for words in (
        ["report", name, "--json"],
        ["report", name, "-o", "page.html"],
        ["findings", name, "--format", "sarif"],
        ["import", name, "-o", "kept"],
        ["export", name, "--to", "csv", "-o", "tables"],
        ["flame", name, "-o", "flame.html"],
        ["report", ".", "--no-html"],
    ):
        outcome = sightline(*words)
        assert outcome.code == 0, (words, outcome.err)


@pytest.mark.parametrize("suffix", ["sqlite", "pickle"])
def test_names_that_are_no_text_of_other_files(
    folder: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(folder / "empty"))
    if suffix == "sqlite":
        made = two_kernels((0, 5), (9, 12)).write(folder / "made")
    else:
        made = folder / "made"
        made.write_bytes(pickle.dumps(snapshot([alloc(4096, 100, 5)], [])))
    given = made.rename(folder / os.fsdecode(b"n\xffme." + suffix.encode()))
    outcome = sightline("report", given, "--no-html")
    assert outcome.code == 0, outcome.err


def test_pipe_for_rules(folder: Path) -> None:
    os.mkfifo(folder / "rules.yaml")
    assert sightline("report", folder / "a.json", "--rules", folder / "rules.yaml").code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read(folder: Path) -> None:
    (folder / "a.json").chmod(0)
    assert sightline("report", folder / "a.json").code == 2
    assert sightline("report", folder).code == 2


def test_a_link_to_nothing_is_told_apart_from_no_file(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("gone.json")
    outcome = sightline("report", tmp_path / "link.json")
    assert (outcome.code, "it links to gone.json, which is not there" in outcome.err) == (2, True)


@pytest.mark.parametrize("words", [["stats", "kernels"], ["sql"]])
def test_fewer_rows_than_none_are_refused(words: list[str]) -> None:
    outcome = sightline(*words, "x.json", *(["select 1"] if words == ["sql"] else []), "--limit=-5")
    assert (outcome.code, "it is less than 0" in outcome.err) == (2, True)


def test_an_export_is_no_stream() -> None:
    outcome = sightline("export", "x.json", "--to", "csv", "-o", "-")
    assert (outcome.code, "not written to standard output" in outcome.err) == (2, True)


def test_a_folder_that_vanishes_is_no_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sightline.opening import paths

    def vanish(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/27786")

    monkeypatch.setattr(paths, "list_folder", vanish)
    outcome = sightline("report", tmp_path)
    assert outcome.code == 2
    # Where its lines break depends on the length of the folder's name.
    assert "no such file or directory (/proc/27786)" in " ".join(outcome.err.split())
