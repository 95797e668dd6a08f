"""The progress line: only on a terminal, only for work over a second."""

from __future__ import annotations

import io
from pathlib import Path

from sightline.doors.cli._progress import Progress
from sightline.opening.paths import Looking, expand_paths


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, times: list[float], unit: str | None = None) -> str:
    clock = iter(times)
    with Progress(stream, lambda: next(clock), unit=unit) as progress:
        for step in range(1, len(times)):
            progress("folder/trace.json", step * 10_000_000, 100_000_000)
    return stream.getvalue()


def test_quick_work_shows_nothing():
    assert shown(Terminal(), [0.0, 0.1, 0.5, 0.9]) == ""


def test_nothing_where_there_is_no_terminal():
    assert shown(io.StringIO(), [0.0, 5.0, 6.0]) == ""


def test_share_rate_and_time_left_then_gone():
    text = shown(Terminal(), [0.0, 0.5, 1.5])
    assert "trace.json   20 % of 100.0 MB  20.00 MB/s  4 s left" in text
    assert text.endswith("\r\x1b[K")


def test_not_more_often_than_five_times_a_second():
    text = shown(Terminal(), [0.0, 0.0, 1.5, 1.6, 1.65, 1.75])
    assert text.count("left") == 2


def test_what_is_counted_is_not_called_bytes():
    text = shown(Terminal(), [0.0, 0.5, 1.5], "recordings")
    assert "20,000,000 of 100,000,000 recordings  4 s left" in text


def look(stream: io.StringIO) -> str:
    clock = iter([0.0, 0.0, 6.0, 7.0])
    with Progress(stream, lambda: next(clock)) as progress:
        for done in (0, 300, 400):
            progress(Looking("looking into files of d"), done, 900)
    return stream.getvalue()


def test_a_large_tree_is_told_in_entries():
    """300 of 900 after 6 s: the others take 12."""
    assert "looking into files of d: 300 of 900  12 s left  (Ctrl-C stops)" in look(Terminal())


def test_a_large_tree_is_told_without_a_terminal_too():
    """In lines that stay, one every five seconds."""
    said = "sightline: looking into files of d: 300 of 900  12 s left  (Ctrl-C stops)"
    assert look(io.StringIO()).splitlines() == [said]


def test_folders_say_what_is_looked_at(tmp_path: Path):
    (tmp_path / "a.json").write_text('{"traceEvents": [], "schemaVersion": 1}')
    told: list[str] = []
    expand_paths([str(tmp_path)], lambda what, done, total: told.append(what))
    assert told[0] == f"listing {tmp_path}"
    assert told[-1] == f"looking into files of {tmp_path}"
    assert all(isinstance(what, Looking) for what in told)
