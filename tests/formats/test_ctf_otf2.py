"""OTF2 archives written as CTF: of marks as the reader of CTF makes them, and of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.formats.system.ctf.otf2 import is_archive, rebuild

TRACES = "ctf/eclipse-tracecompass__tracecompass-test-traces"
NONE = 2**32 - 1


def make_marks(*events: tuple[str, int, dict[str, object]]) -> pl.DataFrame:
    """Marks in order of time: (name, ns, fields)."""
    return pl.DataFrame(
        [(n, name, at, json.dumps(fields)) for n, (name, at, fields) in enumerate(events)],
        schema=["host_op_id", "name", "start_ns", "payload"],
        orient="row",
    )


def define() -> list[tuple[str, int, dict[str, object]]]:
    """Two ranks, of which location 20 is rank 0; a communicator of both."""
    texts = ["", "MPI_Send", "MPI_Recv", "work", "Rank A", "Rank B", "world"]
    made: list[tuple[str, int, dict[str, object]]] = [
        ("GlobalDef_String", 0, {"self": n, "stringValue": text}) for n, text in enumerate(texts)
    ]
    made += [
        ("GlobalDef_Region", 0, {"self": n, "name": n, "paradigm": paradigm})
        for n, paradigm in ((1, 4), (2, 4), (3, 2))
    ]
    for number, (location, name) in enumerate(((10, 5), (20, 4))):
        group = 7 + number
        made.append(("GlobalDef_LocationGroup", 0, {"self": group, "name": name}))
        made.append(("GlobalDef_Location", 0, {"self": location, "locationGroup": group}))
    made += [
        ("GlobalDef_Group", 0, {"self": 1, "groupType": 4, "paradigm": 4}),
        ("GlobalDef_GroupMember", 0, {"group": 1, "rank": 0, "location": 20}),
        ("GlobalDef_GroupMember", 0, {"group": 1, "rank": 1, "location": 10}),
        ("GlobalDef_Group", 0, {"self": 2, "groupType": 5, "paradigm": 4}),
        ("GlobalDef_GroupMember", 0, {"group": 2, "rank": 0, "location": 0}),
        ("GlobalDef_GroupMember", 0, {"group": 2, "rank": 1, "location": 1}),
        ("GlobalDef_Comm", 0, {"self": 3, "name": 6, "group": 2}),
    ]
    return made


MESSAGE = {"communicator": 3, "msgTag": 9, "msgLength": 64}
EVENTS = (
    ("Event_Enter", 100, {"locationID": 20, "region": 3}),
    ("Event_Enter", 110, {"locationID": 10, "region": 2}),
    ("Event_Enter", 150, {"locationID": 20, "region": 1}),
    ("Event_MpiSend", 155, {"locationID": 20, "receiver": 1, **MESSAGE}),
    ("Event_Leave", 160, {"locationID": 20, "region": 1}),
    ("Event_MpiRecv", 168, {"locationID": 10, "sender": 0, **MESSAGE}),
    ("Event_Leave", 170, {"locationID": 10, "region": 2}),
    ("Event_Leave", 200, {"locationID": 20, "region": 3}),
)


def test_ranges_and_messages_are_those_of_the_archive() -> None:
    marks = make_marks(*define(), *EVENTS)
    assert is_archive(marks)
    tables, notes = rebuild(marks)
    host = tables["host_ops"].sort("start_ns")
    assert host.select("pid", "layer", "name", "start_ns", "end_ns", "depth").rows() == [
        (1, "other", "work", 100, 200, 0),
        (0, "mpi", "MPI_Recv", 110, 170, 0),
        (1, "mpi", "MPI_Send", 150, 160, 1),
    ]
    calls = tables["mpi_events"].join(host.select("host_op_id", "name"), on="host_op_id")
    told = calls.select("name", "direction", "mpi_rank", "peer_rank", "tag", "bytes", "group_size")
    assert sorted(told.rows()) == [
        ("MPI_Recv", "receive", 1, 0, 9, 64, 2),
        ("MPI_Send", "send", 0, 1, 9, 64, 2),
    ]
    assert notes == []
    assert tables["threads"].select("pid", "process_name").rows() == [(0, "Rank B"), (1, "Rank A")]


def test_what_is_cut_or_no_number_is_left_out_and_counted() -> None:
    broken = [
        *define(),
        ("GlobalDef_Group", 0, {"self": [1], "groupType": "x", "paradigm": None}),
        ("GlobalDef_Comm", 0, {"self": {}, "group": []}),
        *EVENTS[:-1],
        ("Event_Leave", 175, {"locationID": 10, "region": 2}),
        ("Event_Enter", 180, {"locationID": 99, "region": 1}),
        ("Event_MpiCollectiveEnd", 181, {"locationID": 20}),
    ]
    tables, (note,) = rebuild(make_marks(*broken))
    assert tables["host_ops"].sort("start_ns").item(0, "end_ns") == 181
    assert (note.kind, note.count) == ("unclosed_ranges", 3)
    other = make_marks(("sched_switch", 1, {}), ("Event_Enter", 2, {}))
    assert not is_archive(other)


@pytest.mark.corpus
def test_real_archives_have_the_times_of_babeltrace(corpus: Path) -> None:
    """Figures by babeltrace2: Event_Enter and Event_Leave by locationID and region."""
    run = sl.open(str(corpus / TRACES / "bandwidth_issue"))
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = dict(
        run.table("host_ops")
        .group_by("pid", "name")
        .agg(length.sum())
        .select(pl.format("{} {}", "pid", "name"), "end_ns")
        .iter_rows()
    )
    assert sums["0 MPI_Send"] / 1e9 == pytest.approx(17.4752, abs=1e-4)
    assert sums["0 MPI_Barrier"] / 1e9 == pytest.approx(25.5901, abs=1e-4)
    assert sums["1 MPI_Recv"] / 1e9 == pytest.approx(28.9149, abs=1e-4)
    assert run.ask("mpi_waits").item(0, "pattern") == "wait at barrier"
