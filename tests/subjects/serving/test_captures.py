"""Kernels of a replayed graph, tied to the operators that launched them while it was captured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import MissingDataError
from support.command import sightline as command
from support.traces import Event, call, host, kernel, op, opened, write

# What a layer launches: operator and kernel.
LAYER = (
    ("aten::mm", "ampere_bf16_gemm_128x128"),
    ("vllm::unified_attention", "flash_fwd_splitkv_kernel"),
    ("_C::fused_add_rms_norm", "vllm::rms_norm_kernel"),
)
LAYERS = 6


def make_capture(launches: int = LAYERS * len(LAYER)) -> list[Event]:
    """A warm-up launch, then the captured ones, each in its operator."""
    events = [host("user_annotation", "capture_8_FULL", 0, 5000)]
    events += [op("aten::fill_", 1, 8), call("cudaLaunchKernel", 2, 3, 1)]
    events += [call("cudaStreamBeginCapture", 20, 2)]
    for n in range(launches):
        at = 30 + 20 * n
        events += [op(LAYER[n % len(LAYER)][0], at, 15), call("cudaLaunchKernel", at + 5, 3)]
    return [*events, call("cudaStreamEndCapture", 40 + 20 * launches, 5)]


def make_execution(*, shift: int = 0) -> list[Event]:
    events = [host("user_annotation", "execute_context_0(0)_generation_8(8)", 0, 50)]
    events += [call("cudaGraphLaunch", 10, 20, 7)]
    return events + [
        kernel(LAYER[(n + shift) % len(LAYER)][1], 100 + 10 * n, 9, 7)
        for n in range(LAYERS * len(LAYER))
    ]


def attribute(folder: Path, capture: list[Event], execution: list[Event]) -> list[tuple[Any, ...]]:
    ex, cap = opened(folder, execution, "ex.json"), opened(folder, capture, "cap.json")
    rows = ex.attribute_graphs(cap)
    return rows.select("operator", "layer", "capture", "match_pct", "confidence").rows()


def test_each_kernel_gets_its_operator_and_layer(tmp_path: Path) -> None:
    assert attribute(tmp_path, make_capture(), make_execution()) == [
        (LAYER[n % 3][0], n // 3, "capture_8_FULL", 100.0, "high") for n in range(18)
    ]


def test_a_capture_of_another_program_is_graded_low(tmp_path: Path) -> None:
    rows = attribute(tmp_path, make_capture(), make_execution(shift=1))
    assert {(match, grade) for *_, match, grade in rows} == {(0.0, "low")}


def test_nodes_that_are_numbered_are_tied_in_that_order(tmp_path: Path) -> None:
    """On two streams they begin in another order than that in which they were captured."""
    swapped = make_execution()
    for first in range(2, len(swapped), 3):  # each layer's attention begins before its product
        a, b = swapped[first], swapped[first + 1]
        a["ts"], b["ts"] = b["ts"], a["ts"]
    rows = attribute(tmp_path, make_capture(), swapped)
    assert {row[4] for row in rows} == {"low"}
    for number, event in enumerate(swapped[2:]):
        event["args"]["graph node id"] = (5 << 32) + number
    rows = attribute(tmp_path, make_capture(), swapped)
    assert {(row[3], row[4]) for row in rows} == {(100.0, "high")}
    assert [row[0] for row in rows[:3]] == ["vllm::unified_attention", "aten::mm", LAYER[2][0]]


def test_a_capture_of_another_length_is_not_tied(tmp_path: Path) -> None:
    rows = attribute(tmp_path, make_capture(17), make_execution())
    assert {(row[0], row[1] is None, row[4]) for row in rows} == {(None, False, "low")}


def test_a_recording_without_a_capture(tmp_path: Path) -> None:
    ex = opened(tmp_path, make_execution())
    with pytest.raises(MissingDataError, match="no graph was captured"):
        ex.attribute_graphs(ex)
    rows = ex.attribute_graphs().select("operator", "layer", "part").rows()
    parts = ("QKV projection", "attention", "norm")  # of one product a layer
    assert rows[:3] == [(None, 0, parts[n]) for n in range(3)]
    assert {row[0] for row in rows} == {None}
    assert [row[1] for row in rows] == [n // 3 for n in range(18)]


def test_parts_of_a_layer_by_name_and_place(tmp_path: Path) -> None:
    """Of a mixture of experts: the products are told apart by what comes before and behind them."""
    layer = (
        ("rms_norm_kernel", "norm"),
        ("gemm_bf16", "QKV projection"),
        ("rotary_embedding_kernel", "rope"),
        ("reshape_and_cache_flash_kernel", "cache"),
        ("paged_attention_v2", "attention"),
        ("reduce_segments", "attention"),
        ("gemm_bf16_small", "output projection"),
        ("fused_add_rms_norm_kernel", "norm"),
        ("gemm_router", "routing"),
        ("topk_softmax", "routing"),
        ("fused_moe_kernel", "experts"),
        ("unheard_of", "experts"),
        ("cross_device_reduce_1stage", "communication"),
    )
    names = [("embed", None), *(layer * 6), ("gemm_head", "vocabulary"), ("argmax", "sampling")]
    events = [host("user_annotation", "execute_context_0(0)_generation_8(8)", 0, 50)]
    events += [call("cudaGraphLaunch", 10, 20, 7)]
    events += [kernel(name, 100 + 10 * n, 9, 7) for n, (name, _) in enumerate(names)]
    found = opened(tmp_path, events).attribute_graphs()
    assert found.select("part").to_series().to_list()[1:] == [part for _, part in names[1:]]
    outcome = command("graph", write(tmp_path, events, "moe.json"))
    assert outcome.code == 0, outcome.err
    assert "replayed operations have a part of the model" in outcome.out
    assert "6 layers" in outcome.out
    assert "--capture" in outcome.out


def test_the_command_sums_by_operator(tmp_path: Path) -> None:
    paths = [write(tmp_path, events, name) for events, name in
             ((make_execution(), "ex.json"), (make_capture(), "cap.json"))]  # fmt: skip
    outcome = command("graph", paths[0], "--capture", paths[1])
    assert outcome.code == 0, outcome.err
    assert "18 of 18 replayed operations" in outcome.out
    assert "6 layers" in outcome.out
    (line,) = (line for line in outcome.out.splitlines() if line.startswith("aten::mm"))
    assert line.split()[-5:] == ["6", "54.00", "µs", "33.3", "%"]
    table = command("graph", paths[0], "--capture", paths[1], "--format", "csv").out
    assert len(table.splitlines()) == 19
    assert sightline.open(str(paths[0])).ask("model_layers")["layers"].unique().to_list() == [6]
