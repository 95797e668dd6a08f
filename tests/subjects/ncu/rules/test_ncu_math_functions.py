"""ncu-math-functions: lines that call functions in full precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.profiled import CODE, MEMORY, SM, TIME, opened, profiled
from support.rules import assert_abstains, assert_silent, assert_speaks
from synth_ncu import Kernel, cubin, report
from synth_ncu.report import source

RULE = "ncu-math-functions"
ISSUED = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
LOAD, MUFU, FMA, EXIT = 0x981, 0x308, 0x223, 0x94D


def of_line(folder: Path, text: str, fma: int = 700) -> Run:
    """A load, and a line with one special function for each of 100 warps and `fma` others."""
    binary = cubin("_Z5scalePf", [LOAD, MUFU, FMA, EXIT], [(0, 1), (16, 2), (48, 3)], "scale.cu")
    executed = {CODE: 100, CODE + 16: 100, CODE + 32: fma, CODE + 48: 100}
    metrics = {
        "launch__function_pcs": (float(CODE), {0: CODE}),
        "inst_executed": (sum(executed.values()), executed),
        TIME: 10_000.0,
        SM: 80.0,
        ISSUED: 80.0,
        MEMORY: 20.0,
    }
    content = ("src/scale.cu", f"float v = a[i];\n    {text}\n}}\n")
    module = source(9, binary, {"_Z5scalePf": CODE}, content)
    return opened(folder, report([Kernel(metrics=metrics, source=9)], sources=(module,)))


def test_a_power(tmp_path: Path) -> None:
    """800 of 1,000 instructions, of which an intrinsic takes 200: 60 % go, and 40 are left."""
    assert_speaks(
        of_line(tmp_path, "v += powf(v, p);"),
        RULE,
        cost_ns=6000,
        gain_ns=6000,
        evidence=[
            "calls of powf take 60.0 % of the instructions".capitalize(),
            "then instruction issue, at 32.0 %",
        ],
        fix="__powf",
        severity="warning",
    )


@pytest.mark.parametrize(
    ("text", "fma"),
    [
        ("v += __powf(v, p);", 700),
        ("v += table.exp(v);", 700),
        ("v += v * p;", 700),
        ("v += powf(v, p);", 190),
    ],
    ids=["an intrinsic", "another's member", "no function", "less than a fifth"],
)
def test_silence(tmp_path: Path, text: str, fma: int) -> None:
    assert_silent(of_line(tmp_path, text, fma), RULE)


def test_not_recorded(tmp_path: Path) -> None:
    assert_abstains(profiled(tmp_path, {}, time=None), RULE, "--section SourceCounters")
