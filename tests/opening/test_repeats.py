"""A recording that is given twice is read once: its times are not those of two GPUs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sightline
from sightline.core.model.store import Member
from sightline.opening.given import EPOCH_NS, Given
from sightline.opening.repeats import drop_repeats
from support.traces import kernel, write

WORK = [kernel("a", 0, 100), kernel("b", 900, 100)]


def make_given(name: str, **facts: object) -> Given:
    told = {"format": "nsys", "tool": "Nsight Systems", "rows": {"host_ops": 1}, **facts}
    return Given(name, [Member(Path("no.sightline"), 0, told)])


def test_a_copy_is_left_out_with_a_note(tmp_path: Path) -> None:
    trace = write(tmp_path, WORK, "trace.json")
    copy = shutil.copy(trace, tmp_path / "copy.json")
    run = sightline.open(str(trace), str(copy))
    assert run.table("device_ops").height == 2
    (note,) = run.table("quality").filter(kind="repeated_recording").get_column("text")
    assert note == "copy.json is left out: it and trace.json have the same bytes"


@pytest.mark.parametrize("names", [("a.nsys-rep", "b.sqlite"), ("b.sqlite", "a.nsys-rep")])
def test_of_a_report_and_its_export_the_export_is_read(names: tuple[str, str]) -> None:
    session = {"start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 9}
    formats = {"a.nsys-rep": "nsys_rep", "b.sqlite": "nsys"}
    given = [make_given(n, format=formats[n], content=n, **session) for n in names]
    kept, notes = drop_repeats(given)
    assert [one.name for one in kept] == ["b.sqlite"]
    assert [note.text for note in notes] == [
        "a.nsys-rep is left out: it and b.sqlite are files of one session"
    ]


def test_sessions_of_one_format_are_two_recordings() -> None:
    session = {"start_ns": EPOCH_NS, "end_ns": EPOCH_NS + 9}
    given = [make_given(name, content=name, **session) for name in ("a.sqlite", "b.sqlite")]
    assert drop_repeats(given) == (given, [])


def test_other_times_are_another_session() -> None:
    one = make_given("a.nsys-rep", format="nsys_rep", start_ns=EPOCH_NS, end_ns=EPOCH_NS + 9)
    other = make_given("b.sqlite", start_ns=EPOCH_NS, end_ns=EPOCH_NS + 8)
    assert drop_repeats([one, other]) == ([one, other], [])


def test_ranks_of_the_same_bytes_are_ranks() -> None:
    given = [
        make_given(f"rank{rank}.json", content="same", own_rank=rank, rank_source="file name")
        for rank in (0, 1)
    ]
    assert drop_repeats(given) == (given, [])
