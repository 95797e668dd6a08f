"""What holds for every flame graph, whatever the stacks are."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ET

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sightline.flames import folded, pprof, speedscope, svg
from sightline.flames import stacks as table
from sightline.flames.diff import diff_stacks
from sightline.flames.layers import LAYERS
from sightline.flames.stacks import (
    Stacks,
    explain_idle,
    keep_weights,
    merge_stacks,
    stack_paths,
    unite_stacks,
)
from sightline.flames.tree import build_tree, prune_tree

NAMES = st.one_of(
    st.sampled_from(
        ["f", "g", "a;b", "operator()(int) const::{lambda(int)#1}", "ядро", " x ", "-"]
    ),
    st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=6),
)
FRAMES = st.tuples(st.sampled_from([layer.name for layer in LAYERS]), NAMES)
PATHS = st.lists(
    st.tuples(
        st.lists(FRAMES, max_size=5),
        st.sampled_from(["exact", "apportioned", "unmatched"]),
        st.fixed_dictionaries({"samples": st.integers(0, 10**12), "bytes": st.integers(0, 50)}),
    ),
    max_size=12,
)
STACKS = PATHS.map(stack_paths)


def as_dict(stacks: Stacks, weight: str = "samples") -> dict[tuple[tuple[str, str], ...], int]:
    """Path of (layer, name) to weight, counted in plain Python."""
    name = {i: (layer, text) for i, layer, text in stacks.frames.rows()}
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for frames, value in stacks.rows.select("frames", weight).rows():
        path = tuple(name[f] for f in frames)
        found[path] = found.get(path, 0) + value
    return {path: value for path, value in found.items() if value}


@given(PATHS)
def test_merging_loses_nothing(paths):
    expected: dict = {}
    for frames, _, weights in paths:
        expected[tuple(frames)] = expected.get(tuple(frames), 0) + weights["samples"]
    stacks = merge_stacks(stack_paths(paths)) if paths else stack_paths([])
    if paths:
        assert as_dict(stacks) == {p: v for p, v in expected.items() if v}


@given(STACKS, STACKS)
def test_union_commutes(one, other):
    forth, back = unite_stacks([one, other]), unite_stacks([other, one])
    assert_frame_equal(forth.frames, back.frames)
    assert_frame_equal(forth.rows, back.rows, check_column_order=False)


@given(STACKS)
def test_a_tree_holds_every_stack_once(stacks):
    if not stacks.weights:
        return
    whole = build_tree(stacks, "samples")
    assert whole.total == stacks.total("samples") == whole.nodes.get_column("self_value").sum()
    name = {i: (layer, text) for i, layer, text in whole.frames.rows()}
    path_of: dict[int, tuple] = {}
    found = {}
    for node, parent, frame, _, value, own in whole.nodes.rows():
        path_of[node] = () if parent is None else (*path_of[parent], name[frame])
        if own:
            found[path_of[node]] = own
        children = whole.nodes.filter(parent=node).get_column("value").sum()
        assert value == own + children
    assert found == as_dict(stacks)


@given(STACKS)
def test_how_and_why_have_the_same_frames_and_equal_totals(stacks):
    if not stacks.weights:
        return
    other = explain_idle(stacks)
    for weight in stacks.weights:
        assert other.total(weight) == stacks.total(weight)
    assert by_frames(other) == by_frames(stacks)


def by_frames(stacks: Stacks) -> dict[tuple[tuple[str, str], ...], int]:
    """Weight by the frames of a stack, whatever their order."""
    found: dict[tuple[tuple[str, str], ...], int] = {}
    for path, value in as_dict(stacks).items():
        key = tuple(sorted(path))
        found[key] = found.get(key, 0) + value
    return found


def test_why_puts_the_reason_first_and_the_callers_leaf_first():
    how = stack_paths(
        [
            (
                [
                    ("python", "main"),
                    ("python", "step"),
                    ("op", "mm"),
                    ("api", "cudaLaunchKernel"),
                    ("kernel", "gemm"),
                    ("instruction", "+0x40 LDG"),
                    ("stall_class", "memory wait"),
                    ("stall_reason", "long_scoreboard"),
                ],
                "exact",
                {"samples": 3},
            )
        ]
    )
    (path,) = as_dict(explain_idle(how))
    assert [name for _, name in path] == [
        "memory wait",
        "long_scoreboard",
        "+0x40 LDG",
        "gemm",
        "cudaLaunchKernel",
        "mm",
        "step",
        "main",
    ]


def test_why_does_not_merge_equal_offsets_of_different_kernels():
    def one(kernel: str):
        return (
            [("kernel", kernel), ("instruction", "+0x40"), ("stall_class", "sync")],
            "exact",
            {"samples": 1},
        )

    whole = build_tree(explain_idle(stack_paths([one("a"), one("b")])), "samples")
    by_depth = whole.nodes.group_by("depth").len().sort("depth").rows()
    # One reason, one offset below it, and under that the two kernels, still apart.
    assert by_depth == [(0, 1), (1, 1), (2, 1), (3, 2)]


@given(STACKS, st.sets(st.sampled_from([layer.name for layer in LAYERS])))
def test_leaving_layers_out_keeps_totals(stacks, layers):
    if not stacks.weights:
        return
    fewer = keep_weights(stacks, sorted(layers))
    assert fewer.total("samples") == stacks.total("samples")
    assert {layer for path in as_dict(fewer) for layer, _ in path} <= layers


@given(STACKS, st.integers(0, 10**12))
def test_pruning_conserves(stacks, smallest):
    if not stacks.weights:
        return
    whole = build_tree(stacks, "samples")
    less = prune_tree(whole, smallest)
    assert less.total == whole.total == less.nodes.get_column("self_value").sum()
    assert less.nodes.get_column("node").to_list() == list(range(less.nodes.height))
    values = dict(less.nodes.select("node", "value").rows())
    for node, parent, _, _, value, own in less.nodes.rows():
        below = less.nodes.filter(parent=node).get_column("value").sum()
        assert value == own + below
        assert parent is None or values[parent] >= value


@given(STACKS)
def test_folding_and_parsing_are_inverse(stacks):
    if not stacks.weights:
        return
    text = folded.write(stacks, "samples")
    again, bad = folded.parse_folded(text.split("\n"), "samples")
    assert bad == 0
    assert folded.write(again, "samples") == text if text else True
    assert sum(as_dict(again).values()) == stacks.total("samples") if text else True


@given(STACKS)
def test_a_diff_of_equals_is_nothing(stacks):
    if not stacks.weights:
        return
    nodes = diff_stacks(stacks, stacks, "samples").nodes
    assert (
        not nodes.get_column("change").any()
        if nodes.height == 0
        else (nodes.get_column("change").abs().sum() == 0)
    )
    assert set(nodes.get_column("status").to_list()) <= {"same"}


@given(STACKS, STACKS)
def test_a_diff_is_after_minus_before(one, other):
    if not (one.weights and other.weights):
        return
    root = diff_stacks(one, other, "samples").nodes.row(0, named=True)
    assert root["before"] == one.total("samples")
    assert root["after"] == other.total("samples")
    assert root["change"] == root["after"] - root["before"]


def test_new_and_vanished_frames_stay_visible():
    def stacks(name: str, value: int) -> Stacks:
        return stack_paths([([("op", name)], "exact", {"samples": value})])

    changed = diff_stacks(
        unite_stacks([stacks("a", 5), stacks("b", 2)]),
        unite_stacks([stacks("a", 7), stacks("c", 1)]),
        "samples",
    )
    rows = changed.nodes.join(changed.frames, on="frame_id").sort("name")
    assert rows.select("name", "before", "after", "status").rows() == [
        ("a", 5, 7, "grown"),
        ("b", 2, 0, "gone"),
        ("c", 0, 1, "new"),
    ]


def test_a_change_within_the_noise_is_grey():
    one = stack_paths([([("op", "a")], "exact", {"samples": 100})])
    other = stack_paths([([("op", "a")], "exact", {"samples": 104})])
    assert diff_stacks(one, other, "samples", noise_ratio=0.05).nodes.item(1, "status") == "same"
    assert diff_stacks(one, other, "samples", noise_ratio=0.03).nodes.item(1, "status") == "grown"


@given(STACKS)
def test_every_form_holds_the_total(stacks):
    if not stacks.weights or not stacks.total("samples"):
        return
    document = json.loads(speedscope.write(stacks, "samples", "t"))
    assert sum(document["profiles"][0]["weights"]) == stacks.total("samples")
    assert gzip.decompress(pprof.write(stacks))
    picture = ET.fromstring(svg.write(stacks, "samples", "a <b> & c"))
    assert picture.tag.endswith("svg")


def test_shares_add_up():
    stacks = stack_paths(
        [
            ([("op", "a")], "exact", {"samples": 3}),
            ([("op", "a")], "unmatched", {"samples": 1}),
        ]
    )
    assert stacks.shares("samples") == {"exact": 75.0, "unmatched": 25.0}
    assert table.UNITS["samples"] == "samples"
    assert stacks.rows.schema["frames"] == pl.List(pl.UInt32)


def test_how_much_of_the_gpus_has_a_cpu_stack():
    made = stack_paths(
        [
            ([("run", "r"), ("python", "f"), ("kernel", "k")], "exact", {"samples": 90}),
            ([("run", "r"), ("thread", "t"), ("kernel", "k")], "unmatched", {"samples": 6}),
            ([("run", "r"), ("note", "[launch not recorded]"), ("kernel", "k")], "unmatched",
             {"samples": 4}),
            ([("run", "r"), ("python", "f")], "exact", {"samples": 1000}),  # no GPU took that
        ]
    )  # fmt: skip
    assert made.share_with_cpu_stack("samples") == 90.0
    host = stack_paths([([("run", "r"), ("python", "f")], "exact", {"samples": 3})])
    assert host.share_with_cpu_stack("samples") is None
