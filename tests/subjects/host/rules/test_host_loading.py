"""host-loading: what of the loader's calls is a batch."""

from __future__ import annotations

from pathlib import Path

from support.rules import answers
from support.traces import host, op, opened

NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_the_call_that_ends_an_epoch_is_no_batch(tmp_path: Path) -> None:
    events = []
    for n in range(4):
        at = 2_000 * n
        events += [host("user_annotation", NEXT, at, 900), op("aten::sin", at + 10, 800)]
        events += [op("aten::mm", at + 1_000, 900)]
    events += [host("user_annotation", NEXT, 8_000, 5), op("aten::mm", 8_100, 100)]
    (found,) = answers(opened(tmp_path, events), "host-loading")
    assert found.evidence[0] == "4 batches, the longest 900.0 µs"
    assert "num_workers=4" in (found.fix or "")
