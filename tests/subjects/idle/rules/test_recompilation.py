"""recompilation: the program compiles in two gaps or more after the first step."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import Event, host, kernel, launched, op, opened, step

STEPS = step(1, 0, 100), step(2, 100, 905), step(3, 1005, 915)
COMPILES = [op("_compile.compile_inner (dynamo_timed)", at, 760) for at in (120, 1020)]
JIT = [host("overhead", "Driver Compiler", at, 760) for at in (120, 1020)]


def compiling(folder: Path, *events: Event) -> Run:
    """Three kernels, with gaps of 800 µs between them: [110, 910) and [1010, 1810)."""
    return opened(
        folder,
        [
            *events,
            launched(0, kernel("a", 10, 100)),
            launched(900, kernel("b", 910, 100)),
            launched(1800, kernel("c", 1810, 100)),
        ],
    )


def test_dynamo_compiles_twice_after_the_first_step(tmp_path: Path) -> None:
    """Without 760 µs in front of each of two calls."""
    found = assert_speaks(
        compiling(tmp_path, *STEPS, *COMPILES),
        "recompilation",
        cost_ns=1_600_000,
        gain_ns=1_520_000,
        evidence=["2 gaps, 1.600 ms", "2 × _compile.compile_inner (dynamo_timed), 1.520 ms"],
        fix="TORCH_LOGS=recompiles",
        severity="critical",
    )
    assert found.where["cause"] == "compilation"


def test_the_drivers_compiler(tmp_path: Path) -> None:
    assert_speaks(
        compiling(tmp_path, *STEPS, *JIT),
        "recompilation",
        cost_ns=1_600_000,
        gain_ns=1_520_000,
        evidence=["2 × Driver Compiler, 1.520 ms"],
        fix="TORCH_LOGS=recompiles",
    )


def test_once_may_be_warm_up(tmp_path: Path) -> None:
    run = compiling(tmp_path, *STEPS, COMPILES[0])
    assert_silent(run, "recompilation")
    assert_speaks(
        run,
        "jit-or-module-load-in-window",
        cost_ns=800_000,
        gain_ns=760_000,
        evidence=["1 gap of 800.0 µs"],
        fix="call the compiled function once with every shape",
    )


def test_without_steps_it_may_be_the_first_time_for_each_graph(tmp_path: Path) -> None:
    assert_silent(compiling(tmp_path, *COMPILES), "recompilation")
