"""The columns that a report's events become: every number, across chunks, whatever its width."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from sightline._native import ReportEvents
from sightline.core.algebra.arrow import unpack_varying
from support.reports import delimited, message, pack

CHUNK = 4096  # rows that are packed together (native/columns/packed.h)
COLUMNS = [
    ("known", [[1]], "number", 7),
    ("maybe", [[2]], "number", None),
    ("inner", [[3, 1], [3, 2]], "number", None),
    ("real", [[4]], "real", None),
]
PLANS = [("rows", 9, [], [], COLUMNS, [])]


def read(path: Path, payloads: list[dict[int, object]]) -> list[tuple[object, ...]]:
    events = [message({1: 5, 9: payload}) for payload in payloads]
    blocks = [events[at : at + 1000] for at in range(0, len(events), 1000)]
    path.write_bytes(b"".join(pack(delimited(message({1: block}))) for block in blocks))
    found = ReportEvents(str(path), 0, 2**63, 2**63, PLANS)
    while found.read(1):
        pass
    assert found.counted()["events"] == found.rows("rows") == len(payloads)
    names = [name for name, *_ in COLUMNS]
    rows = unpack_varying(names, *found.columns("rows", names)).rows()
    # Once more, each column no wider than it must be, and then no more.
    assert unpack_varying(names, *found.take("rows", names, names)).rows() == rows
    with pytest.raises(RuntimeError, match="were taken"):
        found.columns("rows", names)
    return rows


@pytest.mark.parametrize("bits", [0, 7, 8, 16, 31, 32, 33, 62])
@pytest.mark.parametrize("nulls", [0.0, 0.01, 1.0])
def test_every_number_comes_back(tmp_path: Path, bits: int, nulls: float) -> None:
    random = Random(bits)
    payloads: list[dict[int, object]] = []
    for i in range(2 * CHUNK + 5):
        payload: dict[int, object] = {} if random.random() < 0.01 else {1: i}
        if random.random() >= nulls:
            payload[2] = random.choice((1, -1)) * random.getrandbits(bits) if bits else 3
            payload[3] = {random.choice((1, 2)): random.getrandbits(bits)}
            payload[4] = random.uniform(-1, 1)
        payloads.append(payload)
    wanted = []
    for payload in payloads:
        inner = payload.get(3)
        value = next(iter(inner.values())) if isinstance(inner, dict) else None
        wanted.append((payload.get(1, 7), payload.get(2), value, payload.get(4)))
    assert read(tmp_path / "blocks", payloads) == wanted


@pytest.mark.parametrize("same", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
def test_a_column_that_is_the_same_for_long(tmp_path: Path, same: int) -> None:
    """One value throughout is only counted, until another comes."""
    values = [5] * same + [-3, 5]
    found = read(tmp_path / "blocks", [{1: value, 2: value} for value in values])
    assert [row[:2] for row in found] == [(value, value) for value in values]


@pytest.mark.parametrize("bits", [7, 15, 31])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_narrow_columns_hold_their_bounds(tmp_path: Path, bits: int, beyond: int) -> None:
    """The lowest number of a narrow type stands for null: numbers at its ends are still numbers."""
    values = [-(2**bits) - beyond, 2**bits - 1 + beyond, 0]
    found = read(tmp_path / "blocks", [{1: v, 2: v} for v in values] + [{}])
    assert [row[1] for row in found] == [*values, None]


def test_the_widest_numbers(tmp_path: Path) -> None:
    """The lowest number of 64 bits stands for null in compiled code, and no event has it."""
    values = [2**63 - 1, -(2**63) + 1, 0, -1] * CHUNK
    found = read(tmp_path / "blocks", [{1: value, 2: value} for value in values])
    assert [row[:2] for row in found] == [(value, value) for value in values]


def test_a_plan_that_contradicts_itself(tmp_path: Path) -> None:
    (tmp_path / "blocks").touch()
    plans = [("rows", 9, [], [], [("a", [[1]], "number", 0), ("b", [[1]], "text", 0)], [])]
    with pytest.raises(ValueError, match="a field of two kinds"):
        ReportEvents(str(tmp_path / "blocks"), 0, 1, 1, plans)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReportEvents(str(tmp_path / "none"), 0, 1, 1, PLANS)
