"""openacc_sum: OpenACC events by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import opened
from synth_nsys import Export, gtid


def test_two_waits(tmp_path: Path) -> None:
    export = Export()
    for start, end in ((10, 11), (20, 22)):
        export.add(
            "CUPTI_ACTIVITY_KIND_OPENACC_OTHER",
            start=start,
            end=end,
            nameId=export.text("Wait@main.c:3"),
            globalTid=gtid(7, 7),
        )
    fields = "Total Time (ns)", "Count", "Name"
    assert rows(opened(tmp_path, export), "openacc_sum", *fields) == [(3, 2, "Wait@main.c:3")]
