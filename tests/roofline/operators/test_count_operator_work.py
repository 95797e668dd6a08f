"""Operations and least bytes of operators, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sightline.roofline.operators import MODELS, count_operator_work
from sightline.roofline.operators.arguments import parse_arguments
from sightline.roofline.operators.work import OperatorWork

BF16 = "c10::BFloat16"


def work_of(
    name: str,
    *shapes: Sequence[int],
    dtype: str = BF16,
    types: Sequence[str] | None = None,
    values: dict[int, str] | None = None,
    strides: Any = None,
) -> OperatorWork | None:
    texts = [""] * 12
    for place, text in (values or {}).items():
        texts[place] = text
    kinds = types or [dtype if shape else "Scalar" for shape in shapes]
    args = parse_arguments(
        json.dumps(shapes), json.dumps(kinds), json.dumps(strides), json.dumps(texts)
    )
    assert args is not None
    return count_operator_work(name, args)


def counted(work: OperatorWork | None) -> tuple[int | None, int]:
    assert work is not None
    return work.flop, work.moved_bytes


def test_products() -> None:
    """2 × 3 × 5: 60 operations; 6, 15 and 10 elements of two bytes."""
    assert counted(work_of("aten::mm", (2, 3), (3, 5))) == (60, 62)
    assert counted(work_of("aten::mm", (2, 3), (3, 5), (2, 5))) == (60, 62)  # out= is not read
    assert counted(work_of("aten::bmm", (4, 2, 3), (4, 3, 5))) == (240, 248)
    bias = [(5,), (2, 3), (3, 5)]
    assert counted(work_of("aten::addmm", *bias)) == (60, 72)
    assert counted(work_of("aten::addmm", *bias, values={3: "0"})) == (60, 62)
    assert counted(work_of("aten::mv", (2, 3), (3,))) == (12, 22)
    assert counted(work_of("aten::_int_mm", (2, 3), (3, 5), dtype="signed char")) == (60, 61)
    assert counted(work_of("aten::_scaled_mm", (2, 3), (3, 5), dtype="c10::Float8_e4m3fn")) == (
        60,
        41,
    )
    assert counted(work_of("vllm::rocm_unquantized_gemm", (2, 3), (5, 3), (5,))) == (60, 72)


def test_products_that_do_not_fit_have_no_work() -> None:
    assert work_of("aten::mm", (2, 3), (4, 5)) is None
    assert work_of("aten::bmm", (4, 2, 3), (3, 3, 5)) is None
    assert work_of("aten::mm", (2, 3)) is None


CONVOLUTION = {3: "[1]", 4: "[0]", 5: "[1]", 6: "False", 7: "[0]", 8: "1"}


def test_a_convolution() -> None:
    """10 positions, filters of 3: 8 positions of 4 channels, each 2 × 3 products."""
    shapes = ((1, 2, 10), (4, 2, 3), ())
    flop = 2 * 8 * 4 * 6
    assert counted(work_of("aten::convolution", *shapes, values=CONVOLUTION)) == (
        flop,
        2 * (20 + 24 + 32),
    )
    strided = CONVOLUTION | {3: "[2]", 4: "[1]"}  # (10 + 2 - 2 - 1) // 2 + 1 = 5 positions
    assert counted(work_of("aten::convolution", *shapes, values=strided))[0] == 2 * 5 * 4 * 6
    grouped = CONVOLUTION | {8: "2"}
    assert counted(work_of("aten::convolution", (1, 4, 10), (4, 2, 3), (), values=grouped)) == (
        flop,
        2 * (40 + 24 + 32),
    )


def test_a_transposed_convolution() -> None:
    """From 10 positions of 2 channels to 12 of 4: each of the 20 elements meets 4 × 3 weights."""
    values = CONVOLUTION | {6: "True"}
    assert counted(work_of("aten::convolution", (1, 2, 10), (2, 4, 3), (), values=values)) == (
        2 * 20 * 12,
        2 * (20 + 24 + 48),
    )


@pytest.mark.parametrize(
    ("wanted", "times"), [("[True, True, False]", 2), ("[False, True, False]", 1)]
)
def test_gradients_of_a_convolution_that_are_wanted(wanted: str, times: int) -> None:
    shapes = ((1, 4, 8), (1, 2, 10), (4, 2, 3))
    values = {7: "False", 10: wanted}
    assert counted(work_of("aten::convolution_backward", *shapes, values=values)) == (
        times * 384,
        times * 2 * (32 + 20 + 24),
    )


def test_damaged_convolutions_have_no_work() -> None:
    for broken in ({3: "[0]"}, {3: ""}, {4: "[1, 2]"}, {5: "[9]"}, {6: "maybe"}):
        assert (
            work_of("aten::convolution", (1, 2, 10), (4, 2, 3), (), values=CONVOLUTION | broken)
            is None
        )


FLASH = "aten::_scaled_dot_product_flash_attention"


def test_attention() -> None:
    """2 heads, 4 queries, 4 keys of width 8: 32 pairs, or 20 with a causal mask."""
    shape = (1, 2, 4, 8)
    for causal, pairs in (("False", 32), ("True", 20)):
        assert counted(work_of(FLASH, shape, shape, shape, (), (), values={4: causal})) == (
            2 * pairs * 16,
            4 * 64 * 2,
        )
    assert work_of(FLASH, shape, shape, shape) is None  # whether it is causal was not recorded


def test_causal_attention_of_unequal_lengths() -> None:
    """Query i sees keys 0 to i: 1 + 2 + 2 + 2 of two keys, 1 + 2 of four."""
    few, many = (1, 1, 2, 8), (1, 1, 4, 8)
    assert counted(work_of(FLASH, many, few, few, values={4: "True"}))[0] == 2 * 7 * 16
    assert counted(work_of(FLASH, few, many, many, values={4: "True"}))[0] == 2 * 3 * 16


def test_attention_backward_takes_five_products() -> None:
    shape = (1, 2, 4, 8)
    name = "aten::_scaled_dot_product_flash_attention_backward"
    assert counted(work_of(name, *[shape] * 6, values={11: "False"})) == (
        2 * 32 * 5 * 8,
        8 * 64 * 2,
    )


def test_heads_may_stand_after_the_sequence() -> None:
    shape = (1, 4, 2, 8)
    work = work_of("flash_attn::_flash_attn_forward", shape, shape, shape, values={5: "False"})
    assert counted(work) == (2 * 32 * 16, 4 * 64 * 2)


@pytest.mark.parametrize(
    ("name", "shapes", "values", "moved"),
    [
        ("aten::add", [(4, 8), (8,)], {}, 4 * (32 + 8 + 32)),
        ("aten::mul", [(32,), (32,), (32,)], {}, 4 * 96),  # out= is not read
        ("aten::relu", [(32,)], {}, 4 * 64),
        ("aten::add_", [(32,), (32,)], {}, 4 * 96),
        ("aten::copy_", [(32,), (32,)], {}, 4 * 64),
        ("aten::fill_", [(32,)], {}, 4 * 32),
        ("aten::eq", [(32,), (32,)], {}, 4 * 64 + 32),
        ("aten::sum", [(4, 8)], {1: "[0]"}, 4 * (32 + 8)),
        ("aten::mean", [(4, 8)], {1: "[-1, -2]"}, 4 * (32 + 1)),
        ("aten::sum", [(4, 8)], {}, 4 * (32 + 1)),
        ("aten::argmax", [(4, 8)], {1: "1"}, 4 * 32 + 8 * 4),
        ("aten::linalg_norm", [(4, 8), ()], {2: "[-1]"}, 4 * (32 + 4)),
        ("aten::_softmax", [(4, 8)], {}, 4 * 64),
        ("aten::_softmax_backward_data", [(4, 8), (4, 8)], {}, 4 * 96),
        ("aten::layer_norm", [(4, 8), (), (8,), (8,)], {}, 4 * (32 + 16 + 32)),
        ("aten::batch_norm", [(4, 8), (8,), (8,), (8,), (8,)], {5: "True"}, 4 * (64 + 48)),
        ("aten::batch_norm", [(4, 8), (8,), (8,), (8,), (8,)], {5: "False"}, 4 * (64 + 32)),
        ("aten::native_layer_norm_backward", [(4, 8), (4, 8)], {}, 4 * 96),
        ("aten::index_select", [(10, 8), (), (3,)], {1: "0"}, 4 * (24 + 24 + 3)),
    ],
)
def test_what_passes_over_its_tensors_once(
    name: str, shapes: list[tuple[int, ...]], values: dict[int, str], moved: int
) -> None:
    assert counted(work_of(name, *shapes, dtype="float", values=values)) == (None, moved)


def test_an_expanded_operand_is_read_once() -> None:
    strides = [[8, 1], [0, 1]]
    work = work_of("aten::mul", (4, 8), (4, 8), dtype="float", strides=strides)
    assert counted(work) == (None, 4 * (32 + 8 + 32))


def test_the_wider_type_is_written_unless_it_has_no_dimensions() -> None:
    wide = work_of("aten::add", (8,), (8,), types=[BF16, "float"])
    assert counted(wide) == (None, 16 + 32 + 32)
    scalar = work_of("aten::mul", (8,), (), types=[BF16, "double"])
    assert counted(scalar) == (None, 16 + 8 + 16)


def test_shapes_that_are_not_broadcast_have_no_work() -> None:
    assert work_of("aten::add", (4,), (3,)) is None
    assert work_of("aten::sum", (4,), values={1: "[5]"}) is None


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_model_fails_where_nothing_was_recorded(name: str) -> None:
    args = parse_arguments("[]", "[]")
    assert args is not None
    assert count_operator_work(name, args) is None
