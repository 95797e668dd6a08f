"""Writes a large trace: one trace many times over, with times and numbers moved on each time.

    python benchmarks/make_trace.py OUT BYTES [--base TRACE]

The base is a real trace of the corpus beside the checkout (54 MB, 216,000 events) where there is
one, else a simulated program's. Times of a copy follow those of the one before, and correlation and
arrow numbers are its own, so that joins have as much to do as in a real run of that length.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "shared" / "corpus" / "kineto"
REAL = (
    CORPUS / "facebookresearch__HolisticTraceAnalysis/df_index_resolver/df_index_resolver.json.gz"
)

_NUMBER = re.compile(rb'"(ts|correlation|External id|id)"(\s*:\s*)(\d+)(?=[,.}\s])')


def base_trace(given: Path | None) -> bytes:
    """The text of the trace that is written many times."""
    path = given or (REAL if REAL.is_file() else None)
    if path is None:
        sys.path[:0] = [str(HERE.parent / "tests")]
        from synth import kineto, simulate

        folder = HERE / "data" / "simulated"
        return Path(kineto.write(simulate("two_threads", seed=0), folder, "2025")[0]).read_bytes()
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def copies(body: bytes) -> Iterator[bytes]:
    """The events again and again, each time later and with numbers that were not used before."""
    times = [int(m[3]) for m in _NUMBER.finditer(body) if m[1] == b"ts" and int(m[3]) > 0]
    others = [int(m[3]) for m in _NUMBER.finditer(body) if m[1] != b"ts"]
    span, most = max(times) - min(times) + 1_000_000, max(others, default=0) + 1
    # The text between the numbers stays; only they change.
    parts: list[tuple[bytes, int, int]] = []
    at = 0
    for m in _NUMBER.finditer(body):
        shift = span if m[1] == b"ts" else most
        parts.append((body[at : m.start(3)], int(m[3]), shift))
        at = m.end(3)
    tail = body[at:]
    number = 0
    while True:
        yield b"".join(b"%b%d" % (text, n + number * shift) for text, n, shift in parts) + tail
        number += 1


def write(target: Path, size: int, base: Path | None = None) -> int:
    """Write a trace of at least `size` bytes; the number of copies."""
    data = base_trace(base)
    start = data.index(b"[", data.index(b'"traceEvents"')) + 1
    end = data.rindex(b"]")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        out.write(data[:start])
        for count, copy in enumerate(copies(data[start:end]), 1):
            out.write(copy if count == 1 else b"," + copy)
            if out.tell() >= size:
                break
        out.write(data[end:])
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("bytes", type=float)
    parser.add_argument("--base", type=Path)
    given = parser.parse_args()
    print(write(given.out, int(given.bytes), given.base), "copies")
