"""Programs of known cause, before and after its fix: what is said, beside the clock's gain."""

from __future__ import annotations

import json
from functools import cache

import pytest

import sightline
from sightline.core.model.declare import Finding
from support.corpus import SHARED

pytestmark = pytest.mark.corpus
H100 = SHARED / "h100"

# What names the cause, where a trace tells the gain, too: within 15 % of it or 5 points.
CAUSES = {
    "torch/naive_attention_seq4096": "attention-not-fused",
    "torch/fp32_matmul": "no-tensor-cores",
    "torch/scatter_contention": "scatter-contention",
    "torch/loader_workers0": "dataloader-starved",
    "torch/pageable_upload": "pageable-copies",
    "torch/unfused_optimizer": "unfused-optimizer",
    "torch/python_loop_loss": "operator-patterns",
    "torch/sync_in_inner_loop": "sync-in-step",
    "torch/two_streams_serialized": "h2d-bound",
    "apps/a": "sync-in-step",
    "apps/c": "pageable-copies",
    "apps/m": "serialized-streams",
    "apps/o": "threads-take-turns",
    "apps/e": "few-blocks",
    "apps/g": "few-blocks",
}
# Where it is launch-bound besides, after its fix, too: the second finding, with its gain.
SECOND = {"torch/item_every_step": "sync-in-step"}
# What names the cause, but where the recorder's own cost, or what happens once, is in the window,
# or where what is faster stays further from the memory's rate than the bound.
NAMED = {
    "torch/nchw_conv": "layout-conversions",
    "torch/checkpointing_without_need": "recomputed-forward",
    "torch/host_preprocess": "host-late",
    "apps/i": "buffer-copied-back",
}


@cache
def read_gains() -> dict[str, float]:
    """The clock's gain of each program, %."""
    gains = {}
    for folder in ("torch", "apps"):
        for line in (H100 / folder / "truth.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            gains[f"{folder}/{row['name']}"] = row["gain_pct"]
    return gains


def list_findings(name: str, side: str) -> list[Finding]:
    found = [p for p in H100.glob(f"{name}.{side}.*") if p.suffix in (".gz", ".sightline")]
    if not found:
        pytest.skip(f"no recording of {name} {side}")
    every = sightline.findings(sightline.open(str(found[0])))
    return [f for f in every if not f.abstained and f.severity != "info"]


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_comes_first_with_its_gain(name: str) -> None:
    first = list_findings(name, "before")[0]
    assert first.rule == CAUSES[name]
    clock = read_gains()[name]
    assert abs((first.gain_pct or 0) - clock) <= max(5.0, 0.15 * clock)


@pytest.mark.parametrize("name", SECOND)
def test_a_cause_beside_a_greater_one_has_its_gain(name: str) -> None:
    found = list_findings(name, "before")[1]
    assert found.rule == SECOND[name]
    assert abs((found.gain_pct or 0) - read_gains()[name]) <= 5.0


@pytest.mark.parametrize("name", NAMED)
def test_the_cause_is_among_the_first_two(name: str) -> None:
    assert NAMED[name] in [f.rule for f in list_findings(name, "before")[:2]]


# What a program after its fix still has, and what says nothing of a cause by itself.
ALSO_AFTER = {"torch/python_loop_loss", "torch/host_preprocess", "torch/two_streams_serialized"}


def test_the_loop_that_launches_is_named() -> None:
    first, second = list_findings("torch/python_loop_loss", "before")[:2]
    assert first.where["caller"] == second.where["caller"] == "box_loss"
    assert "5,832 of 6,408 launches" in second.evidence[0]


def test_what_holds_the_host_is_named() -> None:
    assert "prepare_batch" in list_findings("torch/host_preprocess", "before")[0].summary


@pytest.mark.parametrize("name", sorted({**CAUSES, **SECOND, **NAMED}.keys() - ALSO_AFTER))
def test_it_is_gone_after_the_fix(name: str) -> None:
    assert {**CAUSES, **SECOND, **NAMED}[name] not in [f.rule for f in list_findings(name, "after")]


@pytest.mark.parametrize("name", ["torch/healthy_matmul", "torch/healthy_stream"])
def test_nothing_is_said_of_what_is_at_its_roof(name: str) -> None:
    assert list_findings(name, "before") == []
