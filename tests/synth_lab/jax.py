"""A JAX program as XLA's profiler records it: each operation dispatched by itself, or a step.

Times are in ns; the file has picoseconds.
"""

from __future__ import annotations

from typing import Any

from sightline.core.protobuf import declare_messages

MESSAGES = declare_messages(
    """
XSpace: 1 planes []XPlane
XPlane: 1 id int, 2 name text, 3 lines []XLine, 4 event_metadata []Entry, 5 stat_metadata []Entry,
    6 stats []XStat
Entry: 1 key int, 2 value Named
Named: 1 id int, 2 name text
XLine: 1 id int, 2 name text, 3 timestamp_ns int, 4 events []XEvent
XEvent: 1 metadata_id int, 2 offset_ps int, 3 duration_ps int, 4 stats []XStat
XStat: 1 metadata_id int, 3 uint64_value uint, 5 str_value text
"""
)
STEPS, LAYERS = 30, 8
# Ours, of the order of JAX's own figures: an operation outside of jit costs the host some tens of
# microseconds, a call of a jitted function as much once.
DISPATCH_NS, LAUNCH_NS, LATENCY_NS, GAP_NS = 32_000, 4_500, 2_000, 900
OPERATIONS = (
    ("dot_general", "gemm_fusion_dot_general", 11_000),
    ("add", "wrapped_add", 2_600),
    ("max", "wrapped_maximum", 2_600),
)
FUSED = (("gemm_fusion_dot_general", 11_000), ("loop_add_maximum_fusion", 3_100))


def record(jitted: bool) -> bytes:
    """A profile of some steps of a perceptron's forward pass."""
    calls: list[tuple[int, int, str, int]] = []
    work: list[tuple[int, int, str, int]] = []
    now = free = number = 0

    def launch(kernel: str, length: int) -> None:
        nonlocal now, free, number
        number += 1
        calls.append((now, now + LAUNCH_NS, "cuLaunchKernelEx", number))
        start = max(now + LAUNCH_NS + LATENCY_NS, free + GAP_NS)
        work.append((start, start + length, kernel, number))
        now, free = now + LAUNCH_NS, start + length

    for _ in range(STEPS):
        begin = now
        if jitted:
            now += DISPATCH_NS
            for _ in range(LAYERS):
                for kernel, length in FUSED:
                    launch(kernel, length)
            calls.append((begin, now, "PjitFunction(run_step)", 0))
            now += 1_000
            continue
        for _ in range(LAYERS):
            for name, kernel, length in OPERATIONS:
                inside = now
                now += DISPATCH_NS
                launch(kernel, length)
                calls.append((inside, now, f"PjitFunction({name})", 0))
                now += 1_000
    return _write(calls, work)


def _write(calls: list[tuple[int, int, str, int]], work: list[tuple[int, int, str, int]]) -> bytes:
    names = list(dict.fromkeys(name for _, _, name, _ in (*calls, *work)))
    shared: dict[str, Any] = {
        "event_metadata": [
            {"key": i, "value": {"id": i, "name": n}} for i, n in enumerate(names, 1)
        ],
        "stat_metadata": [
            {"key": i, "value": {"id": i, "name": n}}
            for i, n in ((1, "correlation_id"), (2, "device_vendor"), (3, "device_type_string"))
        ],
    }

    def tell(slices: list[tuple[int, int, str, int]]) -> list[dict[str, Any]]:
        return [
            {
                "metadata_id": 1 + names.index(name),
                "offset_ps": 1000 * start,
                "duration_ps": 1000 * (end - start),
                "stats": [{"metadata_id": 1, "uint64_value": number}] if number else [],
            }
            for start, end, name, number in sorted(slices, key=lambda s: (s[0], -s[1]))
        ]

    space = MESSAGES["XSpace"]()
    space.planes.add(
        id=1,
        name="/device:GPU:0",
        lines=[{"id": 13, "name": "Stream #13(Compute)", "events": tell(work)}],
        stats=[
            {"metadata_id": 2, "str_value": "Nvidia"},
            {"metadata_id": 3, "str_value": "NVIDIA H100 80GB HBM3"},
        ],
        **shared,
    )
    thread = {"id": 4_000, "name": "python", "events": tell(calls)}
    space.planes.add(id=2, name="/host:CPU", lines=[thread], **shared)
    data: bytes = space.SerializeToString(deterministic=True)
    return data
