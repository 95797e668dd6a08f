"""`sightline next`: what recordings hold, and what is worth recording next."""

from __future__ import annotations

import json

import pytest

from sightline.answer.next_steps import OPEN, Known, _judge, _name_function, _rank
from support.command import sightline
from support.pages import ROOT

LOADER = ROOT / "examples" / "simulated-dataloader.json.gz"
USUAL = Known(
    on_gpu=True, timeline=True, idle=10.0, compute=80.0, communication=0.0, ranks=1, world=1,
    collectives=False, stacks=False, markers=True, counters=False, stalls=False, states=False,
    memory=False, system=False, kernel="void ns::gemm<128, true>(float*)", vendor="nvidia",
)  # fmt: skip


def first(**known: object) -> str:
    """The open point that is worth most."""
    given = Known(**{**vars(USUAL), **known})
    still_open = {check.name for check in _judge(given) if check.state == OPEN}
    return next(name for name in _rank(given) if name in still_open)


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({}, "kernels"),
        ({"counters": True}, "stalls"),
        ({"idle": 85.0, "compute": 10.0}, "stacks"),
        ({"idle": 85.0, "compute": 10.0, "stacks": True, "markers": False}, "markers"),
        ({"idle": 85.0, "compute": 10.0, "stacks": True}, "kernels"),
        ({"communication": 50.0, "compute": 40.0, "world": 8}, "ranks"),
        # All ranks are there: what computes is next.
        ({"communication": 50.0, "compute": 40.0, "world": 8, "ranks": 8}, "kernels"),
        ({"timeline": False, "on_gpu": False, "compute": 0.0, "idle": 0.0}, "timeline"),
        ({"counters": True, "stalls": True, "stacks": True}, "memory"),
    ],
)
def test_the_largest_part_that_is_not_explained_comes_first(known, name):
    assert first(**known) == name


def test_the_command_line_is_exact():
    commands = {check.name: check.command for check in _judge(USUAL)}
    assert commands["kernels"] == (
        "sightline run --for kernels --kernel gemm --launch-count 5 -- COMMAND"
    )
    of_amd = {c.name: c.command for c in _judge(Known(**{**vars(USUAL), "vendor": "amd"}))}
    assert of_amd["kernels"] == "rocprof-compute profile --name hot -k gemm -- COMMAND"


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void at::native::elementwise_kernel<4, F>(int, F)", "elementwise_kernel"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("calc(float*)", "calc"),
        ("(anonymous namespace)::reduce<int>(int)", "reduce"),
    ],
)  # fmt: skip
def test_a_kernel_is_named_as_ncu_matches_it(kernel, name):
    assert _name_function(kernel) == name


def test_next_as_a_person_and_as_a_program_sees_it():
    shown = sightline("next", LOADER)
    assert shown.code == 0
    head, command, *_ = (line for line in shown.out.splitlines() if not line.startswith("    "))
    assert head.startswith("Next: Counters of the hot kernels")
    assert command.startswith("  sightline run --for kernels --kernel ampere_bf16")
    assert all(len(line) <= 80 or line.startswith(" ") for line in shown.out.splitlines())
    assert "✓ Timeline of host and GPU" in shown.out
    assert "– Communication of all ranks" in shown.out
    checks = json.loads(sightline("next", LOADER, "--json").out)["checks"]
    assert len(checks) == 11
    assert checks[0]["name"] == "kernels" and checks[0]["state"] == "open"


def test_the_hot_kernel_is_one_that_computes():
    """Of three ranks, whose collectives take longer than any kernel, one after another."""
    shown = sightline("next", ROOT / "examples" / "simulated-straggler")
    assert "nccl" not in shown.out.lower()
    assert "--kernel ampere_bf16" in shown.out
