"""A caching allocator as PyTorch's works, event by event, and the snapshot that it would dump.

Sizes: blocks of 512 bytes, small segments of 2 MiB for requests up to 1 MiB, segments of 20 MiB for
requests under 10 MiB, else a multiple of 2 MiB; the best fit is split where enough is left
(c10/cuda/CUDACachingAllocator.cpp). It shares no code with what is tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
Stack = list[dict[str, Any]]


@dataclass
class Block:
    address: int
    size: int
    asked: int = 0
    stack: Stack = field(default_factory=list)
    used: bool = False


@dataclass
class Segment:
    address: int
    size: int
    small: bool
    blocks: list[Block]


class OutOfMemoryError(Exception):
    """The simulated device is full."""


class Allocator:
    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.segments: list[Segment] = []
        self.events: list[dict[str, Any]] = []
        self._next = 1 << 32
        self._time = 1_000_000

    @property
    def reserved(self) -> int:
        return sum(s.size for s in self.segments)

    @property
    def allocated(self) -> int:
        return sum(b.asked for s in self.segments for b in s.blocks if b.used)

    def alloc(self, asked: int, stack: Stack) -> Block:
        size = -(-asked // 512) * 512
        small = size <= MIB
        found = self._find(size, small) or self._grow(size, small, asked, stack)
        segment, block = found
        left = block.size - size
        if left >= 512 if small else left > MIB:
            rest = Block(block.address + size, left)
            segment.blocks.insert(segment.blocks.index(block) + 1, rest)
            block.size = size
        block.asked, block.stack, block.used = asked, stack, True
        self._tell("alloc", block.address, asked, stack)
        return block

    def free(self, block: Block) -> None:
        self._tell("free_requested", block.address, block.asked)
        self._tell("free_completed", block.address, block.asked)
        block.used, block.stack, block.asked = False, [], 0
        segment = next(s for s in self.segments if block in s.blocks)
        merged: list[Block] = []
        for one in segment.blocks:
            if merged and not merged[-1].used and not one.used:
                merged[-1].size += one.size
            else:
                merged.append(one)
        segment.blocks = merged

    def empty_cache(self) -> None:
        for segment in [s for s in self.segments if not any(b.used for b in s.blocks)]:
            self._tell("segment_free", segment.address, segment.size)
            self.segments.remove(segment)

    def _find(self, size: int, small: bool) -> tuple[Segment, Block] | None:
        fits = [
            (b.size, b.address, s, b)
            for s in self.segments
            if s.small == small
            for b in s.blocks
            if not b.used and b.size >= size
        ]
        if not fits:
            return None
        *_, segment, block = min(fits, key=lambda f: f[:2])
        return segment, block

    def _grow(self, size: int, small: bool, asked: int, stack: Stack) -> tuple[Segment, Block]:
        if small:
            whole = 2 * MIB
        elif size < 10 * MIB:
            whole = 20 * MIB
        else:
            whole = -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + whole > self.capacity:
            self.empty_cache()
        if self.reserved + whole > self.capacity:
            self._tell("oom", 0, asked, stack, device_free=self.capacity - self.reserved)
            raise OutOfMemoryError
        block = Block(self._next, whole)
        segment = Segment(self._next, whole, small, [block])
        self._next += whole + 64 * MIB
        self.segments.append(segment)
        self._tell("segment_alloc", segment.address, whole, stack)
        return segment, block

    def _tell(
        self, action: str, address: int, size: int, stack: Stack | None = None, **more: Any
    ) -> None:
        self._time += 10
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": self._time,
                "frames": list(stack or []),
                **more,
            }
        )

    def snapshot(self) -> dict[str, Any]:
        return {
            "segments": [
                {
                    "device": 0,
                    "address": s.address,
                    "total_size": s.size,
                    "allocated_size": sum(b.size for b in s.blocks if b.used),
                    "active_size": sum(b.size for b in s.blocks if b.used),
                    "requested_size": sum(b.asked for b in s.blocks),
                    "stream": 0,
                    "segment_type": "small" if s.small else "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [
                        {
                            "address": b.address,
                            "size": b.size,
                            "requested_size": b.asked,
                            "state": "active_allocated" if b.used else "inactive",
                            "frames": b.stack,
                        }
                        for b in s.blocks
                    ],
                }
                for s in self.segments
            ],
            "device_traces": [self.events],
            "allocator_settings": {},
            "external_annotations": [],
        }
