"""No text that somebody gives by mistake keeps a pattern busy: one of 14 KB once did for ever."""

from __future__ import annotations

import re
import time

import pytest

from sightline.core.model.source import HEAD_BYTES
from sightline.opening.foreign import _FOREIGN
from sightline.opening.recognise import list_importers

# Lines as reports, tables, logs and data have them; a report of 64 KiB is a long one.
LINES = {
    "indented": b"    Product Name                     : NVIDIA H100\n",
    "blank": b"\n",
    "with tabs": b'\t\t1,2,,"x"\n',
    "of figures": b"0   1   2.5   -   100\n",
    "of a table": b"|  0  N/A | 12 % |  x |\n",
    "of a log": b"2026-01-01 00:00:00,000 INFO rank 0: step 1\n",
    "of JSON": b'  "ts": 1.5, "dur": [1, "x"], "name": {\n',
    "without an end": b"a b,c=1 ",
    "of XML": b'<a b="c">\n',
    "of listed GPUs": b"GPU 0: NVIDIA H100 (UUID: GPU-0)\n  MIG 1g.10gb Device 0:\n",
}
MOST_S = 1.0


@pytest.mark.parametrize("kind", LINES)
def test_no_pattern_takes_long(kind: str) -> None:
    head = (LINES[kind] * (HEAD_BYTES // len(LINES[kind])))[: 1 << 16]
    patterns = {p for i in list_importers() for p in (*i.strong, *i.weak)}
    slow = []
    for pattern in [*patterns, *(f.pattern for f in _FOREIGN)]:
        began = time.process_time()
        re.search(pattern, head, re.DOTALL)
        if time.process_time() - began > MOST_S:
            slow.append(pattern)
    assert not slow
