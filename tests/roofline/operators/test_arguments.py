"""An operator's recorded arguments: what is read of them, and what is refused."""

from __future__ import annotations

import pytest

from sightline.roofline.operators.arguments import Tensor, parse_arguments


def test_tensors_values_and_what_is_neither() -> None:
    args = parse_arguments(
        "[[2,3],[],[4]]", '["float","Scalar","c10::Half"]', "[[3,1],[],[1]]", '["","[1, 2]","True"]'
    )
    assert args is not None
    assert args.inputs == (Tensor((2, 3), "float", (3, 1)), None, Tensor((4,), "c10::Half", (1,)))
    assert (args.integers(1), args.flag(2), args.value(0), args.value(9)) == (
        (1, 2),
        True,
        None,
        None,
    )
    assert [t.stored_bytes for t in args.tensors()] == [24, 8]


def test_an_expanded_tensor_is_stored_once() -> None:
    assert Tensor((8, 16), "float", (0, 1)).stored_bytes == 64
    assert Tensor((8, 0), "float", (0, 1)).stored_bytes == 0


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        (None, '["float"]'),
        ("[[2]]", None),
        ("7", '["float"]'),
        ("[[2],[3]]", '["float"]'),
        ("[[2", '["float"]'),
        ("[" * 100_000, '["float"]'),
    ],
)
def test_arguments_that_make_no_sense(shapes: str | None, types: str | None) -> None:
    assert parse_arguments(shapes, types) is None


@pytest.mark.parametrize("shape", ["[-1]", "[2.5]", '["2"]', "[true]", "[1099511627776]", "[[2]]"])
def test_a_shape_that_is_none(shape: str) -> None:
    args = parse_arguments(f"[{shape}]", '["float"]')
    assert args is not None
    assert args.inputs == (None,)
