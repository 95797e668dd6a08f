"""How XLA laid out the memory of its programs: their buffer assignments.

A profile holds each program that ran as an HloProto (openxla/xla, xla/service/hlo.proto), with the
allocations, the buffers placed in them, and the order in which the heap simulator made and freed
those of the temporary allocation: what is live at its peak follows from that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.protobuf import (
    DamagedMessageError,
    declare_messages,
    decode_text,
    parse_message,
)
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX

_MESSAGES = declare_messages(
    """
HloProto: 1 hlo_module HloModule, 3 buffer_assignment BufferAssignment
HloModule: 3 computations []Computation, 25 stack_frame_index FrameIndex
Computation: 2 instructions []Instruction
Instruction: 1 name text, 3 shape Shape, 7 metadata Metadata, 35 id int
Shape: 2 element_type int, 3 dimensions [packed]int, 4 tuple_shapes []Shape
Metadata: 2 op_name text, 3 source_file text, 4 source_line int, 15 stack_frame_id int
FrameIndex: 1 file_names []bytes, 3 file_locations []Location, 4 stack_frames []StackFrame
Location: 1 file_name_id int, 3 line int
StackFrame: 1 file_location_id int
BufferAssignment: 1 logical_buffers []LogicalBuffer, 3 buffer_allocations []Allocation,
    4 heap_simulator_traces []HeapTrace
LogicalBuffer: 1 id int, 2 size int, 3 defined_at Place
Place: 3 shape_index [packed]int, 4 instruction_id int
Allocation: 1 index int, 2 size int, 3 is_thread_local int, 5 is_parameter int,
    7 maybe_live_out int, 8 color int, 9 assigned []Assigned, 12 is_constant int
Assigned: 1 logical_buffer_id int
HeapTrace: 1 events []HeapEvent
HeapEvent: 1 kind int, 2 buffer_id int, 5 share_with_canonical_id int
"""
)
_ALLOC, _FREE, _SHARE = 0, 1, 2  # HeapSimulatorTrace.Event.Kind
# PrimitiveType of xla/xla_data.proto, as HLO text spells it.
_TYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128",
    19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz",
    25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1",
    32: "f4e2m1fn", 33: "f8e8m0fnu",
}  # fmt: skip
_TUPLE = 13
_MOST_DIMENSIONS = 64  # of a shape that is written out; XLA's own arrays have far fewer
SCHEMA = {
    "program": pl.String, "allocation": pl.Int64, "allocation_bytes": pl.Int64,
    "memory_space": pl.Int64, "buffer_kind": pl.String, "buffer": pl.Int64, "bytes": pl.Int64,
    "instruction": pl.String, "operation": pl.String, "shape": pl.String, "file": pl.String,
    "line": pl.Int64, "at_peak": pl.Boolean,
}  # fmt: skip


class _Buffer(NamedTuple):
    size: int
    instruction: Any  # None where the module lacks it
    place: tuple[int, ...]  # in the tuple that the instruction gives


def list_buffers(program: str, data: bytes) -> Iterator[dict[str, Any]]:
    """Rows of program_buffers, of one HloProto. Raises DamagedMessageError."""
    proto = parse_message(_MESSAGES["HloProto"], data)
    assignment = proto.buffer_assignment
    instructions = {
        instruction.id: instruction
        for computation in proto.hlo_module.computations
        for instruction in computation.instructions
    }
    buffers = {
        one.id: _Buffer(
            one.size,
            instructions.get(one.defined_at.instruction_id),
            tuple(one.defined_at.shape_index),
        )
        for one in assignment.logical_buffers
    }
    live, simulated = _find_live(assignment.heap_simulator_traces, buffers)
    for allocation in assignment.buffer_allocations:
        if not 0 <= allocation.size <= INT64_MAX:
            raise DamagedMessageError("an allocation of impossible size")
        kind = _name_kind(allocation)
        place = {
            "program": program,
            "allocation": allocation.index,
            "allocation_bytes": allocation.size,
            "memory_space": allocation.color,
            "buffer_kind": kind,
        }
        inside = [one.logical_buffer_id for one in allocation.assigned]
        inside = [number for number in inside if number in buffers]
        if not inside:
            yield place | {"at_peak": kind != "temporary"}
            continue
        # All of an allocation that outlives the program's run is taken: by the largest in it.
        largest = max(inside, key=lambda number: buffers[number].size)
        is_simulated = not simulated.isdisjoint(inside)
        for number in inside:
            is_live = number == largest
            if kind == "temporary":
                is_live = number in live if is_simulated else None
            buffer = buffers[number]
            told = _describe_buffer(buffer, proto.hlo_module.stack_frame_index)
            yield place | {"buffer": number, "bytes": buffer.size, "at_peak": is_live} | told


def _name_kind(allocation: Any) -> str:
    """What XLA's own memory viewer calls it, in its order."""
    if allocation.is_parameter:
        return "parameter"
    if allocation.maybe_live_out:
        return "output"
    if allocation.is_thread_local:
        return "thread_local"
    return "constant" if allocation.is_constant else "temporary"


