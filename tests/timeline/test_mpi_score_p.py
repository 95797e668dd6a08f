"""Programs that Score-P recorded: Trace Compass' test traces, which are OTF2 archives as CTF.

babeltrace2 prints them; here they become archives again, and the waits are counted by plain loops.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.timeline.mpi import count_unmatched, list_messages
from sightline.timeline.mpi_waits import list_mpi_waits

TRACES = "ctf/eclipse-tracecompass__tracecompass-test-traces"
LINE = re.compile(r"^\[0*(\d+)\] \(.*?\) (\w+): \{ (.*) \}$")
FIELD = re.compile(r'(\w+) = ("[^"]*"|-?\d+)')
ALL = ("MPI_Allreduce", "MPI_Barrier")
Event = tuple[int, str, dict[str, Any]]


def read_events(folder: Path) -> list[Event]:
    """Clock cycles, name and fields of every event, as babeltrace2 prints them."""
    command = ["babeltrace2", "--clock-cycles", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        if (match := LINE.match(line)) is not None:
            fields = {
                k: v.strip('"') if v[0] == '"' else int(v) for k, v in FIELD.findall(match[3])
            }
            found.append((int(match[1]), match[2], fields))
    return found


def write_archive(events: list[Event], folder: Path) -> Path:
    """The events and what they refer to, as an archive of OTF2."""
    import otf2
    from otf2 import enums
    from otf2 import events as of

    texts: dict[int, str] = {}
    given: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, name, fields in events:
        if name == "GlobalDef_String":
            texts[fields["self"]] = fields["stringValue"]
        elif name.startswith("GlobalDef_"):
            given[name.removeprefix("GlobalDef_")].append(fields)
    (clock,) = given["ClockProperties"]
    with otf2.writer.open(str(folder), timer_resolution=clock["timerResolution"]) as archive:
        define = archive.definitions
        node = define.system_tree_node("node")
        places = {}
        for number in sorted({f["locationID"] for _, name, f in events if "locationID" in f}):
            group = define.location_group(f"MPI Rank {number}", system_tree_parent=node)
            places[number] = define.location("Master thread", group=group)
        groups = {}
        for group in given["Group"]:
            # OTF2_GROUP_TYPE_COMM_LOCATIONS, _COMM_GROUP and _COMM_SELF; OTF2_PARADIGM_MPI
            kinds = {4: "COMM_LOCATIONS", 5: "COMM_GROUP", 6: "COMM_SELF"}
            if group["paradigm"] == 4 and group["groupType"] in kinds:
                mine = [m for m in given["GroupMember"] if m["group"] == group["self"]]
                groups[group["self"]] = define.group(
                    "",
                    group_type=getattr(enums.GroupType, kinds[group["groupType"]]),
                    paradigm=enums.Paradigm.MPI,
                    members=[places[m["location"]] for m in sorted(mine, key=lambda m: m["rank"])],
                )
        comms = {
            comm["self"]: define.comm(texts[comm["name"]], group=groups[comm["group"]])
            for comm in given["Comm"]
            if comm["group"] in groups
        }
        regions = {
            r["self"]: define.region(texts[r["name"]], paradigm=enums.Paradigm.MPI)
            for r in given["Region"]
        }
        for number, place in places.items():
            writer = archive.event_writer_from_location(place)
            for time, name, f in events:
                if f.get("locationID") != number:
                    continue
                message = (
                    (comms[f["communicator"]], f["msgTag"], f["msgLength"]) if "msgTag" in f else ()
                )
                if name in ("Event_Enter", "Event_Leave"):
                    getattr(writer, name.removeprefix("Event_").lower())(time, regions[f["region"]])
                elif name == "Event_MpiSend":
                    writer(of.MpiSend(time, f["receiver"], *message))
                elif name == "Event_MpiRecv":
                    writer(of.MpiRecv(time, f["sender"], *message))
                elif name == "Event_MpiIrecvRequest":
                    writer(of.MpiIrecvRequest(time, f["requestID"]))
                elif name == "Event_MpiIrecv":
                    writer(of.MpiIrecv(time, f["sender"], *message, f["requestID"]))
                elif name == "Event_MpiCollectiveEnd":
                    root, kind = f["root"], enums.CollectiveOp.BARRIER
                    sizes = f["sizeSent"], f["sizeReceived"]
                    comm = comms[f["communicator"]]
                    writer(of.MpiCollectiveEnd(time, kind, comm, root, *sizes))
    return folder


def count_waits(events: list[Event]) -> Counter[tuple[str, int]]:
    """Late senders and receivers, and waits in barriers and allreduces: by pattern and rank, ns."""
    texts = {f["self"]: f["stringValue"] for _, n, f in events if n == "GlobalDef_String"}
    names = {f["self"]: texts[f["name"]] for _, n, f in events if n == "GlobalDef_Region"}
    (clock,) = (f for _, n, f in events if n == "GlobalDef_ClockProperties")
    calls: dict[int, list[list[Any]]] = defaultdict(list)
    sent, received = defaultdict(deque), defaultdict(deque)
    posted: dict[tuple[int, int], list[Any]] = {}
    nth: Counter[tuple[int, str, int]] = Counter()
    met: dict[tuple[int, str, int], list[tuple[int, list[Any]]]] = defaultdict(list)
    for cycles, name, f in events:
        time, rank = cycles * 10**9 // clock["timerResolution"], f.get("locationID", -1)
        if name == "Event_Enter":
            calls[rank].append([time, None, names[f["region"]]])
        elif name == "Event_Leave":
            calls[rank].pop()[1] = time
        elif name == "Event_MpiSend":
            sent[f["communicator"], rank, f["receiver"], f["msgTag"]].append(calls[rank][-1])
        elif name == "Event_MpiRecv":
            call = calls[rank][-1]
            received[f["communicator"], f["sender"], rank, f["msgTag"]].append((call, call))
        elif name == "Event_MpiIrecvRequest":
            posted[rank, f["requestID"]] = calls[rank][-1]
        elif name == "Event_MpiIrecv":
            pair = posted[rank, f["requestID"]], calls[rank][-1]
            received[f["communicator"], f["sender"], rank, f["msgTag"]].append(pair)
        elif name == "Event_MpiCollectiveEnd" and calls[rank][-1][2] in ALL:
            key = f["communicator"], calls[rank][-1][2]
            met[(*key, nth[(rank, *key)])].append((rank, calls[rank][-1]))
            nth[(rank, *key)] += 1
    waits: Counter[tuple[str, int]] = Counter()
    for key, sends in sent.items():
        for send, (post, wait) in zip(sends, received[key], strict=True):
            if send[0] > wait[0]:
                waits["late sender", key[2]] += min(send[0], wait[1]) - wait[0]
            if send[1] > post[0] > send[0]:
                waits["late receiver", key[1]] += post[0] - send[0]
    for (_, name, _), members in met.items():
        last = max(call[0] for _, call in members)
        for rank, call in members:
            waits["wait at barrier" if "Barrier" in name else "wait at n x n", rank] += (
                min(last, call[1]) - call[0]
            )
    return +waits


@pytest.mark.corpus
@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="babeltrace2 is not installed")
@pytest.mark.parametrize(
    ("name", "messages", "least"),
    [
        ("mpi_ssend_irecv", 1, 0),
        ("mpi_allreduce", 0, 8),
        ("bandwidth_issue", 90, 8),
        ("papi_counters", 5, 2),
    ],
)
def test_waits_are_those_of_plain_loops(
    corpus: Path, tmp_path: Path, name: str, messages: int, least: int
) -> None:
    pytest.importorskip("otf2")
    events = read_events(corpus / TRACES / name)
    run = sightline.open(str(write_archive(events, tmp_path / "archive")))
    assert (list_messages(run).height, count_unmatched(run)) == (messages, 0)
    found: Counter[tuple[str, int]] = Counter()
    for pattern, rank, ns in list_mpi_waits(run).select("pattern", "process", "wait_ns").rows():
        found[pattern, rank] += ns
    expected = count_waits(events)
    judged = {"late sender", "late receiver", "wait at barrier", "wait at n x n"}
    assert {key: ns for key, ns in found.items() if key[0] in judged} == expected
    assert len(expected) >= least
