"""A report of kernels, ranges, command lists and graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from synth_ncu.wire import message, sized

# Attributes of an A10G, as its reports state them.
A10 = {
    "display_name": "NVIDIA A10G",
    "compute_capability_major": 8,
    "compute_capability_minor": 6,
    "multiprocessor_count": 80,
    "max_gpu_frequency_khz": 1_710_000,
    "max_mem_frequency_khz": 6_251_000,
    "fb_bus_width": 384,
    "total_memory": 23_595_909_120,
    "l2_cache_size": 6_291_456,
    "warp_size": 32,
    "max_warps_per_multiprocessor": 48,
    "max_blocks_per_multiprocessor": 16,
    "max_threads_per_multiprocessor": 1536,
    "max_registers_per_multiprocessor": 65_536,
    "max_shared_memory_per_multiprocessor": 102_400,
    "num_schedulers_per_multiprocessor": 4,
}


@dataclass
class Kernel:
    """A profiled kernel: its metrics are numbers, texts, or (total, {instance: value})."""

    name: str = "scale(float *)"
    function: str = "scale"
    mangled: str = "_Z5scalePf"
    grid: tuple[int, int, int] = (160, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    metrics: dict[str, Any] = field(default_factory=dict)
    nvtx: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    rules: tuple[bytes, ...] = ()
    source: int | None = None
    tid: int = 77
    kind: str = "kernel"
    locked: bool = True


def value(v: Any) -> bytes:
    if isinstance(v, str):
        return message((1, v))
    return message((3, v)) if isinstance(v, float) else message((5, v))


def rule(identifier: str, name: str, section: str, text: str | None = None, **more: Any) -> bytes:
    items = []
    if text is not None:
        parts = [(1, message((1, text), (2, more.get("type", 2)), (3, 1), (4, more.get("title"))))]
        if "focus" in more:
            metric, number = more["focus"]
            parts.append((8, message((1, 1), (2, metric), (3, number), (4, 2))))
        if "speedup" in more:
            parts.append((10, message((1, 2), (2, more["speedup"]))))
        items = [(1, message(*parts))]
    return message((1, identifier), (2, name), (3, message(*items)), (4, section))


def source(
    reference: int,
    binary: bytes,
    functions: dict[str, int],
    file: tuple[str, str] = ("scale.cu", "void scale() {}\n"),
) -> bytes:
    relocations = message(*((1, message((1, n), (2, a), (3, 1))) for n, a in functions.items()))
    files = message((1, message((1, file[0]), (2, file[1]))))
    return message(
        (1, reference), (4, binary), (5, 8), (6, 8 << 16 | 6), (8, files), (9, relocations)
    )


def report(
    kernels: list[Kernel],
    *,
    device: dict[str, Any] | None = A10,
    sources: tuple[bytes, ...] = (),
    version: str = "2024.1.0.0 (build 1)",
    extra: tuple = (),
) -> bytes:
    """A whole report: file header, a block of details, and one block with all the rest."""
    strings: list[str] = []

    def metric(name: str, v: Any) -> bytes:
        if name not in strings:
            strings.append(name)
        total, instances = v if isinstance(v, tuple) else (v, {})
        return message(
            (1, strings.index(name)),
            *([] if total is None else [(2, value(total))]),
            *((3, message((1, value(k)), (2, value(x)))) for k, x in instances.items()),
        )

    def triple(t: tuple[int, int, int]) -> bytes:
        return message(*zip((1, 2, 3), t, strict=True))

    def nvtx(k: Kernel) -> bytes | None:
        if not k.nvtx:
            return None
        stack = message((1, 0), *((3, message((1, n))) for n in k.nvtx))
        return message(
            (1, message((1, 0), (2, "<default domain>"))), (2, message((1, k.tid), (2, stack)))
        )

    def result(k: Kernel) -> bytes:
        metrics = [metric(n, v) for n, v in k.metrics.items()]
        clock = message((1, True), (2, k.locked))
        if k.kind != "kernel":
            names = {"graph": None, "range": None, "command list": "list"}
            return message(
                (1, k.tid),
                *((4, m) for m in metrics),
                (10, nvtx(k)),
                (12 if k.kind == "range" else 13, clock),
                (18, names[k.kind]),
            )
        frames = message(*((1, message((4, f))) for f in k.stack)) if k.stack else None
        return message(
            (1, k.tid),
            (2, 5),
            (5, k.mangled),
            (6, k.function),
            (7, k.name),
            (10, triple(k.grid)),
            (11, triple(k.block)),
            *((13, m) for m in metrics),
            (15, None if k.source is None else message((1, k.source))),
            *((19, r) for r in k.rules),
            (21, nvtx(k)),
            (22, 1),
            (23, 7),
            (25, clock),
            (28, frames),
            *extra,
        )

    order = ["kernel", "range", "command list", "graph"]
    sorted_kernels = sorted(kernels, key=lambda k: order.index(k.kind))
    payload = b"".join(map(sized, [*sources, *map(result, sorted_kernels)]))
    counts = [sum(k.kind == kind for k in kernels) for kind in order]
    details = message(
        (4, message((1, "Linux"), (5, "secret-host"))),
        *(
            [
                (
                    6,
                    message(
                        (1, 0),
                        (2, str(device["display_name"])),
                        *(
                            (3, message((1, f"device__attribute_{n}"), (2, value(v))))
                            for n, v in device.items()
                        ),
                    ),
                )
            ]
            if device
            else []
        ),
        (8, message((1, "Nsight Compute Target"), (2, version))),
        (9, message((4, "TOKEN=secret"))),
    )
    header = message(
        (1, len(sources)),
        (2, counts[0]),
        (4, message(*((1, s) for s in strings))),
        (5, len(payload)),
        (7, counts[1]),
        (8, counts[2]),
        (9, counts[3]),
    )
    return (
        b"NVR\0"
        + sized(message((1, 7)))
        + sized(message((3, details), (5, 0)))
        + sized(header)
        + payload
    )
