"""Simulated programs with a planted problem of memory: the first finding names it, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.diagnosis.diagnose import diagnose_run
from support.campaigns import CAMPAIGNS
from support.snapshots import opened
from synth_memory.programs import CAUSES, Program, simulate

SEEDS = range(40 if CAMPAIGNS else 3)


def find_first(tmp_path: Path, program: Program) -> tuple[str | None, dict[str, int]]:
    run = opened(tmp_path, program.document)
    peak = run.ask("memory_peak").row(0, named=True)
    found = [f for f in diagnose_run(run) if not f.abstained]
    bytes_of = {f.rule: f.to_dict()["cost_bytes"] or 0 for f in found} | {
        "peak": peak["allocated_bytes"]
    }
    return (found[0].rule if found else None), bytes_of


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_finding_is_what_was_planted(tmp_path: Path, cause: str) -> None:
    right = 0
    for seed in SEEDS:
        program = simulate(cause, seed)
        first, sizes = find_first(tmp_path, program)
        right += first == cause
        truth = program.truth
        if cause != "out-of-memory":
            assert sizes["peak"] >= truth["peak"]
        exact = {
            "memory-leak": truth["leaked"],
            "memory-fragmentation": truth.get("pinned"),
            "out-of-memory": truth.get("asked"),
        }
        if first == cause and cause in exact:
            assert sizes[cause] == exact[cause]
    assert right >= 0.95 * len(SEEDS), f"{right} of {len(SEEDS)}"


def test_a_healthy_program_has_no_loud_finding(tmp_path: Path) -> None:
    for seed in SEEDS:
        run = opened(tmp_path, simulate("none", seed).document)
        loud = [f.rule for f in diagnose_run(run) if not f.abstained and f.severity != "info"]
        assert loud == []
