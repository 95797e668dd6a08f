"""The kernels of the lab's CUDA programs, as one of their warps sees them.

Counts are those of the loops in lab/NAME/*.cu; registers, shared memory and spilled accesses are
what ptxas 13.0 says of them for sm_90 (`nvcc -arch=sm_90 -Xptxas -v`, and the loop's instructions).
How much the caches hold is reckoned from what a block or the whole grid reads more than once.
"""

from __future__ import annotations

from synth_lab.kernels import Access, Math, Program

LANES = range(32)


def read(addresses: list[int], **more: float) -> Access:
    """A load of global memory."""
    return Access("global", "ld", addresses, **more)  # type: ignore[arg-type]


def write(addresses: list[int], **more: float) -> Access:
    """A store to global memory."""
    return Access("global", "st", addresses, **more)  # type: ignore[arg-type]


def row(stride: int = 4, start: int = 0) -> list[int]:
    """Addresses of a warp whose threads are `stride` bytes apart."""
    return [start + stride * lane for lane in LANES]


def drift(structures: bool) -> Program:
    """memory-metrics: x and vx lie 12 of 32 bytes apart, or in arrays of their own."""
    stride = 32 if structures else 4
    parts = [
        Math("other", 8),
        read(row(stride), waits=1, line=29),
        # The same sectors again, or others.
        read(row(stride, 12 if structures else 0), in_l1=float(structures), line=29),
        Math("fma", 1, waits=1),
        write(row(stride), line=29),
    ]
    name = "drift(Particle *, float)" if structures else "drift(Particles, float)"
    return Program(name, ((1 << 24) // 256, 1, 1), (256, 1, 1), 8 if structures else 10, parts)


def transpose(padding: int) -> Program:
    """bank-conflicts: rows into a tile, columns out of it."""
    width = 32 + padding
    parts = [
        Math("other", 24),
        read(row(), count=4, waits=1),
        Access("shared", "st", row(), count=4),
        Access("shared", "ld", row(4 * width), count=4, waits=4),
        write(row(), count=4),
    ]
    return Program(
        "transpose(const float *, float *)",
        (128, 128, 1),
        (32, 8, 1),
        20,
        parts,
        shared_bytes=32 * width * 4,
        barriers=1,
    )


def walk(room: int) -> Program:
    """compute-metrics: 64 hops, each to a node that the one before names."""
    hops = 64
    parts = [
        Math("other", 20),
        Access("shared", "ld", [0] * 32, count=hops, waits=0),
        read([0] * 32, count=hops, waits=hops, in_l2=1.0),  # next[node]: 4 MiB, which the L2 holds
        read(row(), count=hops),  # 128 MiB of features in random order
        Math("other", 3 * hops),
        Math("fma", hops),
        write(row()),
    ]
    return Program(
        "walk(const float *, const int *, const float *, float *)",
        ((1 << 20) // 4, 1, 1),
        (128, 1, 1),
        32,
        parts,
        shared_bytes=room,
        barriers=1,
    )


def update(mixed: bool) -> Program:
    """divergence: eight paths with four threads each, or one with all."""
    paths, threads = (8, 4) if mixed else (1, 32)
    taken = row()[::8] if mixed else row()
    parts = [
        Math("other", 10),
        read(row(), waits=1),
        read(row()),
        Math("other", 2 * paths, threads=threads),
        Math("fma", 64 * paths, waits=64 * paths, threads=threads),
        write(taken, count=paths),
    ]
    return Program("update(const int *, float *)", ((1 << 22) // 256, 1, 1), (256, 1, 1), 12, parts)


def recur(spilled: bool) -> Program:
    """register-spill: 64 sums of a thread, which 32 registers do not hold."""
    rounds = 256
    parts = [
        Math("other", 80 + 11 * rounds),
        read(row(), count=rounds, waits=rounds / 4),
        Math("fma", 64 * rounds, waits=rounds),
        write(row()),
    ]
    if spilled:
        # 640 bytes of each of 2,048 threads; the L1 has 256 KiB, the L2 holds the rest.
        kept: dict[str, float] = {"count": 67.5 * rounds, "in_l1": 0.2, "in_l2": 1.0}
        parts += [
            Access("local", "ld", row(), waits=rounds, **kept),  # type: ignore[arg-type]
            Access("local", "st", row(), **kept),  # type: ignore[arg-type]
        ]
    return Program(
        "recur(const float *, float *)",
        ((1 << 18) // 256, 1, 1),
        (256, 1, 1),
        32 if spilled else 88,
        parts,
    )


def evaluate(blocks: int) -> Program:
    """tail-effect: 4,718,592 items in so many blocks."""
    items = 288 * 16_384 / blocks / 1024  # of a thread
    parts = [
        Math("other", 12 + 4 * items),
        read(row(), count=items, waits=items),
        Math("fma", 256 * items, waits=256 * items),
        write(row(), count=items),
    ]
    return Program("evaluate(float *, int)", (blocks, 1, 1), (1024, 1, 1), 12, parts)


def multiply_naive() -> Program:
    """optimization-loop: two loads for each multiplication."""
    turns = 2048
    parts = [
        Math("other", 20 + turns),
        read([0] * 32, count=turns, in_l1=0.97, in_l2=0.9),  # one value of a for the warp
        read(row(), count=turns, waits=turns / 4, in_l1=0.97, in_l2=0.9),
        Math("fma", turns, waits=turns),
        write(row()),
    ]
    return Program(
        "multiply(const float *, const float *, float *)", (64, 64, 1), (32, 32, 1), 32, parts
    )


def multiply_tiled() -> Program:
    """optimization-loop: tiles of 32 × 32, of which a thread sums eight elements."""
    tiles = 2048 // 32
    parts = [
        Math("other", 20 + 20 * tiles),
        read(row(), count=16 * tiles, waits=tiles, in_l2=0.9),
        Access("shared", "st", row(), count=16 * tiles),
        Access("shared", "ld", row(), count=32 * tiles, waits=8 * tiles),
        # Eight values of a row of `left`, four at a time.
        Access("shared", "ld", [0] * 32, count=2 * 32 * tiles, size=16),
        Math("fma", 8 * 32 * tiles, waits=32 * tiles),
        write(row(), count=8),
    ]
    return Program(
        "multiply(const float *, const float *, float *)",
        (64, 64, 1),
        (32, 4, 1),
        56,
        parts,
        shared_bytes=8_192,
        barriers=2 * tiles,
    )


# Baseline and improved, and how often the program launches them.
KERNELS: dict[str, tuple[Program, Program, int]] = {
    "memory-metrics": (drift(True), drift(False), 20),
    "bank-conflicts": (transpose(0), transpose(1), 20),
    "compute-metrics": (walk(49_152), walk(256), 20),
    "divergence": (update(True), update(False), 20),
    "register-spill": (recur(True), recur(False), 10),
    "tail-effect": (evaluate(288), evaluate(264), 20),
    "optimization-loop": (multiply_naive(), multiply_tiled(), 10),
}
