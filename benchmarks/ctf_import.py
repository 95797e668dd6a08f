"""How fast CTF becomes columns, beside babeltrace2 of the same trace; and what an import takes.

    python benchmarks/ctf_import.py [--events N] [--trace FOLDER]
    python benchmarks/ctf_import.py --import-gb 5

Without a trace, one is written as LTTng 2.13's user-space tracer lays it out: packets of 4 MiB,
large event headers, vpid and vtid with each event, pairs of a call's entry (a name, three numbers)
and exit (two). Decoding is timed on one core, in CPU time, best of five; babeltrace2 in the same
run, where it is installed, as its user time: as text, and read event by event and field by field
in Python (bt2 of the system's own python3), of which a fifth of the packets is enough.

`--import-gb` writes a trace of so many GB, the packets of one of 2 million events again and again,
each time 4.3 s later, imports it into a store, all tables, and says how much memory that took.
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

from sightline.formats.system.ctf.decode import Reading
from sightline.formats.system.ctf.folders import find_traces
from sightline.formats.system.ctf.metadata import read_metadata
from sightline.formats.system.ctf.plan import compile_plan

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


_READ_IN_PYTHON = """
import bt2, sys
events = 0
for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(message) is bt2._EventMessageConst:
        event, events = message.event, events + 1
        fields = {name: event.payload_field[name] for name in event.payload_field}
        message.default_clock_snapshot.ns_from_origin
print(events)
"""


def time_bt2(folder: Path) -> float | None:
    """User seconds of babeltrace2's Python bindings for an event; None where there are none."""
    command = ["/usr/bin/python3", "-c", _READ_IN_PYTHON]
    if subprocess.run([*command[:2], "import bt2"], capture_output=True, check=False).returncode:
        return None
    with tempfile.TemporaryDirectory() as place:
        shutil.copyfile(folder / "metadata", Path(place) / "metadata")
        packets = max((folder / "channel_0").stat().st_size // PACKET // 5, 1)
        with (folder / "channel_0").open("rb") as whole:
            (Path(place) / "channel_0").write_bytes(whole.read(packets * PACKET))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([*command, place], capture_output=True, check=True)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return seconds / int(done.stdout)


def repeat_trace(folder: Path, gigabytes: float) -> None:
    """The trace's packets again and again, each time by 2³² ns later, until it is so large.

    Events hold the low 32 bits of their time, so that the packets' own times are all that changes.
    """
    data = bytearray((folder / "channel_0").read_bytes())
    packets, times = len(data) // PACKET, round(gigabytes * 1e9 / len(data))
    with (folder / "channel_0").open("wb") as out:
        for turn in range(times):
            for packet in range(packets):
                at = packet * PACKET + struct.calcsize("<IIQ")
                begin, end, *sizes, _, lost, cpu = struct.unpack_from("<6QI", data, at)
                later = 1 << 32 if turn else 0
                number = turn * packets + packet
                struct.pack_into(
                    "<6QI", data, at, begin + later, end + later, *sizes, number, lost, cpu
                )
            out.write(data)


def measure_import(gigabytes: float) -> int:
    """Import a trace of so many GB; print time and memory. Returns 1 where it takes over 500 MB."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "trace"
        folder.mkdir()
        write_trace(folder, 2_000_000)
        repeat_trace(folder, gigabytes)
        command = ["sightline", "import", str(folder), "-o", str(Path(place) / "store")]
        environment = {**os.environ, "SIGHTLINE_CACHE": str(Path(place) / "cache")}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        size = (folder / "channel_0").stat().st_size / 1e9
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory, seconds = used.ru_maxrss / 1024, used.ru_utime + used.ru_stime
    print(f"{size:.2f} GB imported: {seconds:.0f} s of CPU time, {memory:.0f} MB at most")
    return int(memory > 500)


def main() -> int:
    """Print the figures. Returns 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--import-gb", type=float)
    given = parser.parse_args()
    if given.import_gb is not None:
        return measure_import(given.import_gb)
    with tempfile.TemporaryDirectory() as place:
        folder = given.trace or Path(place)
        if given.trace is None:
            write_trace(folder, given.events)
        events, seconds = min((decode(folder) for _ in range(5)), key=lambda found: found[1])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{events:,} events: {events / seconds / 1e6:.1f} M/s, {memory:.0f} MB at most")
        peer = time_babeltrace(folder)
        in_python = time_bt2(folder) if given.trace is None else None
    ratio = None if peer is None else peer / seconds
    if ratio is not None:
        print(
            f"babeltrace2: {events / (peer or 1) / 1e6:.2f} M/s as text; {ratio:.1f} times slower"
        )
    slower = None if in_python is None else in_python * events / seconds
    if in_python is not None:
        print(f"bt2: {1 / in_python / 1e6:.3f} M/s in Python; {slower:.0f} times slower")
    is_met = (
        events / seconds >= 8e6
        and memory <= 500
        and (ratio is None or ratio >= 12)
        and (slower is None or slower >= 100)
    )
    print("goals (8 M/s, 500 MB, 12 and 100 times):", "met" if is_met else "missed")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
