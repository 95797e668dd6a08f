"""How fast CTF becomes columns, and how fast babeltrace2 prints the same trace as text.

    python benchmarks/ctf_import.py [--events N] [--trace FOLDER]

Without a trace, one is written as LTTng 2.13's user-space tracer lays it out: packets of 4 MiB,
large event headers, vpid and vtid with each event, pairs of a call's entry (a name, three numbers)
and exit (two). Decoding is timed on one core, in CPU time, best of five; babeltrace2 is timed in
the same run, where it is installed, as its user time.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from sightline.importers.ctf.decode import Reading
from sightline.importers.ctf.folders import find_traces
from sightline.importers.ctf.metadata import read_metadata
from sightline.importers.ctf.plan import compile_plan

PACKET = 4 << 20
NAMES = (b"gemm_kernel_128x128", b"relu", b"vectorized_elementwise_kernel<4>", b"softmax")
METADATA = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le;
    packet.header := struct { uint32_t magic; uint32_t stream_id; uint64_t stream_instance_id; }; };
clock { name = "monotonic"; freq = 1000000000; offset = 1564079206484157378; };
typealias integer { size = 32; align = 8; signed = false; map = clock.monotonic.value; } := low_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := time_t;
struct header {
    enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
    variant <id> {
        struct { low_t timestamp; } compact;
        struct { uint32_t id; time_t timestamp; } extended;
    } v;
} align(8);
stream { id = 0; event.header := struct header;
    event.context := struct { int32_t _vpid; int32_t _vtid; };
    packet.context := struct {
        time_t timestamp_begin; time_t timestamp_end; uint64_t content_size; uint64_t packet_size;
        uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; }; };
event {
    name = "gpuprof:launch_entry"; id = 0; stream_id = 0;
    fields := struct { string _name; uint64_t _correlation; int32_t _device; int32_t _stream; }; };
event { name = "gpuprof:launch_exit"; id = 1; stream_id = 0;
    fields := struct { uint64_t _correlation; int32_t _ret; }; };
"""


def write_trace(folder: Path, events: int) -> None:
    """A trace of so many events, half of them entries."""
    (folder / "metadata").write_text(METADATA)
    head = struct.calcsize("<IIQ6QI")
    packet, number, start, now = bytearray(), 0, 0, 0
    with (folder / "channel_0").open("wb") as out:

        def close() -> None:
            bits = 8 * (head + len(packet))
            out.write(struct.pack("<IIQ", 0xC1FC1FC1, 0, 0))
            out.write(
                struct.pack("<6QI", start, now + 300, bits, 8 * PACKET, number, 0, 0) + packet
            )
            out.write(bytes(PACKET - head - len(packet)))

        for i in range(events // 2):
            now += 700
            packet += struct.pack("<HIii", 0, now & 0xFFFFFFFF, 4711, 4712) + NAMES[i & 3] + b"\0"
            packet += struct.pack("<Qii", i, i & 1, i % 7)
            packet += struct.pack("<HIiiQi", 1, (now + 300) & 0xFFFFFFFF, 4711, 4712, i, 0)
            if len(packet) > PACKET - head - 200:
                close()
                packet, number, start = bytearray(), number + 1, now + 300
        close()


def decode(folder: Path) -> tuple[int, float]:
    """Events, and the CPU seconds that it took to make columns of them."""
    start, events = time.process_time(), 0
    for trace in find_traces(folder):
        reading = Reading(trace, compile_plan(read_metadata(trace.folder / "metadata")))
        for _ in reading.read_batches():
            pass
        events += reading.events
    return events, time.process_time() - start


def time_babeltrace(folder: Path) -> float | None:
    """User seconds of babeltrace2 to print the trace; None where it is not installed."""
    if shutil.which("babeltrace2") is None:
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(["babeltrace2", str(folder)], stdout=subprocess.DEVNULL, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> int:
    """Print the figures. Returns 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--trace", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.trace or Path(place)
        if given.trace is None:
            write_trace(folder, given.events)
        events, seconds = min((decode(folder) for _ in range(5)), key=lambda found: found[1])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{events:,} events: {events / seconds / 1e6:.1f} M/s, {memory:.0f} MB at most")
        peer = time_babeltrace(folder)
    ratio = None if peer is None else peer / seconds
    if ratio is not None:
        print(
            f"babeltrace2: {events / (peer or 1) / 1e6:.2f} M/s as text; {ratio:.1f} times slower"
        )
    is_met = events / seconds >= 8e6 and memory <= 500 and (ratio is None or ratio >= 12)
    print("goals (8 M/s, 500 MB, 12 times):", "met" if is_met else "missed")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
