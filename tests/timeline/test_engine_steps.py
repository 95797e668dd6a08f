"""Steps of inference engines: their spans, their phases, and the gaps between them by reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.engine_gaps import PARTS, list_gaps
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.engine_work import measure_step_work
from support.traces import Event, call, host, kernel, launched, opened


def step(name: str, ts: int, dur: int) -> Event:
    return host("user_annotation", name, ts, dur)


def vllm(prefill: tuple[int, int], decode: int, ts: int, dur: int) -> Event:
    text = f"execute_context_{prefill[0]}({prefill[1]})_generation_{decode}({decode})"
    return step(text, ts, dur)


def list_us(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of times, in µs; of moments since the first start."""
    moments = [c for c in columns if c in ("start_ns", "end_ns")]
    zero = frame.get_column("start_ns").min() if moments else 0
    return frame.select(
        (pl.col(c) - (zero if c in moments else 0)) // 1000 if c.endswith("_ns") else pl.col(c)
        for c in columns
    ).rows()


SERVED = [
    vllm((1, 16), 0, 0, 100),
    vllm((0, 0), 1, 150, 50),  # 50 µs behind the prefill, of which this request is the one
    vllm((0, 0), 0, 210, 1),  # it has ended
    vllm((2, 64), 0, 1000, 200),  # two came after a pause
    vllm((1, 64), 2, 1230, 300),
    vllm((0, 0), 3, 1600, 50),
]


def test_phases_and_gaps_without_a_device(tmp_path: Path) -> None:
    run = opened(tmp_path, SERVED)
    steps = list_engine_steps(run)
    assert list_us(steps, "phase", "start_ns", "end_ns") == [
        ("prefill", 0, 100),
        ("decode", 150, 200),
        ("empty", 210, 211),
        ("prefill", 1000, 1200),
        ("mixed", 1230, 1530),
        ("decode", 1600, 1650),
    ]
    gaps = list_gaps(run)
    assert list_us(gaps, "gap_ns", "no_request_ns", "scheduler_ns") == [
        *((0, 0, 0), (50, 0, 50), (10, 10, 0), (789, 789, 0), (30, 0, 30), (70, 0, 70)),
    ]
    assert gaps.select(pl.sum_horizontal(PARTS).sum()).item() == gaps["gap_ns"].sum()


def test_a_prompt_in_pieces_is_there_between_them(tmp_path: Path) -> None:
    pieces = [vllm((1, 128), 0, 100 * n, 50) for n in range(3)] + [vllm((0, 0), 1, 300, 10)]
    gaps = list_gaps(opened(tmp_path, pieces))
    assert gaps.get_column("no_request_ns").to_list() == [0, 0, 0, 0]


def test_sglang_prefills_beside_requests_that_wait(tmp_path: Path) -> None:
    names = (
        "DECODE bs=2",
        "EXTEND bs=1 toks=9",
        "DECODE bs=3",
        "EXTEND bs=3 toks=9",
        "DECODE bs=3",
    )
    run = opened(tmp_path, [step(f"step[{n}]", 100 * i, 60) for i, n in enumerate(names)])
    # Before the last prompts nobody was left: the three that decode behind them are theirs.
    assert list_us(list_gaps(run), "no_request_ns") == [(0,), (0,), (0,), (40,), (0,)]


def make_gpu_run(tmp_path: Path) -> Run:
    """Two steps; the second launches by a replay, and one kernel behind its range."""
    return opened(
        tmp_path,
        [
            vllm((1, 16), 0, 0, 40),
            launched(5, kernel("prefill", 20, 100)),
            vllm((0, 0), 1, 150, 30),
            call("cudaGraphLaunch", 160, 12, 77),
            kernel("layer", 175, 20, 77),
            kernel("layer", 190, 20, 77, stream=8),
            launched(200, kernel("sample", 220, 5)),
        ],
    )


def test_a_step_on_a_device_lasts_from_its_first_to_its_last_operation(tmp_path: Path) -> None:
    run = make_gpu_run(tmp_path)
    steps = list_engine_steps(run)
    assert list_us(steps, "start_ns", "end_ns") == [(0, 100), (155, 205)]
    # Of the 55 µs between them 25 lie in the second one's range: it prepares.
    assert list_us(list_gaps(run), "gap_ns", "in_step_ns", "scheduler_ns")[1] == (55, 25, 30)


def test_what_each_step_launched(tmp_path: Path) -> None:
    work = measure_step_work(make_gpu_run(tmp_path))
    columns = ("busy_ns", "kernel_ns", "launches", "graph_launches", "graph_kernels")
    assert list_us(work, *columns, "graph_launch_ns") == [
        (100, 100, 1, 0, 0, 0),
        (40, 45, 1, 1, 2, 12),  # 175 to 210, and 220 to 225
    ]


def test_functions_of_an_engine_where_no_text_is(tmp_path: Path) -> None:
    name = "vllm/v1/worker/gpu_model_runner.py(1002): execute_model"
    events = []
    for n, api in enumerate(("cudaLaunchKernel", "cudaGraphLaunch")):
        events += [host("python_function", name, 100 * n, 60)]
        events += launched(100 * n + 5, kernel("k", 100 * n + 20, 10), api)
    steps = list_engine_steps(opened(tmp_path, events))
    assert steps.select("phase", "source", "confidence").rows() == [
        ("prefill", "Python functions", "medium"),
        ("decode", "Python functions", "medium"),
    ]


def test_replays_of_whole_graphs_where_nothing_else_is_known(tmp_path: Path) -> None:
    events: list[Any] = [host("cpu_op", "vllm::attention", 0, 1)]
    for n in range(3):
        events.append(call("cudaGraphLaunch", 2000 * n + 10, 5, n + 1))
        events += [kernel("k", 2000 * n + 20 + 10 * i, 9, n + 1) for i in range(120)]
    steps = list_engine_steps(opened(tmp_path, events))
    assert steps.select("phase", "source").unique().rows() == [("decode", "graph replays")]
    assert list_us(steps, "start_ns", "end_ns") == [(0, 1199), (2000, 3199), (4000, 5199)]


def test_other_programs_have_none(tmp_path: Path) -> None:
    run = opened(tmp_path, [host("user_annotation", "step 3", 0, 9), kernel("k", 0, 9)])
    assert list_engine_steps(run).is_empty()


def test_sglang_writes_the_text_of_vllm(tmp_path: Path) -> None:
    text = host("user_annotation", "execute_context_0(0)_generation_2(2)", 0, 50)
    assert list_engine_steps(opened(tmp_path, [text])).get_column("engine").to_list() == ["vllm"]
    called = host("python_function", "sglang/srt/model_executor/model_runner.py(9): run", 1, 9)
    run = opened(tmp_path, [text, called])
    assert list_engine_steps(run).get_column("engine").to_list() == ["sglang"]
