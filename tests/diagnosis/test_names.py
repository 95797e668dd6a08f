"""Every problem can be looked up by its name, and the vendor's rules are asked by theirs."""

from __future__ import annotations

import json

import pytest

from support.as_nsys import nsys
from support.command import sightline
from synth.families import FAMILIES

# What people and other tools call the problems: the rules, and names that are part of one.
NAMES = [
    "dataloader-starved", "host-late", "launch-bound", "sync-in-step", "implicit-sync",
    "queue-full", "jit-or-module-load-in-window", "allocator-churn", "first-iteration-included",
    "cpu-op-overhead", "profiler-overhead", "h2d-bound", "d2h-in-step", "pageable-copies",
    "many-small-copies", "copies-not-overlapped", "unified-memory-thrashing",
    "redundant-memset", "tiny-kernels", "unfused-elementwise-chain", "no-tensor-cores",
    "low-occupancy", "tail-effect", "memory-bound-kernel-at-limit", "slow-variant",
    "layout-conversions", "attention-not-fused", "dtype-casts", "recompilation",
    "graph-candidate", "exposed-communication", "straggler-rank",
    "small-collectives", "collective-below-bandwidth", "imbalance", "overlap-slows-compute",
    "pipeline-bubble", "clock-throttled", "power-capped", "thermal", "wrong-device-idle",
    "cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync", "gpu_gaps",
    "gpu_time_util",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_has_a_page(name):
    outcome = sightline("explain", name)
    assert outcome.code == 0
    assert "\nSymptom\n" in outcome.out


@pytest.fixture(scope="module")
def pageable(tmp_path_factory):
    """A program with pageable uploads, as Nsight Systems' export has it, and their time."""
    program = FAMILIES["pageable-copies"].build(0, 1, True)
    copies = [o for o in program.ranks[0].ops if o.kind == "memcpy"]
    path = nsys(program, tmp_path_factory.mktemp("vendor") / "run.sqlite")
    return path, sum(o.end_ns - o.start_ns for o in copies), len(copies)


def test_the_vendors_rules_speak_when_asked(pageable):
    path, total_ns, count = pageable
    plain = json.loads(sightline("findings", path, "--json").out)
    asked = json.loads(sightline("findings", path, "--vendor", "--json").out)
    vendors = {f["rule"]: f for f in asked if f not in plain}
    assert set(vendors) == {"cuda-memcpy-async", "cuda-api-sync"}
    assert vendors["cuda-memcpy-async"]["cost_ns"] == total_ns
    assert f": {count}, " in vendors["cuda-memcpy-async"]["summary"]
    assert vendors["cuda-memcpy-async"]["gain_ns"] is None
    # What costs the device most stays first.
    assert asked[0]["rule"] == plain[0]["rule"] == "pageable-copies"


def test_a_gate_that_names_a_vendors_rule_asks_it(pageable):
    path = pageable[0]
    assert sightline("findings", path, "--fail-on", "cuda_memcpy_async").code == 1
    assert sightline("findings", path, "--fail-on", "gpu-gaps").code == 0
