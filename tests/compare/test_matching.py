"""Which operations are the same: rung by rung, and what fused kernels' names tell."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.compare.comparison import find_shifts, name_change
from sightline.compare.matching import list_pairs, match_leaves, name_variant

_Named = tuple[str, str | None, str | None]  # kernel, operator, place
_SCHEMA = {
    "part": pl.String, "name": pl.String, "operator": pl.String, "outer_operator": pl.String,
    "place": pl.String, "ns": pl.Int64, "instances": pl.Float64, "total_ns": pl.Float64,
}  # fmt: skip


def _leaves(*rows: tuple[str, str | None, str | None, int, int]) -> pl.DataFrame:
    """Compute kernels: name, operator (its own outermost), place, ns, launches."""
    full = [("compute", n, o, o, p, ns, float(k), float(ns)) for n, o, p, ns, k in rows]
    return pl.DataFrame(full, schema=_SCHEMA, orient="row")


def _pairs(before: pl.DataFrame, after: pl.DataFrame) -> list[tuple[str, list[str], list[str]]]:
    pairs = list_pairs(match_leaves(before, after)).sort("pair")
    return pairs.select("grade", "before_names", "after_names").rows()


@pytest.mark.parametrize(
    ("grade", "before", "after"),
    [
        ("exact", ("k", "aten::a", "M"), ("k", "aten::a", "M")),
        ("exact", ("k", "aten::a", "M"), ("k", None, None)),  # nsys knows no operators
        ("spelling", ("void f<4>(int)", None, None), ("f<4>(int)", None, None)),
        ("spelling", ("Memcpy HtoD (Pinned -> Device)", None, None),
                     ("[CUDA memcpy Host-to-Device]", None, None)),
        ("spelling", ("Memset (Device)", None, None), ("[CUDA memset]", None, None)),
        ("variant", ("ampere_sgemm_128x64_tn", "aten::mm", None),
                    ("volta_sgemm_32x128_tn", "aten::addmm", None)),
        ("operator", ("sm90_xmma_gemm", "aten::mm", "Linear"), ("Cijk_Alik", "aten::mm", "Linear")),
        ("operator", ("sm90_xmma_gemm", "aten::mm", "Linear"), ("Cijk_Alik", "aten::mm", "Other")),
    ],
)  # fmt: skip
def test_ladder(
    grade: str,
    before: tuple[str, str | None, str | None],
    after: tuple[str, str | None, str | None],
) -> None:
    found = _pairs(_leaves((*before, 100, 1)), _leaves((*after, 90, 1)))
    assert found == [(grade, [before[0]], [after[0]])]


def test_no_operator_is_no_place_to_meet() -> None:
    """Two kernels of which nothing is known but their names are not the same."""
    found = _pairs(_leaves(("one", None, None, 5, 1)), _leaves(("other", None, None, 5, 1)))
    assert sorted(found) == [("unmatched", [], ["other"]), ("unmatched", ["one"], [])]


def test_same_kernel_in_two_places_is_two_pairs() -> None:
    """And the third place, which is new, takes what is left of the name."""
    before = _leaves(("k", "aten::a", None, 10, 1), ("k", "aten::b", None, 20, 1))
    after = _leaves(("k", "aten::a", None, 11, 1), ("k", "aten::c", None, 22, 1))
    pairs = list_pairs(match_leaves(before, after)).sort("before_ns")
    assert pairs.select("before_ns", "after_ns", "grade").rows() == [
        (10, 11, "exact"),
        (20, 22, "exact"),
    ]


def test_five_kernels_of_an_operator_became_one() -> None:
    before = _leaves(*[(f"k{i}", "aten::layer_norm", "LayerNorm", 10, 1) for i in range(5)])
    after = _leaves(("norm", "aten::layer_norm", "LayerNorm", 30, 1))
    (row,) = list_pairs(match_leaves(before, after)).to_dicts()
    assert (row["grade"], name_change(row), row["delta_ns"]) == ("operator", "fused", -20)
    (row,) = list_pairs(match_leaves(after, before)).to_dicts()
    assert name_change(row) == "split"


def test_inductor_names_what_it_fused() -> None:
    """mul and add are in the Triton kernel's name; sigmoid is not, and vanished."""
    before = _leaves(
        ("elementwise<mul>", "aten::mul", None, 10, 1),
        ("elementwise<add>", "aten::add_", None, 12, 1),
        ("elementwise<sigmoid>", "aten::sigmoid", None, 7, 1),
    )
    after = _leaves(("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_3", None, 9, 1))
    rows = {r["grade"]: r for r in list_pairs(match_leaves(before, after)).to_dicts()}
    assert rows["fused"]["delta_ns"] == 9 - 22
    assert name_change(rows["fused"]) == "fused"
    assert name_change(rows["unmatched"]) == "vanished"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ampere_sgemm_128x64_tn", "volta_sgemm_32x128_tn"),
        ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_17"),
        ("matmul_kernel_0d1d2d3de4de", "matmul_kernel_0d1d2d3d4d"),
        ("void at::vectorized_kernel<4, at::AddFunctor<float>>(int)",
         "void at::vectorized_kernel<8, at::AddFunctor<float>>(int)"),
    ],
)  # fmt: skip
def test_variants(one: str, other: str) -> None:
    assert name_variant(one) == name_variant(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_nn"),
        ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_3"),
        ("ncclDevKernel_AllReduce_Sum_bf16", "ncclDevKernel_AllGather"),
    ],
)
def test_no_variants(one: str, other: str) -> None:
    assert name_variant(one) != name_variant(other)


def test_cost_that_moved_is_no_gain() -> None:
    """Under one operator 100 ns left one kernel and 95 came to another: a shift of 5."""
    before = _leaves(("k", "aten::a", "M", 200, 1), ("m", "aten::a", "N", 10, 1),
                     ("z", "aten::z", None, 500, 1))  # fmt: skip
    after = _leaves(("k", "aten::a", "M", 100, 1), ("m", "aten::a", "N", 105, 1),
                    ("z", "aten::z", None, 400, 1))  # fmt: skip
    (shift,) = find_shifts(list_pairs(match_leaves(before, after)), 710)
    assert (shift["where"], shift["lost_ns"], shift["won_ns"], shift["net_ns"]) == (
        "aten::a", 100, 95, -5,
    )  # fmt: skip
