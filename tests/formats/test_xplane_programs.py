"""Buffer assignments of XLA's programs: what is live when, from messages written by protobuf."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import sightline
from sightline.core.protobuf import DamagedMessageError, declare_messages
from sightline.formats.jax.xplane.programs import list_buffers
from support.command import sightline as command
from support.xplane_planes import MESSAGES

HLO = declare_messages(
    """
HloProto: 1 hlo_module HloModule, 3 buffer_assignment BufferAssignment
HloModule: 3 computations []Computation
Computation: 2 instructions []Instruction
Instruction: 1 name text, 3 shape Shape, 7 metadata Metadata, 35 id int
Shape: 2 element_type int, 3 dimensions []int, 4 tuple_shapes []Shape
Metadata: 2 op_name text, 3 source_file text, 4 source_line int
BufferAssignment: 1 logical_buffers []LogicalBuffer, 3 buffer_allocations []Allocation,
    4 heap_simulator_traces []HeapTrace
LogicalBuffer: 1 id int, 2 size int, 3 defined_at Place
Place: 3 shape_index []int, 4 instruction_id int
Allocation: 1 index int, 2 size int, 5 is_parameter bool, 7 maybe_live_out bool,
    9 assigned []Assigned
Assigned: 1 logical_buffer_id int
HeapTrace: 1 events []HeapEvent
HeapEvent: 1 kind int, 2 buffer_id int, 5 share_with_canonical_id int
"""
)
ALLOC, FREE, SHARE = range(3)


def write_program(events: list[tuple[int, ...]], temporaries: dict[int, int]) -> bytes:
    """A parameter of 1000 bytes, an output of 200, and a heap of temporaries."""
    instructions = [
        {"id": 1, "name": "x", "shape": {"element_type": 11, "dimensions": [250]}},
        {"id": 2, "name": "dot.1", "shape": {"element_type": 13, "tuple_shapes": [
            {"element_type": 16, "dimensions": [10, 10]}]},
         "metadata": {"op_name": "jit(f)/dot", "source_file": "model.py", "source_line": 7}},
        {"id": 3, "name": "fusion", "shape": {"element_type": 5, "dimensions": [8]}},
    ]  # fmt: skip
    buffers = [
        {"id": 1, "size": 1000, "defined_at": {"instruction_id": 1}},
        {"id": 2, "size": 200, "defined_at": {"instruction_id": 2, "shape_index": [0]}},
        *({"id": n, "size": size, "defined_at": {"instruction_id": 3}}
          for n, size in temporaries.items()),
    ]  # fmt: skip
    allocations = [
        {"index": 0, "size": 1000, "is_parameter": True, "assigned": [{"logical_buffer_id": 1}]},
        {"index": 1, "size": 200, "maybe_live_out": True, "assigned": [{"logical_buffer_id": 2}]},
        {"index": 2, "size": 512, "assigned": [{"logical_buffer_id": n} for n in temporaries]},
    ]
    heap = [dict(zip(("kind", "buffer_id", "share_with_canonical_id"), e, strict=False))
            for e in events]  # fmt: skip
    proto = HLO["HloProto"](
        hlo_module={"computations": [{"instructions": instructions}]},
        buffer_assignment={
            "logical_buffers": buffers,
            "buffer_allocations": allocations,
            "heap_simulator_traces": [{"events": heap}] if heap else [],
        },
    )
    data: bytes = proto.SerializeToString()
    return data


def find_live(events: list[tuple[int, ...]], temporaries: dict[int, int]) -> dict[int, Any]:
    rows = list_buffers("jit_f(1)", write_program(events, temporaries))
    return {row["buffer"]: row["at_peak"] for row in rows if row["buffer_kind"] == "temporary"}


def test_what_becomes_what() -> None:
    rows = list(list_buffers("jit_f(1)", write_program([(ALLOC, 3), (FREE, 3)], {3: 64})))
    names = (
        "allocation",
        "buffer_kind",
        "bytes",
        "instruction",
        "operation",
        "shape",
        "file",
        "line",
    )
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, "parameter", 1000, "x", None, "f32[250]", None, None),
        (1, "output", 200, "dot.1{0}", "jit(f)/dot", "bf16[10,10]", "model.py", 7),
        (2, "temporary", 64, "fusion", None, "s64[8]", None, None),
    ]


@pytest.mark.parametrize(
    ("events", "live"),
    [
        # 3 and 4 together are more than 5 alone.
        ([(ALLOC, 3), (ALLOC, 4), (FREE, 3), (FREE, 4), (ALLOC, 5), (FREE, 5)], {3, 4}),
        # 4 has the bytes of 3, so that 3 is free only after both are.
        ([(ALLOC, 3), (SHARE, 4, 3), (FREE, 3), (ALLOC, 5), (FREE, 4), (FREE, 5)], {3, 5}),
        ([(ALLOC, 5), (FREE, 5), (FREE, 5), (FREE, 9), (ALLOC, 3)], {5}),
    ],
)
def test_live_at_the_peak(events: list[tuple[int, ...]], live: set[int]) -> None:
    found = find_live(events, {3: 100, 4: 100, 5: 150})
    assert {number for number, is_live in found.items() if is_live} == live


def test_without_a_simulated_heap_nobody_knows() -> None:
    assert find_live([], {3: 100}) == {3: None}


def test_buffers_that_share_in_a_circle() -> None:
    assert find_live([(SHARE, 3, 4), (SHARE, 4, 3), (ALLOC, 3), (FREE, 4)], {3: 1, 4: 1})


def test_damage() -> None:
    whole = write_program([(ALLOC, 3), (ALLOC, 4), (FREE, 3)], {3: 100, 4: 50})
    random = Random(5)
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            content[random.randrange(len(content))] = random.randrange(256)
        del content[random.randrange(len(content)) if random.random() < 0.3 else len(content) :]
        try:
            rows = list(list_buffers("f", bytes(content)))
        except DamagedMessageError:
            continue
        assert len(rows) <= 4


def test_screen_and_totals(tmp_path: Path) -> None:
    space = MESSAGES["XSpace"]()
    space.planes.add(
        id=1,
        name="/host:CPU",
        event_metadata=[{"key": 1, "value": {"id": 1, "name": "f"}}],
        lines=[{"id": 4, "name": "python", "events": [{"metadata_id": 1, "duration_ps": 9_000}]}],
    )
    plane = space.planes.add(
        id=2,
        name="/host:metadata",
        stat_metadata=[{"key": 1, "value": {"id": 1, "name": "Hlo Proto"}}],
    )
    program = write_program([(ALLOC, 3), (FREE, 3), (ALLOC, 4)], {3: 300, 4: 100})
    stat = {"metadata_id": 1, "bytes_value": program}
    plane.event_metadata.add(key=1, value={"id": 1, "name": "jit_f(1)", "stats": [stat]})
    path = tmp_path / "run.xplane.pb"
    path.write_bytes(space.SerializeToString())
    (row,) = sightline.open(str(path)).ask("program_memory").to_dicts()
    assert (row["total_bytes"], row["peak_bytes"]) == (1712, 1500)
    done = command("memory", path)
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split()[:3] == ["jit_f(1)", "1.712", "kB"]
    assert "temporary  s64[8] fusion" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
