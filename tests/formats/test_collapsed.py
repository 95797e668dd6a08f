"""Folded stacks: the compiled pass over lines against one line at a time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.folded_text import parse_frames, split_line
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.stacks import collapsed

PIECES = [
    "main", ";", ";", " 12", " 3", "_[k]", "_[G]", "_[g]", "-", "#", "// ", " ", "\r", "\x1c",
    "\x85", "\u00a0", "\ufffd", "é", "%3B", "%25", " 1234567890123456789", "; 3", "a;b 7",
    "f(x);g<int, 2> 5",
]  # fmt: skip
LINES = st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), max_size=12)


def read(folder: Path, data: bytes) -> Imported:
    path = folder / "stacks.folded"
    path.write_bytes(data)
    return collapsed.read(Source(path, path.name), ImportOptions(keep_identity=True))


def count_stacks(imported: Imported) -> Counter[tuple[object, ...]]:
    tables = imported.tables
    frames = {row[0]: row[1:] for row in tables["frames"][:, :3].iter_rows()}
    paths: dict[int, tuple[object, ...]] = {}
    for stack, parent, frame in tables["stacks"].drop("depth").iter_rows():
        paths[stack] = (*paths.get(parent, ()), frames[frame])
    weights = tables["stack_weights"].select("stack_id", "match", "value")
    return Counter({(paths[stack], match): value for stack, match, value in weights.iter_rows()})


def count_lines(text: str) -> tuple[Counter[tuple[object, ...]], int]:
    """The same, a line at a time, and how many lines are not stacks."""
    counts: Counter[tuple[object, ...]] = Counter()
    bad = 0
    for line in text.split("\n"):
        if not line.strip() or line.startswith(("#", "//")):
            continue
        if (found := split_line(line)) is None:
            bad += 1
            continue
        path = tuple(parse_frames(found[0]))
        match = "window" if any(layer == "kernel" for layer, _ in path) else "exact"
        counts[path, match] += found[1]
    return counts, bad


@given(LINES)
def test_as_a_line_at_a_time(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    expected, bad = count_lines("\n".join(lines))
    expected = Counter({key: value for key, value in expected.items() if key[0]})
    folder = tmp_path_factory.mktemp("folded")
    try:
        imported = read(folder, "\n".join(lines).encode())
    except DamagedError:
        assert not expected
        return
    assert count_stacks(imported) == expected
    assert [q.count for q in imported.quality if q.kind == "damaged_lines"] == [bad] * (bad > 0)


def test_text_of_any_encoding(tmp_path: Path) -> None:
    expected = Counter({((("native", "main"), ("native", "é")), "exact"): 3})
    for data in ("main;é 3\n".encode("utf-16"), b"\xef\xbb\xbfmain;\xc3\xa9 3"):
        assert count_stacks(read(tmp_path, data)) == expected
    broken = count_stacks(read(tmp_path, b"main;\xff 3\nmain;\xfe 4"))
    assert broken == Counter({((("native", "main"), ("native", "\ufffd")), "exact"): 7})
