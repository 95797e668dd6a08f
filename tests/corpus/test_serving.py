"""Recordings of real inference servers: their steps against what their client counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run

pytestmark = pytest.mark.corpus
VLLM = "serving/own_vllm_cpu"
TRACELENS = "kineto/AMD-AGI__TraceLens/inference"


@pytest.fixture(scope="module")
def vllm(corpus: Path) -> Run:
    return sightline.open(
        str(corpus / f"{VLLM}/rank0.pt.trace.json.gz"),
        str(corpus / f"{VLLM}/async_llm.pt.trace.json.gz"),
    )


def test_tokens_of_a_real_server_are_its_clients(vllm: Run, corpus: Path) -> None:
    steps = vllm.ask("engine_steps")
    by_phase = {
        phase: (n, prefill, decode)
        for phase, n, prefill, decode in steps.group_by("phase")
        .agg(pl.len(), pl.col("prefill_tokens", "decode_tokens").sum())
        .rows()
    }
    assert by_phase == {
        "prefill": (7, 455, 0),
        "decode": (236, 0, 355),
        "mixed": (7, 439, 15),
        "empty": (7, 0, 0),
    }
    client = json.loads((corpus / f"{VLLM}/client.json").read_text())
    first_tokens = len(client)  # a prompt's last step makes its first token
    assert steps["decode_tokens"].sum() + first_tokens == sum(each["n"] for each in client)


def test_a_real_servers_waiting_is_of_no_step(vllm: Run) -> None:
    steps = vllm.ask("engine_steps")
    between = steps.select("no_request_ns", "scheduler_ns", "unclear_ns").sum().row(0)
    assert sum(between) == steps["gap_ns"].sum() == 1_204_767_420
    assert between[2] == 0
    iterations = vllm.ask("iterations")
    assert iterations["duration_ns"].sum() == steps["duration_ns"].sum()
    breakdown = dict(vllm.ask("host_breakdown").select("part", "own_ns").rows())
    assert breakdown["between engine steps"] > 2 * breakdown["Python"]


def test_a_real_servers_report_has_no_false_note(vllm: Run) -> None:
    answer = vllm.answer()
    kinds = {limit["kind"] for limit in answer.limits}
    assert not kinds & {"no_steps", "rank_by_order"}
    assert "host-python" not in [finding["rule"] for finding in answer.findings]


@pytest.mark.parametrize(
    ("path", "phases", "requests", "graph"),
    [
        (f"{TRACELENS}/sglang_decode/sglang_Qwen3-8B_decode.json.gz", ["decode"], 32, 544),
        (f"{TRACELENS}/vllm_decode_full/graph_execution.json.gz", ["decode"], 32, 421),
        (f"{TRACELENS}/vllm_prefilldecode_piecewise/graph_execution.json.gz", ["mixed"], 37, 361),
    ],
)
def test_phase_of_recordings_of_one_step(
    path: str, phases: list[str], requests: int, graph: int, corpus: Path
) -> None:
    steps = sightline.open(str(corpus / path)).ask("engine_steps")
    assert steps["phase"].to_list() == phases
    assert steps["decode_requests"].to_list() == [requests]
    assert steps["graph_kernels"].to_list() == [graph]


def test_ten_tokens_of_32_requests_without_an_annotation(corpus: Path) -> None:
    """Prompts of 1,000 tokens, ten tokens each: one prefill, and nine steps more."""
    path = (
        "kineto/hyukjlee__traceMap/trace_file/examples/1_h100_1000isl_10osl_32con.pt.trace.json.gz"
    )
    steps = sightline.open(str(corpus / path)).ask("engine_steps")
    computed: Callable[[str], int] = steps["phase"].to_list().count
    assert (computed("prefill"), computed("decode")) == (1, 9)
    assert set(steps["confidence"]) == {"medium"}


@pytest.mark.parametrize(
    ("path", "layers"),
    [
        # By their published configurations: Qwen3-8B, gpt-oss-20b (24 layers, every second with a
        # sliding window), and a model of 80 layers over four GPUs.
        (f"{TRACELENS}/sglang_decode/sglang_Qwen3-8B_decode.json.gz", 36),
        (f"{TRACELENS}/vllm_decode_full/graph_execution.json.gz", 24),
        (f"{TRACELENS}/vllm_prefilldecode_piecewise/graph_execution.json.gz", 24),
        (
            "kineto/hyukjlee__traceMap/trace_file/examples/"
            "1_h100_1000isl_10osl_32con.pt.trace.json.gz",
            80,
        ),
    ],
)
def test_layers_of_real_models(path: str, layers: int, corpus: Path) -> None:
    table = sightline.open(str(corpus / path)).ask("model_layers")
    assert table["layers"].unique().to_list() == [layers]
    inside = table.drop_nulls("layer")
    assert inside["kernels"].sum() >= 0.95 * table["kernels"].sum()
    for _, mine in inside.partition_by("step", as_dict=True).items():
        assert mine["layer"].to_list() == list(range(layers))


def test_percentiles_of_a_real_benchmark_are_those_that_it_prints(corpus: Path) -> None:
    load = sightline.open(str(corpus / f"{VLLM}/bench.json")).ask("serving_load")
    for metric in ("ttft", "itl", "tpot"):
        exact, printed = (
            load.filter(pl.col("metric") == metric, pl.col("source") == source).row(0, named=True)
            for source in ("requests", "benchmark")
        )
        for statistic in ("mean", "p50", "p99"):
            assert exact[statistic] == pytest.approx(printed[statistic], rel=1e-5)


def test_parts_of_a_real_servers_requests_sum_to_its_clients_times(corpus: Path) -> None:
    paths = (f"{VLLM}/rank0.pt.trace.json.gz", f"{VLLM}/client.json")
    run = sightline.open(*(str(corpus / path) for path in paths))
    rows = run.ask("request_time")
    first = rows.select(pl.sum_horizontal(pl.col("^ttft_.+_ns$"))).to_series()
    parts = ("decode_steps_ns", "prompt_steps_ns", "scheduling_ns", "delivery_ns")
    assert (first == rows["ttft_ns"]).all()
    assert (rows.select(pl.sum_horizontal(parts)).to_series() == rows["rest_ns"]).all()
    told = dict(run.ask("token_time").select("part", "mean_ns").rows())
    client = run.table("served_requests")["itl_ns"].explode().mean()
    # The engine's inter-token latency is the client's: what the network adds is not in it.
    assert sum(told.values()) == pytest.approx(client, rel=0.02)
    assert max(told, key=lambda part: told[part]) == "prompts beside it"


def test_the_planted_cause_of_a_real_server_comes_first(corpus: Path) -> None:
    """Its --max-num-batched-tokens was 128: seven mixed steps take a third of all step time."""
    run = sightline.open(str(corpus / f"{VLLM}/rank0.pt.trace.json.gz"))
    assert run.answer().findings[0]["rule"] == "prefill-stalls-decode"


EXECUTIONS = {
    "sglang_decode": "sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "vllm_decode_full": "vllm_decode_full/graph_execution.json.gz",
    "vllm_prefilldecode_piecewise": "vllm_prefilldecode_piecewise/graph_execution.json.gz",
}


def read_peer(corpus: Path, name: str) -> dict[tuple[str, str], tuple[int, float]]:
    """TraceLens' table of operators of a recording: (operator, module) to count and µs."""
    peer = pl.read_csv(
        corpus / "peer_expected/AMD-AGI__TraceLens/tests/traces/inference" / name
        / "perf_csvs/ops_summary.csv"
    )  # fmt: skip
    columns = ("name", "parent_module", "Count", "total_direct_kernel_time_sum")
    return {
        (operator, str(module).removeprefix("nn.Module: ")): (count, us)
        for operator, module, count, us in peer.select(columns).rows()
    }


