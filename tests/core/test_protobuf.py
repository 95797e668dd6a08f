"""Declared protobuf messages: against a writer of their own, streamed, and damaged."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.protobuf import (
    DamagedMessageError,
    as_dict,
    declare_messages,
    parse_message,
    read_messages,
)
from synth_ncu.wire import message, varint

MESSAGES = declare_messages(
    """
Node: 1 id uint, 2 delta sint, 3 signed int, 4 name text, 5 raw bytes, 6 weight double, 7 part
    float, 8 flag bool, 9 flow fixed64, 10 short fixed32, 11 inner Node, 12 nodes []Node, 13 many
    [packed]uint, 14 few []uint, 15 names []text
Other: 1 node Node
"""
)
Node = MESSAGES["Node"]


def test_every_kind_is_read():
    data = (
        message((1, 2**64 - 1))
        + message((2, 5), (3, 2**64 - 2), (4, "né"), (5, b"\xff"), (6, 0.5))
        + b"\x3d" + struct.pack("<f", 1.5)
        + message((8, 1))
        + b"\x49" + struct.pack("<Q", 9)
        + b"\x55" + struct.pack("<I", 10)
        + message((11, message((1, 3))), (12, message((1, 4))), (12, b""))
        + message((13, b"\x01\x80\x01"), (14, 7), (14, 8), (15, "a"), (15, b"\xff"))
        + message((99, "what no one declared"))
    )  # fmt: skip
    assert as_dict(parse_message(Node, memoryview(data))) == {
        "id": 2**64 - 1,
        "delta": -3,
        "signed": -2,
        "name": "né",
        "raw": b"\xff",
        "weight": 0.5,
        "part": 1.5,
        "flag": True,
        "flow": 9,
        "short": 10,
        "inner": {"id": 3},
        "nodes": [{"id": 4}, {}],
        "many": [1, 128],
        "few": [7, 8],
        "names": ["a", "\N{REPLACEMENT CHARACTER}"],
    }


def test_repeated_numbers_are_packed_where_declared_so():
    assert Node(many=[1, 128]).SerializeToString() == message((13, b"\x01\x80\x01"))
    assert Node(few=[1, 2]).SerializeToString() == message((14, 1), (14, 2))


def test_a_field_of_another_type_is_skipped():
    assert as_dict(parse_message(Node, message((4, 5), (1, 6)))) == {"id": 6}


@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_damaged(data):
    try:
        as_dict(parse_message(Node, data))
    except DamagedMessageError as error:
        assert str(error) == "its bytes are not a Node message"


@given(
    values=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40) | st.integers(0, 9))),
    chunk=st.integers(1, 50),
    cut=st.integers(1, 20),
)
def test_a_stream_of_messages(values, chunk, cut):
    data = b"\x19" + bytes(8) + message(*values) + b"\x1d" + bytes(4)
    wanted = [v for n, v in values if n == 1 and isinstance(v, bytes)]
    assert [bytes(v) for v in read_messages(io.BytesIO(data), 1, chunk_bytes=chunk)] == wanted
    found = []
    try:
        for value in read_messages(io.BytesIO(data[:-cut]), 1, chunk_bytes=chunk):
            found.append(bytes(value))
    except DamagedMessageError:
        pass
    assert found == wanted[: len(found)]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01",
        b"\x0b",
        b"\x0a\x05abc",
        b"\x0a" + varint(2**40),
        b"\x08" + b"\xff" * 11,
    ],
    ids=["number 0", "group", "cut off", "too long", "endless number"],
)
def test_a_damaged_stream(data):
    with pytest.raises(DamagedMessageError):
        list(read_messages(io.BytesIO(data), 1))


def test_a_length_that_lies_costs_no_memory():
    class Counting(io.BytesIO):
        asked = 0

        def read(self, size=-1):
            self.asked = max(self.asked, size)
            return super().read(size)

    stream = Counting(b"\x0a" + varint(2**31 - 1) + bytes(100))
    with pytest.raises(DamagedMessageError):
        list(read_messages(stream, 1))
    assert stream.asked <= 1 << 20
