"""Lines after a pattern as columns, against regular expressions of the same meaning."""

from __future__ import annotations

import re

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.formats._lines import Matched, code_texts, split_lines, unite

WORK = "{start:int}:{end:int} {name:free}:{call:int}:{pid:int}"
CALL = "{start:int}:{end:int} {name:word}({:any}) :{call:int}"
SAMPLE = "{name:word}{{{labels:free}}} {value:number}"
CELLS = "{a:cell}, {b:cell}, {c:cell}"
ENTRY = "Thread {tid:int} : {name:text} [ns] {at:int} (end)"
# The same for Python. A text goes on while its end does not begin.
EXPRESSIONS = {
    WORK: r"(\d{1,18}):(\d{1,18}) (.+?):(\d{1,18}):(\d{1,18})",
    CALL: r"(\d{1,18}):(\d{1,18}) ([A-Za-z0-9_]+)\((?:.*?)\) :(\d{1,18})",
    SAMPLE: r"([A-Za-z0-9_]+)\{(.+?)\} ([-+.0-9eEInfNa]+)",
    CELLS: ", ".join([r"([^, \t](?:[^,]*[^, \t])?)"] * 3),
    ENTRY: r"Thread (\d{1,18}) : (.(?:(?! \[ns\] ).)*) \[ns\] (\d{1,18}) \(end\)",
}
PIECES = [
    "12", "1234567890123456789", ":", " ", "3:4 ", "scale(float*)", "hipMalloc(p) :7", ":5:6", "é",
    "gpu", "{", "}", 'a="b"', " 1.5e3", "NaN", ", ", ",", "\t", "Thread 5 : ", "k", " [ns] 9 (end)",
    "\x0c", "\r", "\x85", " :1", "\x00",
]  # fmt: skip


def list_rows(matched: Matched) -> list[tuple[object, ...]]:
    columns = matched.rows.with_columns(matched.text(field) for field in matched.texts)
    return [tuple(str(cell) for cell in row) for row in columns.iter_rows()]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), max_size=8))
def test_as_python_splits(lines: list[str]) -> None:
    data = "\n".join(lines).encode()
    for pattern, expression in EXPRESSIONS.items():
        (matched,), others = split_lines(data, pattern)
        rows, left, whole = [], [], find_numbers(pattern)
        for number, line in enumerate(data.split(b"\n")):
            line = line.removesuffix(b"\r")
            plain = all(0x20 <= byte < 0x80 or byte == 9 for byte in line)
            found = re.fullmatch(expression, line.decode()) if plain else None
            if found:
                cells = enumerate(found.groups())
                rows.append((str(number), *(str(int(g)) if k in whole else g for k, g in cells)))
            else:
                left += [(number, p) for p in line.decode().splitlines() if p.strip()]
        assert list_rows(matched) == rows
        assert others.rows() == left


def find_numbers(pattern: str) -> set[int]:
    """The places of the fields that are numbers."""
    kinds = [kind for _, kind in re.findall(r"\{(\w*):(\w+)\}", pattern) if kind != "any"]
    return {place for place, kind in enumerate(kinds) if kind == "int"}


def test_several_patterns_and_what_follows_none() -> None:
    data = b"1:2 f(x, y) :3\n\n# a remark\n1:2 scale(float*, int):3:4\r\n5:6 g() :7"
    (work, calls), others = split_lines(data, WORK, CALL)
    assert list_rows(work) == [("3", "1", "2", "scale(float*, int)", "3", "4")]
    assert list_rows(calls) == [("0", "1", "2", "f", "3"), ("4", "5", "6", "g", "7")]
    assert others.rows() == [(2, "# a remark")]


def test_lines_that_were_split_otherwise_come_to_their_places() -> None:
    (matched,), _ = split_lines(b"a, b, c\n\na, d, e\n", CELLS)
    both = matched.add(pl.DataFrame({"line": [1], "a": ["x"], "b": ["é"], "c": ["z"]}))
    assert list_rows(both) == [("0", "a", "b", "c"), ("1", "x", "é", "z"), ("2", "a", "d", "e")]
    other = code_texts(pl.DataFrame({"line": [1], "a": ["y"]}))
    assert list_rows(unite([other, matched]))[1] == ("1", "y", "None", "None")


def test_long_and_short_texts_that_follow_no_pattern_stay_as_they_are() -> None:
    lines = [f"# {'x' * n}" for n in range(40)]
    _, others = split_lines("\n".join(lines).encode() + b"\n# \xff", CELLS)
    assert others.get_column("text").to_list() == [*lines, "# \ufffd"]


def test_a_line_of_many_cells_and_one_with_many_ends_are_read_at_once() -> None:
    pattern = ", ".join(f"{{{n}:cell}}" for n in range(9_000))
    (wide,), _ = split_lines(", ".join(["7"] * 9_000).encode(), pattern)
    assert wide.rows.height == 1
    (work,), others = split_lines(b"1:2 " + b"a:1:" * 10_000, WORK)
    assert (work.rows.height, others.height) == (0, 1)
