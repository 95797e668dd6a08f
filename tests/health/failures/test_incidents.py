"""What counts as an incident, and of which cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.xids import list_xids
from sightline.errors import InputError
from sightline.health.failures.causes import Cause, find_cause
from sightline.health.failures.incidents import list_incidents, read_table
from sightline.health.node import Event

MINUTE = 60 * 10**9


def xid(code: int, minute: float, device: int = 0) -> Event:
    return Event("xid", f"XID {code}: words", device, None, int(minute * MINUTE) + 1)


@pytest.mark.parametrize(
    ("kind", "text", "cause"),
    [
        ("xid", "XID 79: lost", Cause("Faulty GPU", "GPU")),
        ("xid", "XID 94: contained", Cause("GPU HBM Memory", "GPU")),
        ("xid", "XID 147: TREX", Cause("NVLink", "GPU")),
        ("xid", "XID 119: GSP", Cause("GPU System Processor", "GPU")),
        ("xid", "XID 31: MMU", Cause("Software Bug", "Software")),
        ("xid", "XID 43: stopped", None),
        ("xid", "XID 63: remapped", None),
        ("xid", "nonsense", None),
        ("sxid-fatal", "SXID 20034", Cause("Network Switch/Cable", "Network")),
        ("machine-check", "bank 7", Cause("CPU", "Host")),
        ("check-passed", "fine", None),
    ],
)
def test_causes(kind: str, text: str, cause: Cause | None) -> None:
    assert find_cause(kind, text) == cause


def test_what_the_catalogue_ignores_is_no_incident_but_where_memory_says_more() -> None:
    for code, one in list_xids().items():
        cause = find_cause("xid", f"XID {code}")
        if one.action.severity == "critical":
            assert cause is not None and cause.category == "GPU", code


def test_one_fault_that_speaks_often_is_one_incident_of_its_gravest_cause() -> None:
    events = [xid(31, 0), xid(74, 1), xid(45, 1.5), *(xid(74, 2 + n / 10) for n in range(50))]
    events += [xid(94, 60), xid(63, 60.1)]
    told = list_incidents("n1", events)
    assert [(one.cause.component, one.node) for one in told] == [
        ("NVLink", "n1"), ("GPU HBM Memory", "n1")
    ]  # fmt: skip


def test_a_list_with_counts_and_one_with_times(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("component,category,count\nNIC,Host,7\nNIC,Host,2\nDisk,,1\n")
    table = read_table(path)
    assert table.counts == {Cause("NIC", "Host"): 9, Cause("Disk", "Unknown"): 1}
    path.write_text(
        "time,component,node\n2026-03-01T10:00:00Z,NIC,n1\n2026-03-01 11:00:00,NIC,n2\n"
    )
    first, second = read_table(path).incidents
    assert (first.node, first.time_ns) == ("n1", 1_772_359_200 * 10**9)
    assert second.time_ns == (1_772_359_200 + 3600) * 10**9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cause,count\nNIC,7\n", "it has no column 'component'"),
        ("component,count\nNIC,many\n", "line 2: 'many' is not a count"),
        ("component,count\n,3\n", "line 2: no component"),
        ("component,time\nNIC,soon\n", "line 2: 'soon' is not a time"),
        ("component\n", "there is no incident"),
        ("", "it has no column"),
    ],
)
def test_a_list_that_is_wrong_is_refused_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_table(path)
    assert said in f"{error.value.what} {error.value.why}"
