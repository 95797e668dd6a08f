"""Stacks as a trie, against sets of prefixes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline._native import StackNodes
from sightline.core.model.stack_trie import MAX_DEPTH, Frame, StackTrie

PATHS = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=30)


def spell(trie: StackTrie) -> dict[int, tuple[str, ...]]:
    """The functions of each stack, from the tables."""
    tables = trie.tables()
    names = dict(tables["frames"].select("frame_id", "function").iter_rows())
    spelled: dict[int, tuple[str, ...]] = {}
    for stack, parent, frame, depth in tables["stacks"].iter_rows():
        spelled[stack] = (*spelled.get(parent, ()), names[frame])
        assert len(spelled[stack]) == depth + 1
    return spelled


def number_frames(trie: StackTrie) -> list[int]:
    return [trie.number(Frame("native", name)) for name in "abcd"]


@given(PATHS, st.booleans())
def test_all_ways_to_add_paths_give_each_prefix_once(
    paths: list[list[int]], is_below: bool
) -> None:
    trie = StackTrie()
    numbers = number_frames(trie)
    above = trie.add([Frame("native", "main")]) if is_below else None
    head = ("main",) if is_below else ()
    told = [head + tuple("abcd"[frame] for frame in path) for path in paths]
    flat = pl.Series([numbers[frame] for path in paths for frame in path], dtype=pl.Int64)
    lengths = pl.Series([len(path) for path in paths], dtype=pl.Int64)
    together = trie.add_paths(flat, lengths, above).to_list()
    wide = pl.DataFrame(
        [[*(numbers[f] for f in path), *[None] * (6 - len(path))] for path in paths],
        schema=[(f"depth_{n}", pl.Int64) for n in range(6)],
        orient="row",
    )
    parents = pl.Series([above] * len(paths), dtype=pl.Int64)
    assert trie.add_rows(parents, wide).to_list() == together
    spelled = spell(trie)
    assert [() if stack is None else spelled[stack] for stack in together] == told
    assert sorted(spelled.values()) == sorted(
        {path[:n] for path in [*told, head] for n in range(1, len(path) + 1)}
    )
    for path, stack in zip(told, together, strict=True):
        assert trie.add([Frame("native", name) for name in path]) == stack


def test_the_middle_of_a_deep_stack_is_left_out() -> None:
    trie = StackTrie()
    a, b, *_ = number_frames(trie)
    path = pl.Series([a, b] * MAX_DEPTH)
    lengths = pl.Series([2 * MAX_DEPTH])
    (stack,) = trie.add_paths(path, lengths)
    assert len(spell(trie)[stack]) == MAX_DEPTH
    assert spell(trie)[stack][MAX_DEPTH // 2] == "[frames left out]"
    assert trie.shortened == 1


@pytest.mark.parametrize(
    ("frames", "lengths"), [([1], [2]), ([1], [-1]), ([-1], [1]), ([0, 1], [1, 2])]
)
def test_paths_that_cannot_be_are_refused(frames: list[int], lengths: list[int]) -> None:
    columns = (pl.DataFrame({"": given}, schema={"": pl.Int64}) for given in (frames, lengths))
    with pytest.raises(ValueError, match=r"no number of a frame|longer than the frames"):
        StackNodes().add_paths(-1, *columns)


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no node of the trie"):
        StackNodes().add(0, [1])