@pytest.mark.parametrize(
    ("name", "nodes", "outside"),
    [
        # What no graph replays: inputs are copied, and sampling, or the products behind the layers.
        ("sglang_decode", 544, {"NA", "Sampler"}),
        ("vllm_decode_full", 421, {"NA", "LogitsProcessor"}),
    ],
)
def test_replayed_kernels_have_their_captures_operators(
    name: str, nodes: int, outside: set[str], corpus: Path
) -> None:
    """Each cell of TraceLens' own table of operators, of the same files."""
    (captured,) = (corpus / TRACELENS / name / "capture_traces").glob("*.json.gz")
    run = sightline.open(str(corpus / TRACELENS / EXECUTIONS[name]))
    found = run.attribute_graphs(sightline.open(str(captured)))
    assert found.height == found["operator"].count() == nodes
    assert set(found["confidence"]) == {"high"}
    ours = {
        (operator.removesuffix("_100"), module): ns / 1000  # SGLang numbers its attention
        for operator, module, ns in found.group_by("operator", "module")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum())
        .rows()
    }
    peer = {cell: us for cell, (_, us) in read_peer(corpus, name).items() if cell[1] not in outside}
    assert ours.keys() == peer.keys()
    assert ours == pytest.approx(peer, rel=1e-4)


