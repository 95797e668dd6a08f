"""What a forward pass keeps although no backward pass follows, from 40 % of the peak on."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.memory_rules import assert_finds
from support.rules import answers, assert_silent
from support.snapshots import Entry, alloc, entry, frames, free, opened, snapshot
from support.training import BACKWARD, MAKE

LAYER = frames("layer.py:3:forward", "model.py:9:forward", "t.py:1:run")


def inference(weight: int, *, keeps: bool, then: list[Entry] = []) -> dict:  # noqa: B006 - not changed
    """Four layers of 100 bytes in turn, kept to the end of the forward pass or not."""
    events: list[Entry] = [alloc(1, weight, 1, MAKE)]
    for i in range(4):
        events.append(alloc(1000 * (i + 1), 100, 2 + i, LAYER))
        if not keeps:
            events += free(1000 * (i + 1), 100, 2 + i)
    # The forward pass goes on while they are released.
    events.append(alloc(90_000, 1, 9, LAYER))
    if keeps:
        for i in range(4):
            events += free(1000 * (i + 1), 100, 10)
    events.append(alloc(91_000, 1, 12, LAYER))
    return snapshot([*events, *then], [])


def test_layers_that_are_all_kept(tmp_path: Path) -> None:
    """At the peak 100 of weights and five blocks of the layers, 401 bytes; one of 100 stays."""
    assert_finds(
        opened(tmp_path, inference(100, keeps=True)),
        "forward-kept",
        cost_bytes=400,
        gain_bytes=300,
        evidence=[
            "400 B that the forward pass allocated",
            "400 B in 4 blocks: forward (layer.py:3)",
        ],
        fix="torch.inference_mode()",
    )


@pytest.mark.parametrize(
    "program",
    [
        inference(100, keeps=False),
        inference(1000, keeps=True),
        inference(100, keeps=True, then=[alloc(95_000, 1, 20, BACKWARD)]),
    ],
    ids=["released", "little", "backward"],
)
def test_nothing_is_kept_for_nothing(tmp_path: Path, program: dict) -> None:
    assert_silent(opened(tmp_path, program), "forward-kept")


def test_a_backward_pass_may_have_been_meant_where_memory_ran_out(tmp_path: Path) -> None:
    ran_out = entry("oom", 0, 5_000, 20, LAYER, device_free=9)
    run = opened(tmp_path, inference(100, keeps=True, then=[ran_out]))
    found = assert_finds(
        run,
        "forward-kept",
        cost_bytes=400,
        gain_bytes=300,
        evidence=["memory ran out before a backward pass"],
        fix="compute them again in the backward pass",
    )
    assert found.title == "Results of the forward pass fill the memory"
    (first,) = answers(run, "out-of-memory")
    assert "compute activations again" in first.fix
    assert "torch.inference_mode() where nothing is trained" in first.fix


def test_another_gpu_that_did_not_run_out(tmp_path: Path) -> None:
    """What it keeps is a remark, which says where memory ran out."""
    program = inference(100, keeps=True, then=[entry("oom", 0, 5_000, 20, LAYER, device_free=9)])
    other = inference(100, keeps=True)
    program["device_traces"].append(other["device_traces"][0])
    here, there = answers(opened(tmp_path, program), "forward-kept")
    assert (here.severity, there.severity) == ("critical", "info")
    assert "memory ran out before a backward pass" in here.summary
    assert "memory ran out on GPU 0 before a backward pass" in there.summary
