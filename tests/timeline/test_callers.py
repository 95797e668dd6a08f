"""Who called: own lines before modules before ranges; a backward operation asks its forward one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sightline.timeline.callers import find_callers
from support.traces import host, kernel, launch, op, opened


def callers(tmp_path: Path, *around: tuple[str, str]) -> list[str | None]:
    """Of one launch inside these ranges (category, name), the outermost first."""
    events = [host(cat, name, i, 100 - 2 * i) for i, (cat, name) in enumerate(around)]
    run = opened(tmp_path, [*events, launch(40, 5, 1), kernel("k", 50, 10, 1)])
    return find_callers(run, run.table("device_ops").get_column("launch_id")).to_list()


def frame(name: str) -> tuple[str, str]:
    return "python_function", name


@pytest.mark.parametrize(
    "inner",
    [
        "torch/nn/functional.py(2373): linear",
        "<built-in function linear>",
        "contextlib.py(78): inner",
        "threading.py(930): _bootstrap",
        "/usr/lib/python3.11/json/decoder.py(337): decode",
        "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py(34): wrapped",
    ],
)
def test_the_innermost_line_of_the_users_own(tmp_path: Path, inner: str) -> None:
    around = [frame("run.py(3): <module>"), frame("train.py(88): step"), frame(inner)]
    assert callers(tmp_path, *around) == ["train.py(88): step"]


@pytest.mark.parametrize(
    "line",
    [
        "transformers/models/bert/modeling_bert.py(350): forward",
        "/opt/venv/lib/python3.11/site-packages/vllm/worker.py(1): run",
        "/home/somebody/json_model.py(5): forward",
        "torch_model.py(5): forward",
    ],
)
def test_lines_of_other_packages_are_no_framework(tmp_path: Path, line: str) -> None:
    assert callers(tmp_path, frame("run.py(3): <module>"), frame(line)) == [line]


def test_without_own_lines_the_module_of_all_its_instances(tmp_path: Path) -> None:
    around = [("user_annotation", "forward"), frame("nn.Module: Attention_11")]
    assert callers(tmp_path, *around) == ["nn.Module: Attention"]


def test_without_python_the_innermost_range_that_says_something(tmp_path: Path) -> None:
    around = [("user_annotation", "## forward ##"), ("user_annotation", "ProfilerStep#3")]
    assert callers(tmp_path, *around) == ["## forward ##"]
    assert callers(tmp_path / "none") == [None]


def test_a_backward_operation_is_its_forward_ones(tmp_path: Path) -> None:
    line, number = "model.py(7): forward", {"Sequence number": 5}
    run = opened(
        tmp_path,
        [
            host("python_function", line, 0, 20),
            op("aten::mm", 5, 10, **number, **{"Fwd thread id": 0}),
            host("cpu_op", "MmBackward0", 30, 20, tid=7, **number, **{"Fwd thread id": 101}),
            host("cuda_runtime", "cudaLaunchKernel", 35, 5, tid=7, correlation=1),
            kernel("k", 50, 10, 1),
        ],
    )
    ids = run.table("device_ops").get_column("launch_id")
    assert find_callers(run, ids).to_list() == [line]
    assert find_callers(run, pl.Series([None], dtype=pl.Int64)).to_list() == [None]
