"""Fabric Manager's log: errors of NVSwitches and links, with their times and places."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import sightline
from sightline.errors import InputError
from sightline.session import Session

HEAD = "Fabric Manager Log initializing at: 7/9/2024 18:00:00.120\n"
INFO = "[Jul 09 2024 18:00:01] [INFO] [tid 855] Fabric Manager version 550.54 is running\n"
SOFT = (
    "[Jul 09 2024 18:14:07] [ERROR] [tid 127] detected NVSwitch non-fatal error 12028 on fid 0"
    " on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61\n"
)
HARD = SOFT.replace("non-fatal error 12028", "fatal error 20034").replace("18:14", "19:14")
LINK = (
    "[Oct  3 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\n"
    "moduleId : 3\n    portNum : 4\n"
)
WARN = "[Oct 03 2025 18:14:39] [WARNING] [tid 202] no NVLink partition is activated\n"


def open_text(folder: Path, text: str) -> Session:
    path = folder / "fabricmanager.log"
    path.write_text(text)
    return sightline.open(str(path))


def at(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 10**9


def list_kinds(run: Session) -> set[str]:
    return set(run.table("quality").get_column("kind"))


def test_errors_with_time_switch_and_number(tmp_path: Path) -> None:
    run = open_text(tmp_path, HEAD + INFO + SOFT + HARD + INFO)
    events = run.table("device_events")
    assert events.select("time_ns", "event", "source").rows() == [
        (at(2024, 7, 9, 18, 14, 7), "sxid", "nvswitch 00000000:86:00.0"),
        (at(2024, 7, 9, 19, 14, 7), "sxid-fatal", "nvswitch 00000000:86:00.0"),
    ]
    assert [text.split(":")[0] for text in events.get_column("text")] == [
        "SXID 12028",
        "SXID 20034",
    ]
    assert "switch_failed" in list_kinds(run)


def test_what_does_not_stop_a_switch_is_no_failure(tmp_path: Path) -> None:
    assert "switch_failed" not in list_kinds(open_text(tmp_path, HEAD + SOFT))


def test_lines_below_an_error_belong_to_it_and_warnings_are_events(tmp_path: Path) -> None:
    events = open_text(tmp_path, LINK + WARN).table("device_events")
    assert events.select("time_ns", "event").rows() == [
        (at(2025, 10, 3, 18, 14, 38), "fabric-error"),
        (at(2025, 10, 3, 18, 14, 39), "fabric-warning"),
    ]
    assert events.get_column("text")[0].endswith("error on :, moduleId 3, portNum 4")


def test_a_log_without_errors_says_so(tmp_path: Path) -> None:
    run = open_text(tmp_path, HEAD + INFO)
    assert run.rows("device_events") == 0
    assert "no_errors" in list_kinds(run)


def test_another_log_with_brackets_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        open_text(tmp_path, "[2025-02-25 13:59:45] [INFO] [tid 4] served request\n")
