"""Data is transferred in many small copies.

Symptom
    Copies of at most 64 KiB make up more than half of what is launched, and the device idles
    between them.

Why it hurts
    At 25 GB/s 64 KiB take 2.6 µs, less than the call that launches the copy: the cost is the
    number of copies, not the bytes.

Evidence
    Late launches on a device that is launch-bound by small copies, and the time in which only
    they run. The gain is a replay without these copies and
    without the host's work before each of their calls.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08); small is up to 64 KiB (CUDA Runtime API),
    and more than half of all operations (ours: else kernels set the pace, and launch-bound
    speaks).

Fix
    One buffer, one copy; keep constants on the device.

False positives
    None known.

References
    CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device": batching many small
    transfers into one larger transfer.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.copies.rules._shared import find_exposed_copies
from sightline.timeline import causes

RULE = Rule("many-small-copies", "Many small copies", causes=(causes.SMALL,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    yield from find_exposed_copies(
        run,
        RULE,
        "Small copies and the gaps between them take",
        cause="launching each small copy takes longer than the copy",
        fix="pack small data into one buffer and copy it once; keep constants and indices on "
        "the GPU",
        sources=("CUDA C++ Best Practices Guide: batch many small transfers into one",),
        with_host=True,
    )
