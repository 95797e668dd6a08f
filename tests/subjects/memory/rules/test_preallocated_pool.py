"""Memory that a JAX program shows in use: XLA's pool, or its own need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline as sl
from support.histories import Phase, train, write_history
from support.rules import answers, assert_silent
from support.watched_traces import write_trace

GIB = float(1 << 30)


def open_program(folder: Path, *used: float, name: str = "jit_step"):
    """A minute of a program whose GPU shows this much in use, by a trace and a watch's history."""
    from support.histories import EPOCH

    phases = [
        Phase(60, {0: {**train(), "memory used": value * GIB, "memory total": 80 * GIB}})
        for value in used
    ]
    history = write_history(folder / "h", phases, period_s=2)
    path = write_trace(folder / "t.json", EPOCH, steps=3, step_s=20 * len(used))
    document = json.loads(path.read_text())
    for event in document["traceEvents"]:
        if event["cat"] == "kernel":
            event["name"] = name
    # Recorded by XLA and not by PyTorch: no mark of Kineto's own.
    document["traceEvents"] = [e for e in document["traceEvents"] if e["cat"] != "user_annotation"]
    path.write_text(json.dumps(document))
    return sl.open(str(path), str(history))


@pytest.fixture(autouse=True)
def of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace is of JAX where its kernels are called so."""
    from sightline.subjects.memory.rules import preallocated_pool as module
    from sightline.timeline.world import World

    def read(run):
        named = run.table("device_ops").get_column("name").str.contains("^jit_").any()
        return World("jax" if named else "pytorch", "nvidia")

    monkeypatch.setattr(module, "read_world", read)


def test_use_that_never_moves_is_the_pool(tmp_path):
    (found,) = answers(open_program(tmp_path, 72.0, 72.2), "preallocated-pool")
    assert found.summary.startswith("GPU 0 shows 90 % of its memory in use throughout")
    assert found.severity == "info" and found.gain is None
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" in (found.fix or "")


def test_use_that_grows_is_the_programs(tmp_path):
    assert_silent(open_program(tmp_path, 50.0, 60.0, 72.0), "preallocated-pool")


def test_little_use_is_no_pool(tmp_path):
    assert_silent(open_program(tmp_path, 20.0, 20.0), "preallocated-pool")


def test_other_frameworks_take_no_such_pool(tmp_path):
    assert_silent(open_program(tmp_path, 72.0, 72.0, name="gemm"), "preallocated-pool")
