"""JSON as columns: the compiled reader against Python's own, on documents of any kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.model.declare import Quality
from sightline.core.model.source import Source
from sightline.formats._json_tables import Wanted, read_tables, split_path, tabulate

DOCUMENT = """\
{"code": [["add", 7, "a.c:1", [1, 2.0, 3]], ["mul", 9], "no row", []],
 "jobs": [{"name": "a", "spans": [{"at": 1.5}, {"at": 2}]}, {"spans": [{"at": 3}]}]}
"""
WANTED = {
    "code": Wanted("code[]", {"isa": "[0] text", "hits": "[1] int", "width": " length"}),
    "jobs": Wanted("jobs[]", {"name": "name text"}),
    "spans": Wanted("jobs[].spans[]", {"whole": "at int", "decimal": "at float"}),
}


def read(folder: Path, text: bytes, wanted: dict[str, Wanted]) -> tuple[dict[str, Any], list[Any]]:
    path = folder / "document.json"
    path.write_bytes(text)
    quality: list[Quality] = []
    return read_tables(Source(path, path.name), quality, wanted), quality


def test_values_at_paths_become_columns(tmp_path: Path) -> None:
    tables, quality = read(tmp_path, DOCUMENT.encode(), WANTED)
    assert tables["code"].rows.rows() == [
        (None, "add", 7, 4), (None, "mul", 9, 2), (None, None, None, None), (None, None, None, 0),
    ]  # fmt: skip
    assert tables["jobs"].rows.rows() == [(None, "a"), (None, None)]
    assert tables["spans"].rows.rows() == [(0, None, 1.5), (0, 2, 2.0), (1, 3, 3.0)]
    assert not quality


def test_lists_of_integers_have_lengths_and_items(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, DOCUMENT.encode(), {"code": Wanted("code[]", {"n": "[3] ints"})})
    lengths, items = tables["code"].lists["n"]
    assert lengths.to_list() == [3, None, None, None]
    assert items.to_list() == [1, None, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"code": [["add", 1], ["mul", 2', "cut off"),
        (b'{"code": [["add", NaN]], "code": [["mul", 3]]}', "a key twice, and no JSON"),
        (b'{"code": [["\\ud800", 1]]}', "half a character"),
        (b'{"code": [["\xff", 1]]}', "no UTF-8"),
    ],
)
def test_what_only_python_reads_is_left_to_it(tmp_path: Path, text: bytes, why: str) -> None:
    wanted = {"code": Wanted("code[]", {"isa": "[0] text", "hits": "[1] int"})}
    found, _ = read(tmp_path, text, wanted)
    assert found["code"].rows.height >= 1, why


def test_two_documents_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Extra data"):
        read(tmp_path, b'{"code": []} {}', WANTED)


KEYS = st.sampled_from(["code", "a", "b"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=20,
)


@given(VALUES)
def test_python_finds_the_same(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    document = {"code": value}
    kinds = ("int", "float", "text", "length")
    cells = {
        f"{path}{kind}": f"{path} {kind}" for path in ("", "[1]", "a", "a.b") for kind in kinds
    }
    wanted = {"own": Wanted("code", cells), "each": Wanted("code[]", cells | {"list": "a ints"})}
    text = json.dumps(document).encode(errors="surrogatepass")
    folder = tmp_path_factory.mktemp("json")
    for name, table in wanted.items():
        found, _ = read(folder, text, {name: table})
        expected = tabulate(document, table)
        assert found[name].rows.drop("parent").equals(expected.rows.drop("parent"))
        for cell, (lengths, items) in expected.lists.items():
            assert found[name].lists[cell][0].equals(lengths)
            assert found[name].lists[cell][1].equals(items)


def test_paths_are_keys_and_items() -> None:
    assert split_path("jobs[].spans[3].at") == ["jobs", "[]", "spans", "[3]", "at"]
