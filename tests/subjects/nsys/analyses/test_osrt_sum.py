"""osrt_sum: calls to the operating system by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.exports import opened
from synth_nsys import Export, gtid

CALL, MARK = 27, 31


def test_two_calls_and_a_mark_that_is_none(tmp_path: Path) -> None:
    export = Export()
    for name, start, end, kind in (
        ("poll", 5, 9, CALL),
        ("poll", 10, 12, CALL),
        ("on", 0, 0, MARK),
    ):
        export.add(
            "OSRT_API",
            start=start,
            end=end,
            eventClass=kind,
            globalTid=gtid(7, 7),
            nameId=export.text(name),
            callchainId=0,
        )
    fields = "Total Time (ns)", "Num Calls", "Name"
    assert rows(opened(tmp_path, export), "osrt_sum", *fields) == [(6, 2, "poll")]


def test_not_recorded(tmp_path: Path) -> None:
    export = Export()
    export.api("cudaMalloc", 0, 5, 1)
    with pytest.raises(MissingDataError, match="operating system calls"):
        opened(tmp_path, export).ask("osrt_sum")
