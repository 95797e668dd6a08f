"""How far steps are from the roofline: an A100 of 312 TFLOP/s and 2.039 TB/s, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from support.traces import computed, host, kernel, opened, told, write

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}


def test_decode_is_bound_by_its_weights_and_prefill_by_its_flop(tmp_path: Path) -> None:
    """One product a step, of 4 rows and of 4,096: weights of 10,000 x 10,000 in bf16.

    Decode reads 200 MB and some: 98.2 us at the least, and takes 150. A prompt of 4,096 tokens
    is 819 GFLOP: 2.626 ms at the least, and takes 5.
    """
    events = [
        host("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 30),
        computed("aten::mm", 5, kernel("gemm", 100, 150), **told([4, 10_000], [10_000, 10_000])),
        host("user_annotation", "execute_context_1(4096)_generation_0(0)", 300, 30),
        computed(
            "aten::mm", 305, kernel("gemm", 400, 5_000), **told([4096, 10_000], [10_000, 10_000])
        ),
    ]
    rows = opened(tmp_path, events, **A100).ask("engine_roofline").to_dicts()
    by_phase = {row["phase"]: row for row in rows}
    decode, prefill = by_phase["decode"], by_phase["prefill"]
    moved = 2 * (10_000 * 10_000 + 2 * 4 * 10_000)
    assert decode["moved_bytes"] == moved
    assert decode["best_ns"] == round(moved / 2039)  # bytes a ns
    assert (decode["bound"], decode["duration_ns"]) == ("memory", 150_000)
    assert decode["times_best"] == pytest.approx(150_000 / (moved / 2039), rel=1e-6)
    assert decode["mbu_pct"] == pytest.approx(100 * moved / 150e-6 / 2.039e12)
    assert prefill["flop"] == 2 * 4096 * 10_000**2
    assert prefill["best_ns"] == round(2 * 4096 * 10_000**2 / 312e12 * 1e9)
    assert (prefill["bound"], prefill["counted_pct"]) == ("compute", 100.0)
    assert prefill["mfu_pct"] == pytest.approx(100 * 819.2e9 / 5e-3 / 312e12)


def test_a_phase_that_is_mostly_uncounted_has_no_bound(tmp_path: Path) -> None:
    events = [
        host("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 30),
        computed("aten::mm", 5, kernel("gemm", 100, 40), **told([4, 100], [100, 100])),
        computed("vllm::attention", 15, kernel("paged", 150, 60)),
    ]
    with pytest.raises(MissingDataError, match="roofline is unknown"):
        opened(tmp_path, events, **A100).ask("engine_roofline")


METRICS = """\
vllm:estimated_flops_per_gpu_total{{engine="0"}} {flop} {at}
vllm:estimated_read_bytes_per_gpu_total{{engine="0"}} {read} {at}
vllm:estimated_write_bytes_per_gpu_total{{engine="0"}} 0 {at}
"""


def test_by_the_servers_own_count(tmp_path: Path) -> None:
    """Two steps of 500 us; 1.0195 GB between the readings are 250 us a step at the least."""
    events = [
        event
        for n in range(2)
        for event in (
            host("user_annotation", "execute_context_0(0)_generation_4(4)", 1000 * n, 30),
            *computed("vllm::gemm", 1000 * n + 5, kernel("gemm", 1000 * n + 100, 500)),
        )
    ]
    trace = write(tmp_path, events, "rank0.json", **A100)
    text = "# TYPE vllm:estimated_flops_per_gpu_total counter\n"
    text += METRICS.format(flop=0, read=0, at=1000)
    text += METRICS.format(flop=62.4e9, read=1.0195e9, at=2000)
    (tmp_path / "metrics.prom").write_text(text)
    run = sightline.open(str(trace), str(tmp_path / "metrics.prom"))
    (row,) = run.ask("engine_roofline").to_dicts()
    assert (row["phase"], row["source"], row["steps"]) == ("all", "server's count", 2)
    assert (row["best_ns"], row["bound"]) == (250_000, "memory")
    assert row["times_best"] == pytest.approx(2.0)
    assert row["mfu_pct"] == pytest.approx(20.0)  # 31.2 GFLOP in 500 us, of 312 TFLOP/s


def test_without_shapes_and_counts(tmp_path: Path) -> None:
    events = [
        host("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 30),
        computed("vllm::gemm", 5, kernel("gemm", 100, 150)),
    ]
    with pytest.raises(MissingDataError, match="roofline is unknown"):
        opened(tmp_path, events, **A100).ask("engine_roofline")
