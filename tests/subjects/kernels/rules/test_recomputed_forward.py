"""recomputed-forward: operators that run again inside backward, with their host's time."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.operators import backward, op, run_of
from support.rules import assert_silent, assert_speaks

RULE, X = "recomputed-forward", [1024, 1024]


def step(folder: Path, *, again: list[int], number: int | None = 9) -> Run:
    """A forward operator, its backward node in which another one runs, and what that is for."""
    return run_of(
        folder,
        op("aten::gelu", X, sequence=5),
        backward(
            "GeluBackward0",
            5,
            op("aten::gelu", again, sequence=number),
            op("aten::gelu_backward", X, X),
        ),
    )


def test_one_of_three_kernels(tmp_path: Path) -> None:
    assert_speaks(
        step(tmp_path, again=X),
        RULE,
        cost_ns=100_000,
        gain_ns=100_000,
        evidence=["1 × aten::gelu [[1024,1024]], 100.0 µs"],
        fix="torch.utils.checkpoint",
        confidence="high",
    )


def test_other_shapes_and_what_autograd_does_not_record(tmp_path: Path) -> None:
    assert_silent(step(tmp_path / "a", again=[1024, 1023]), RULE)
    assert_silent(step(tmp_path / "b", again=X, number=None), RULE)


def test_what_has_the_number_of_its_node_is_the_node_itself(tmp_path: Path) -> None:
    assert_silent(step(tmp_path, again=X, number=5), RULE)
