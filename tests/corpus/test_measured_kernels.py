"""Kernels of known cause, timed before and after the fix without a profiler: ../shared/h100.

The clock's gain is the truth: `truth.jsonl` there. What is said first of `before` names the cause,
its gain within 15 % of the clock's or 5 points; what is said first of `after` does not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from support.corpus import SHARED

pytestmark = pytest.mark.corpus
KERNELS = SHARED / "h100" / "kernels"
CAUSES = {
    "transpose": "ncu-uncoalesced-global",
    "tile_transpose": "ncu-bank-conflicts",
    "histogram": "ncu-atomics",
    "reduce_grid": "ncu-small-grid",
    "spill": "ncu-local-memory",
    "nbody": "ncu-fp64",
    "sgemm": "ncu-l1-limit",
    "tail": "ncu-tail-effect",
    "barrier": "ncu-barriers",
}


def open_report(name: str) -> list[Finding]:
    path: Path = KERNELS / f"{name}.ncu-rep"
    if not path.is_file():
        pytest.skip("the measured kernels are not beside this checkout")
    return [f for f in sightline.findings(sightline.open(str(path))) if not f.abstained]


def measured_gain(name: str) -> float:
    lines = (KERNELS / "truth.jsonl").read_text(encoding="utf-8").splitlines()
    truth = {known["name"]: known for known in map(json.loads, lines)}
    return float(truth[name]["gain_pct"])


@pytest.mark.parametrize(("name", "rule"), CAUSES.items())
def test_the_cause_comes_first_with_what_the_clock_gained(name, rule):
    first = open_report(f"{name}.before")[0]
    assert (first.rule, first.severity) == (rule, "warning")
    clock = measured_gain(name)
    assert first.gain_pct == pytest.approx(clock, abs=max(5.0, 0.15 * clock))


def test_a_kernel_at_the_limit_of_memory_gains_nothing():
    found = open_report("stream.before")
    assert found[0].rule == "ncu-memory-limit"
    assert all(f.is_remark for f in found)


@pytest.mark.parametrize(
    "name", ["transpose", "histogram", "reduce_grid", "spill", "sgemm", "tail", "barrier"]
)
def test_what_was_mended_is_not_said_again(name):
    said = [f for f in open_report(f"{name}.after") if f.rule == CAUSES[name]]
    assert [f for f in said if (f.gain_pct or 0) >= 5] == []


def test_the_hottest_line_is_quoted():
    (found,) = open_report("histogram.before")
    assert any("atomicAdd(&bins[data[i]], 1u);" in line for line in found.evidence)
