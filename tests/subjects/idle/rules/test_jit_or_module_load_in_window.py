"""jit-or-module-load-in-window: the first use of a kernel loads or compiles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support import exports
from support.rules import assert_silent, assert_speaks
from support.traces import Event, host, kernel, launched, op, opened
from synth_nsys import Export, gtid

LOAD = host("cuda_driver", "cuModuleLoadData", 120, 760)
RULE = "jit-or-module-load-in-window"


def first_use(folder: Path, busy: Event) -> Run:
    """Idle in [110, 910), of which the host is busy in [120, 880)."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            busy,
            launched(900, kernel("b", 910, 100)),
            launched(920, kernel("c", 1010, 100)),
            launched(940, kernel("d", 1110, 100)),
        ],
    )


@pytest.mark.parametrize(
    ("busy", "listed", "fix"),
    [
        (LOAD, "code_loading", "warm up with every shape"),
        (
            op("torch/_inductor/compile_fx.py(1): compile", 120, 760),
            "compiling",
            "TORCHINDUCTOR_CACHE_DIR",
        ),
    ],
    ids=["load", "compile"],
)
def test_800_us_for_a_kernel_that_is_new(
    tmp_path: Path, busy: Event, listed: str, fix: str
) -> None:
    """Without the 760 µs the call comes at 140, and all that follows 760 µs earlier."""
    found = assert_speaks(
        first_use(tmp_path, busy),
        RULE,
        cost_ns=800_000,
        gain_ns=760_000,
        evidence=["1 gap of 800.0 µs", busy["name"]],
        fix=fix,
        severity="critical",
    )
    assert found.verify == f"sightline stats idle AFTER: total_ns of {listed}"
    assert found.where["cause"] == listed


def test_the_drivers_compiler_in_an_export_of_nsight_systems(tmp_path: Path) -> None:
    """The same, with the driver's own record of its compilation (OVERHEAD of type 2)."""
    export = Export()
    for i, start in enumerate((10_000, 910_000, 1_010_000, 1_110_000)):
        called = (0, 900_000, 920_000, 940_000)[i]
        export.api("cudaLaunchKernel", called, called + 5_000, i + 1)
        export.kernel("k", start, start + 100_000, i + 1)
    export.add(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        start=120_000,
        end=880_000,
        globalTid=gtid(7, 7),
        correlationId=0,
        overheadType=2,
    )
    run = exports.opened(tmp_path, export)
    assert_speaks(
        run,
        RULE,
        cost_ns=800_000,
        gain_ns=760_000,
        evidence=["1 gap of 800.0 µs"],
        fix="so that PTX is not compiled at load",
    )
    assert_silent(run, "profiler-overhead")


def test_half_of_the_gap(tmp_path: Path) -> None:
    """Of 800 µs the host loads code for 400: the rest is not its fault."""
    assert_speaks(
        first_use(tmp_path, {**LOAD, "dur": 400}),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 gap of 400.0 µs"],
        fix="warm up",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 500)),
            {**LOAD, "ts": 510, "dur": 35},
            launched(550, kernel("b", 559, 451)),
        ],
    )
    assert_silent(run, RULE)