def _find_live(traces: Any, buffers: dict[int, _Buffer]) -> tuple[set[int], set[int]]:
    """The buffers that are live at the peak of each simulated heap, and all that a heap had."""
    found: set[int] = set()
    simulated: set[int] = set()
    for trace in traces:
        shared: dict[int, int] = {}  # a buffer, and the one whose bytes it has
        users: dict[int, int] = {}
        live: dict[int, None] = {}
        heap = peak = 0
        at_peak: set[int] = set()
        for event in trace.events:
            own = event.buffer_id
            if event.kind == _SHARE:
                own = shared[event.buffer_id] = _follow(shared, event.share_with_canonical_id)
            own = _follow(shared, own)
            if own not in buffers:
                continue
            simulated.add(own)
            if event.kind in (_ALLOC, _SHARE):
                users[own] = users.get(own, 0) + 1
                if users[own] == 1:
                    live[own] = None
                    heap += buffers[own].size
                if heap > peak:
                    peak, at_peak = heap, set(live)
            elif event.kind == _FREE and users.get(own):
                users[own] -= 1
                if not users[own]:
                    del live[own]
                    heap -= buffers[own].size
        found |= at_peak
    return found, simulated


def _follow(shared: dict[int, int], number: int) -> int:
    """The buffer that really has the bytes; a circle of a damaged file ends where it began."""
    begun = number
    while (other := shared.get(number, number)) != number:
        number = other
        if number == begun:
            break
    return number


def _describe_buffer(buffer: _Buffer, index: Any) -> dict[str, Any]:
    if buffer.instruction is None:
        return {}
    name = _text(buffer.instruction.name)
    if buffer.place:
        name = f"{name}{{{','.join(map(str, buffer.place))}}}"
    metadata = buffer.instruction.metadata
    file, line = _text(metadata.source_file), metadata.source_line
    if not file:
        file, line = _find_line(index, metadata.stack_frame_id)
    return {
        "instruction": name,
        "operation": _text(metadata.op_name),
        "shape": _spell_shape(buffer.instruction.shape, buffer.place),
        "file": file,
        "line": line if file and 0 < line <= INT64_MAX else None,
    }


def _find_line(index: Any, frame: int) -> tuple[str | None, int]:
    """The innermost place of a stack, whose parts are numbered from 1."""
    if not 0 < frame <= len(index.stack_frames):
        return None, 0
    place = index.stack_frames[frame - 1].file_location_id
    if not 0 < place <= len(index.file_locations):
        return None, 0
    location = index.file_locations[place - 1]
    if not 0 < location.file_name_id <= len(index.file_names):
        return None, 0
    return _text(index.file_names[location.file_name_id - 1]), location.line


def _spell_shape(shape: Any, index: tuple[int, ...]) -> str | None:
    for place in index:
        if not 0 <= place < len(shape.tuple_shapes):
            return None
        shape = shape.tuple_shapes[place]
    if shape.element_type == _TUPLE:
        return "tuple"
    if shape.element_type not in _TYPES or len(shape.dimensions) > _MOST_DIMENSIONS:
        return None
    return f"{_TYPES[shape.element_type]}[{','.join(map(str, shape.dimensions))}]"


def _text(value: str | bytes) -> str | None:
    return replace_surrogates(decode_text(value)) or None
