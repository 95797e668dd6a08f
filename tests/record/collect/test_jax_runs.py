"""JAX's profiler, switched on from outside in real programs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from sightline.timeline.host_parts import DISPATCH, list_segments

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)
PROGRAM = """\
import jax.numpy as jnp
import sightline as sl
x = jnp.ones((8, 8))
for _ in range(12):
    for _ in range(3):
        x = jnp.maximum(x @ x, 0) / 8
    x.block_until_ready()
    sl.step()
"""


def record(folder: Path, program: str, *options: str) -> Run:
    script, target = folder / "program.py", folder / "run.sightline"
    script.write_text(program)
    words = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(target)]
    words += ["--backend", "jax", *options, "--", sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return sightline.open(str(target))


def test_the_steps_that_were_asked_for_are_recorded(tmp_path: Path) -> None:
    run = record(tmp_path, PROGRAM, "--steps", "4:1:5")
    host = run.table("host_ops")
    steps = host.filter(layer="step").sort("start_ns")
    assert steps.height == 12
    assert host.get_column("pid").n_unique() == 1
    ops = host.filter(layer="op")
    inside = [
        ops.filter(pl.col("start_ns").is_between(begin, end)).height
        for begin, end in steps.select("start_ns", "end_ns").rows()
    ]
    # Nine operations a step, but for what XLA fuses of them: the same in each.
    assert inside[:5] == [0] * 5
    assert inside[10:] == [0] * 2
    assert len(set(inside[5:10])) == 1
    assert inside[5] >= 3
    calls = host.filter(pl.col("name").cast(pl.String).str.starts_with("PjitFunction"))
    main = steps.select("pid", "tid").unique()
    assert calls.select("pid", "tid").unique().rows() == main.rows()
    assert DISPATCH in list_segments(run).get_column("part").to_list()
    assert not list((tmp_path / "run.sightline").glob(".part*"))


def test_without_steps_all_is_recorded(tmp_path: Path) -> None:
    run = record(tmp_path, PROGRAM)
    ops = run.table("host_ops").filter(layer="op")
    assert ops.height >= 12 * 3


def test_a_profile_of_the_programs_own_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "own"
    program = (
        f"import jax\njax.profiler.start_trace({str(own)!r})\n{PROGRAM}jax.profiler.stop_trace()\n"
    )
    run = record(tmp_path, program, "--steps", "2:0:3")
    assert list(own.rglob("*.xplane.pb"))
    assert "jax_failed" in run.table("quality").get_column("kind").to_list()


def test_a_program_that_ends_in_the_middle_leaves_what_it_did(tmp_path: Path) -> None:
    run = record(tmp_path, PROGRAM, "--steps", "4:0:500")
    assert run.table("host_ops").filter(layer="op").height >= 8 * 3
