"""Lines that are two, told by the other lines of a text."""

from __future__ import annotations

from sightline.formats._joined_lines import count_joined_lines, note_joined_lines

LOG = b"".join(b"[2026-05-27 10:00:%02d] step %d took %d ms\n" % (n, n, 7 * n) for n in range(10))


def test_a_break_between_two_lines_that_is_gone() -> None:
    assert count_joined_lines(LOG) == 0
    assert note_joined_lines(LOG) == []
    damaged = LOG.replace(b"ms\n[2026-05-27 10:00:05", b"ms[2026-05-27 10:00:05")
    (note,) = note_joined_lines(damaged)
    assert (note.kind, note.severity, note.count) == ("joined_lines", "info", 1)


def test_rows_that_begin_with_blanks() -> None:
    table = b"".join(b"    %d   void kernel(float *)   %d\n" % (n, n * 3) for n in range(6))
    assert count_joined_lines(table) == 0
    assert count_joined_lines(table.replace(b"9\n    4", b"9    4")) == 1


def test_what_ends_like_another_line_and_is_one() -> None:
    """A tool's words with a blank before them, rules of dashes, JSON and XML, lines that recur."""
    assert count_joined_lines(b"loading the model\nWARNING: loading the model\n") == 0
    assert count_joined_lines(b"-" * 40 + b"\n" + b"-" * 80 + b"\n") == 0
    assert count_joined_lines(b'{"a": "one long text"}\n"b: one long text"}\n') == 0
    assert count_joined_lines(b"<a>\n</remapped_rows>\n<remapped_rows>7</remapped_rows>\n") == 0
    again = b"first half of it;second half of it\n" * 2 + b"second half of it\n"
    assert count_joined_lines(again) == 0


def test_a_long_text_is_looked_at_in_part() -> None:
    lines = b"".join(b"%s%d\n" % (b"x" * (n % 900), n) for n in range(20_000))
    assert count_joined_lines(lines) >= 0