# Parts, and the operators in whose cells TraceLens has their time: (operator, module, its share).
_OF_SGLANG = (
    ({"QKV projection"}, [("aten::mm", "QKVParallelLinear")]),
    (
        {"MLP", "output projection"},
        [("aten::mm", "MergedColumnParallelLinear"), ("aten::mm", "RowParallelLinear")],
    ),
    ({"vocabulary"}, [("aten::mm", "LogitsProcessor")]),
    ({"attention"}, [("sglang_profiler::attention_paged_attention_ragged", "RadixAttention")]),
    ({"norm"}, [("aiter::add_rmsnorm", "RMSNorm"), ("aiter::rmsnorm", "RMSNorm")]),
    ({"activation"}, [("sgl_kernel::silu_and_mul", "SiluAndMul")]),
    ({"rope"}, [("sgl_kernel::rotary_embedding", "RotaryEmbedding")]),
    ({"cache"}, [("sglang::store_cache", "RadixAttention")]),
    (
        {"copies and layout"},
        [("aten::copy_", "Qwen3Attention"), ("aten::copy_", "LogitsProcessor")],
    ),
    ({"embedding and indexing"}, [("aten::gather", "VocabParallelEmbedding")]),
)
_EXPERTS = ("vllm::moe_forward", "SortTokens", "TopK",
            "triton_poi_fused_constant_pad_nd_moe_forward_0")  # fmt: skip
_GRAPH = "GraphModule"
_OF_VLLM = (
    (  # aten::addmm projects, and chooses experts
        {"QKV projection", "output projection", "experts", "routing"},
        [("aten::addmm", _GRAPH), *((name, _GRAPH) for name in _EXPERTS)],
    ),
    (
        {"norm"},
        [("aiter::rmsnorm2d_fwd_with_add_ck", _GRAPH), ("aiter::rms_norm", _GRAPH)],
    ),
    ({"rope"}, [("_C::rotary_embedding", _GRAPH)]),
    (
        {"elementwise"},
        [("triton_poi_fused__to_copy_1", _GRAPH), ("triton_poi_fused_0", _GRAPH)],
    ),
)
_ATTENTION = (
    ({"attention"}, [("vllm::unified_attention_with_output", _GRAPH)]),
    ({"cache"}, [("_C_cache_ops::reshape_and_cache_flash", _GRAPH)]),
)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("sglang_decode", _OF_SGLANG),
        ("vllm_decode_full", _OF_VLLM + _ATTENTION),
        ("vllm_prefilldecode_piecewise", _OF_VLLM),  # attention is launched between the pieces
    ],
)
def test_replayed_kernels_have_their_part_without_a_capture(
    name: str, cells: tuple[tuple[set[str], list[tuple[str, str]]], ...], corpus: Path
) -> None:
    """By what comes back alone: each part has the time of its operators in TraceLens' table."""
    found = sightline.open(str(corpus / TRACELENS / EXECUTIONS[name])).attribute_graphs()
    assert found["part"].null_count() == 0
    assert found["layer"].count() >= 0.95 * found.height
    sums = dict(
        found.group_by("part").agg((pl.col("end_ns") - pl.col("start_ns")).sum() / 1000).rows()
    )
    assert set(sums) == set().union(*(parts for parts, _ in cells))
    peer = read_peer(corpus, name)
    for parts, operators in cells:
        assert sum(sums[part] for part in parts) == pytest.approx(
            sum(peer[cell][1] for cell in operators), rel=1e-4
        ), parts
