"""What was printed before is printed again only where nothing that it depends on has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightline.core import registry
from sightline.core.model.cache_folder import find_cache_folder
from sightline.doors.cli import report as command
from sightline.opening import finished
from support import traces as t
from support.command import sightline

EVENTS = [t.step(1, 0, 90), t.op("a", 1, 20), *(t.kernel(f"k{i}", 10 * i, 5) for i in range(8))]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    return t.write(tmp_path, EVENTS)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What has been opened, one element each time."""
    seen: list[object] = []
    original = command.open_recordings

    def count(args: Any, **options: bool) -> object:
        seen.append(args)
        return original(args, **options)

    monkeypatch.setattr(command, "open_recordings", count)
    return seen


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_the_second_time_nothing_is_opened(trace: Path, opened: list[object], form: str) -> None:
    first = sightline("report", trace, "--format", form)
    assert sightline("report", trace, "--format", form) == first
    assert len(opened) == 1
    assert first.code == 0


@pytest.mark.pages
def test_the_page_is_kept_like_the_screen(trace: Path, opened: list[object]) -> None:
    pages = [trace.with_name(name) for name in ("a.html", "b.html")]
    for page in pages:
        assert sightline("report", trace, "-o", page).code == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert len(opened) == 1


def change_content(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    t.write(trace.parent, EVENTS[:-1])
    return [trace]


def change_name(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    return [trace.rename(trace.with_name("rank3.json"))]


def change_program(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    monkeypatch.setattr(finished, "stamp_program", lambda: [("other.py", "1")])
    return [trace]


def ask_for_a_part(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    return [trace, "--window", "0us..20us"]


def keep_names(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    return [trace, "--keep-identity"]


def use_colours(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    return [trace]


def add_a_package(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    monkeypatch.setattr(registry, "has_outsiders", lambda: True)
    return [trace]


def damage_the_answer(trace: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | Path]:
    for answer in (find_cache_folder() / "answers").iterdir():
        answer.write_text(answer.read_text()[:-5])
    return [trace]


@pytest.mark.parametrize(
    "change",
    [
        change_content, change_name, change_program, ask_for_a_part, keep_names, use_colours,
        add_a_package, damage_the_answer,
    ],
)  # fmt: skip
def test_what_has_changed_is_made_anew(
    trace: Path,
    opened: list[object],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], list[str | Path]],
) -> None:
    before = sightline("report", trace)
    words = change(trace, monkeypatch)
    after = sightline("report", *words)
    assert len(opened) == 2, before.out
    if change in (change_content, change_name, ask_for_a_part, use_colours):
        assert after.out != before.out


def test_of_a_folder_nothing_is_looked_for(trace: Path, opened: list[object]) -> None:
    folder = trace.parent / "folder"
    folder.mkdir()
    os.link(trace, folder / "a.json")
    assert finished.name_request([str(folder)], ()) is None
    assert sightline("report", folder) == sightline("report", folder)
    assert len(opened) == 2


@pytest.mark.parametrize("kind", ["large file", "store"])
def test_large_files_and_stores_are_known_by_their_stamps(
    trace: Path, opened: list[object], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    given = trace
    if kind == "store":
        given = trace.parent / "run.sightline"
        assert sightline("import", trace, "-o", given).code == 0
    changed = next(f for f in (given, *given.rglob("*.parquet")) if f.is_file())
    monkeypatch.setattr(finished, "MAX_HASHED_BYTES", trace.stat().st_size - 1)
    # It has changed just now: its next change may bear the same time.
    assert finished.name_request([str(given)], ()) is None
    monkeypatch.setattr(finished, "RACY_NS", 0)
    first = sightline("report", given)
    assert sightline("report", given) == first
    assert len(opened) == 1
    stamp = changed.stat()
    changed.write_bytes(changed.read_bytes())
    os.utime(changed, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # only the time of change tells
    assert sightline("report", given) == first
    assert len(opened) == 2
    monkeypatch.setattr(finished, "MAX_FILES", 0)
    assert finished.name_request([str(given)], ()) is None


def test_what_changes_while_it_is_read_is_not_kept(tmp_path: Path, trace: Path) -> None:
    names = iter(["before", "after"])
    assert finished.keep_finished(lambda: next(names), "text", lambda: "said") == "said"
    assert finished.keep_finished(lambda: "before", "text", lambda: "anew") == "anew"


def test_an_answer_that_is_too_long_is_not_kept(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished, "MAX_CHARACTERS", 3)
    assert finished.keep_finished(lambda: "name", "text", lambda: "long") == "long"
    assert finished.keep_finished(lambda: "name", "text", lambda: "new") == "new"
    assert finished.keep_finished(lambda: "name", "text", lambda: "kept?") == "new"
