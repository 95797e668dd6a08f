"""Placements of every GPU against all subsets of all instances there could be."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.mig.models import Model, list_families, list_models
from sightline.mig.placements import (
    Item,
    count_profiles,
    fill_up,
    list_layouts,
    list_maximal,
    list_mixes,
)

MEDIA = frozenset({"1g+me"})
PLAIN = MEDIA | {"1g.2x"}


def enumerate_subsets(model: Model, without: frozenset[str]) -> set[frozenset[Item]]:
    """All valid sets, by asking each of the 2^n subsets for each rule: nothing is pruned."""
    shapes = [shape for shape in model.family.shapes if shape.key not in without]
    items = [(shape, start) for shape in shapes for start in shape.starts]
    subsets = np.arange(1 << len(items))
    has = [(subsets >> n) & 1 == 1 for n in range(len(items))]
    valid = np.ones(len(subsets), dtype=bool)
    compute = sum(h * shape.compute for h, (shape, _) in zip(has, items, strict=True))
    valid &= compute <= model.family.compute
    for shape in shapes:
        valid &= sum(h.astype(int) for h, (s, _) in zip(has, items, strict=True) if s == shape) <= (
            shape.most
        )
    for slot in range(model.family.memory):
        covers = [
            h.astype(int)
            for h, (shape, start) in zip(has, items, strict=True)
            if start <= slot < start + shape.memory
        ]
        if covers:
            valid &= sum(covers) <= 1
    return {
        frozenset(Item(s.key, at) for n, (s, at) in enumerate(items) if subset >> n & 1)
        for subset in subsets[valid].tolist()
    }


@pytest.mark.parametrize("model", list_models(), ids=lambda model: model.name)
def test_all_placements_are_those_of_an_exhaustive_search(model: Model) -> None:
    truth = enumerate_subsets(model, MEDIA)
    ours = list_layouts(model.family, MEDIA)
    assert {frozenset(layout) for layout in ours} == truth
    assert len(ours) == len(truth)  # none twice
    maximal = {one for one in truth if not any(one < other for other in truth)}
    assert {frozenset(layout) for layout in list_maximal(model.family, MEDIA)} == maximal
    eight = model.family.memory == 8
    assert (len(truth) - 1, len(maximal)) == ((722, 78) if eight else (25, 5))


def test_published_counts_without_the_profile_of_double_memory() -> None:
    family = list_families()["8x7"]
    layouts = list_layouts(family, PLAIN)
    # 19: also NVIDIA's own number for A100. 37 and 14 are counts of profiles, wherever they lie.
    assert (len(layouts) - 1, len(list_maximal(family, PLAIN))) == (297, 19)
    assert len({count_profiles(layout, family) for layout in layouts}) - 1 == 37
    assert len({count_profiles(layout, family) for layout in list_maximal(family, PLAIN)}) == 14
    assert len({count_profiles(layout, family) for layout in list_layouts(family, MEDIA)}) - 1 == 77


def test_one_instance_at_most_has_the_media_engines() -> None:
    for family in list_families().values():
        for layout in list_layouts(family):
            assert sum(item.key == "1g+me" for item in layout) <= 1


def test_mixes_are_what_no_other_order_extends() -> None:
    family = list_families()["8x7"]
    mixes = [dict(counts) for counts in list_mixes(family, PLAIN)]
    # 3g at slot 4, 1g at 1 and 3: nothing can be added, yet another order has room for 2g or more.
    assert {"3g": 1, "1g": 2} not in mixes
    assert {"3g": 2} in mixes and {"2g": 3, "1g": 1} in mixes and {"1g": 7} in mixes
    for counts, layout in list_mixes(family).items():
        assert count_profiles(layout, family) == counts


def test_what_still_fits() -> None:
    family = list_families()["8x7"]
    assert fill_up(family, (Item("3g", 0), Item("3g", 4))) == ()
    assert fill_up(family, (Item("4g", 0),)) == (Item("3g", 4),)
    assert fill_up(family, (Item("1g+me", 0), Item("2g", 2), Item("3g", 4))) == (Item("1g", 1),)
    assert fill_up(family, (Item("2g", 0),)) == (Item("2g", 2), Item("3g", 4))


@pytest.mark.parametrize(
    ("mix", "compute_left"),
    [
        # The seed says that three 2g waste a slice, and that 3 x 2g + 1g does not: both are so.
        ({"3g": 2}, 1), ({"2g": 3}, 1), ({"2g": 3, "1g": 1}, 0), ({"4g": 1, "3g": 1}, 0),
        ({"1g": 7}, 0), ({"7g": 1}, 0), ({"1g.2x": 4}, 3),
    ],
)  # fmt: skip
def test_compute_slices_left(mix: dict[str, int], compute_left: int) -> None:
    family = list_families()["8x7"]
    layout = next(
        one for one in list_layouts(family, MEDIA) if dict(count_profiles(one, family)) == mix
    )
    assert family.compute - sum(family.find_shape(item.key).compute for item in layout) == (
        compute_left
    )
