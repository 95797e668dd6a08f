"""ncu-debug-build: what is profiled was built for a debugger."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import sightline
from sightline.formats._cubin import Cubin
from sightline.formats.nvidia.ncu_rep.code import Module
from sightline.formats.nvidia.ncu_rep.quality import _check_builds
from sightline.subjects.ncu.rules.ncu_debug_build import find_double
from support.profiled import SM, TIME, opened, profiled
from support.rules import assert_silent
from synth_ncu import Kernel, report

RULE = "ncu-debug-build"


@pytest.mark.corpus
def test_a_real_report_of_a_debug_build(corpus: Path) -> None:
    """Its code has `.nv_debug_info_reg_sass`, and its project is built with -G."""
    folder = corpus / "ncu/iamcoleman__monte-carlo-pi"
    found = sightline.findings(sightline.open(str(next(folder.glob("*.ncu-rep")))))
    first = next(f for f in found if not f.abstained)
    assert first.rule == RULE
    assert "without -G" in (first.fix or "")


@pytest.mark.corpus
def test_a_real_report_with_source_lines(corpus: Path) -> None:
    """-lineinfo is not a debug build."""
    folder = corpus / "ncu/bobschreiner__NuKEXC"
    found = sightline.findings(sightline.open(str(next(folder.glob("*.ncu-rep")))))
    assert RULE not in {f.rule for f in found}


def test_some_of_several_modules() -> None:
    built = [Cubin(b"", is_debug=is_debug) for is_debug in (False, True, False)]
    code = SimpleNamespace(modules=dict(enumerate(Module(cubin=cubin) for cubin in built)))
    (told,) = _check_builds(code)  # type: ignore[arg-type]
    assert told.kind == "debug_build"
    assert told.text.startswith("1 of 3 modules: ")


def test_a_report_without_code(tmp_path: Path) -> None:
    run = opened(tmp_path, report([Kernel(name="basic", metrics={TIME: 7_000.0, SM: 50.0})]))
    assert_silent(run, RULE)


@pytest.mark.parametrize(
    ("pipe", "rate", "lines"), [(75.6, 32.0, 1), (59.9, 32.0, 0), (90.0, 4.0, 0)]
)
def test_double_precision_stays_in_any_build(
    tmp_path: Path, pipe: float, rate: float, lines: int
) -> None:
    peak = "sm__sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
    metrics = {
        "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed": pipe,
        peak.format("d"): 80.0,
        peak.format("f"): 80.0 * rate,
        "smsp__cycles_elapsed.avg.per_second": 1e9,
        SM: 80.0,
    }
    found = find_double(profiled(tmp_path, metrics))
    assert len(found) == lines
    assert all(
        "at 75.6 % of its peak" in line and "1/32 of the fp32 rate" in line for line in found
    )
