"""Who holds the memory of a snapshot without a history."""

from __future__ import annotations

from pathlib import Path

from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import alloc, frames, opened, segment, snapshot

CACHE, MODEL = frames("cache.py:9:grow", "t.py:1:run"), frames("model.py:3:load", "t.py:1:run")
HELD = [
    segment(0, (600, "active_allocated", CACHE), (100, "inactive")),
    segment(5_000, (200, "active_allocated", MODEL)),
    segment(9_000, (100, "inactive")),
]


def test_who_allocated_what_is_in_use(tmp_path: Path) -> None:
    found = assert_finds(
        opened(tmp_path, snapshot([], HELD)),
        "memory-held",
        cost_bytes=800,
        gain_bytes=None,
        evidence=[
            "800 B of the 1.000 kB",
            "(80.0 %), 600 B from grow (cache.py:9); the largest free piece has 100 B",
            "600 B in 1 block: grow (cache.py:9)",
            "200 B in 1 block: load (model.py:3)",
            "200 B are free: 100 B in segments that nothing uses, 100 B in pieces",
        ],
        fix="_record_memory_history()",
    )
    assert found.is_remark


def test_with_a_history_others_say_more(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, snapshot([alloc(0, 600, 1, CACHE)], HELD)), "memory-held")


def test_without_stacks_sizes_speak(tmp_path: Path) -> None:
    """A line that made a hundredth of what is in use is not to blame for it."""
    one = segment(0, (600, "active_allocated"), (600, "active_allocated"), (100, "inactive"))
    bare = [one, segment(5_000, (12, "active_allocated", MODEL)), segment(9_000, (300, "inactive"))]
    found = assert_finds(
        opened(tmp_path, snapshot([], bare)),
        "memory-held",
        cost_bytes=1_212,
        gain_bytes=None,
        evidence=[
            "1.212 kB are in use (75.2 %), 300 B lie in segments that nothing uses, and 100 B in",
            "no stack says who made 1.200 kB of what is in use",
            "blocks of one size that take most: 2 × 600 B, 1 × 12 B",
        ],
        fix="empty_cache() gives 300 B back",
    )
    assert found.is_remark
    assert "model.py" not in str(found)


def layer(*inner: str) -> object:
    """A stack below a module's forward in the user's step."""
    called = ("/x/site-packages/torch/nn/modules/module.py:1511:_call_impl", "t.py:3:step")
    return frames(*inner, *called)


ATTENTION = layer("/x/site-packages/diffusers/models/attention_processor.py:1262:__call__",
                  "/x/site-packages/diffusers/models/attention.py:372:forward")  # fmt: skip
LORA = layer("/x/site-packages/diffusers/models/lora.py:430:forward")
KEPT = layer("/x/site-packages/transformers/cache_utils.py:90:update",
             "/x/site-packages/transformers/models/llama.py:200:forward")  # fmt: skip


def test_what_stacks_name_beside_much_that_they_do_not(tmp_path: Path) -> None:
    """A quarter of what is in use has a stack: that is said first."""
    bare = [
        segment(0, (600, "active_allocated"), (100, "inactive")),
        segment(5_000, (200, "active_allocated", CACHE)),
    ]
    found = assert_finds(
        opened(tmp_path, snapshot([], bare)),
        "memory-held",
        cost_bytes=800,
        gain_bytes=None,
        evidence=["no stack says who made 600 B of what is in use"],
        fix="_record_memory_history()",
    )
    assert found.evidence[0] == "200 B in 1 block: grow (cache.py:9)"


def test_activations_are_told_by_layer(tmp_path: Path) -> None:
    """500 B of attention and 200 B of LoRA, allocated in forward; 200 B of weights."""
    blocks = [
        segment(0, (500, "active_allocated", ATTENTION), (200, "active_allocated", LORA)),
        segment(5_000, (200, "active_allocated", MODEL), (100, "inactive")),
    ]
    found = assert_finds(
        opened(tmp_path, snapshot([], blocks)),
        "memory-held",
        cost_bytes=700,
        gain_bytes=200,
        evidence=["attention 500 B, LoRA 200 B", "500 B in 1 block: __call__"],
        fix="gradient checkpointing",
    )
    assert found.title == "Activations hold the memory"
    assert "scaled_dot_product_attention" in (found.fix or "")


def test_a_cache_of_keys_and_values_is_no_activation(tmp_path: Path) -> None:
    blocks = [segment(0, (900, "active_allocated", KEPT), (100, "inactive"))]
    found = assert_finds(
        opened(tmp_path, snapshot([], blocks)),
        "memory-held",
        cost_bytes=900,
        gain_bytes=None,
        evidence=["900 B from step (t.py:3)"],
        fix="shrink what these lines allocate",
    )
    assert found.is_remark
