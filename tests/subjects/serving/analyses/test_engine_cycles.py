"""The table of what a step costs host and device, by phase."""

from __future__ import annotations

from pathlib import Path

from support.traces import call, host, kernel, launched, opened


def test_a_step_that_replays_and_one_that_launches(tmp_path: Path) -> None:
    names = ("execute_context_1(16)_generation_0(0)", "execute_context_0(0)_generation_1(1)")
    run = opened(
        tmp_path,
        [
            host("user_annotation", names[0], 0, 40),
            launched(5, kernel("prefill", 20, 100)),
            host("user_annotation", names[1], 150, 30),
            call("cudaGraphLaunch", 160, 12, 77),
            kernel("layer", 175, 20, 77),
            kernel("layer", 190, 20, 77, stream=8),
        ],
    )
    columns = ("phase", "cycle_ns", "cpu_span_ns", "gpu_span_ns", "busy_ns", "overlap_ns")
    counts = ("launches", "graph_launches", "graph_kernels", "graph_launch_ns")
    assert run.ask("engine_cycles").select(*columns, *counts).rows() == [
        ("prefill", 150_000, 40_000, 100_000, 100_000, 0, 1, 0, 0, 0),
        ("decode", 30_000, 30_000, 35_000, 35_000, 5_000, 0, 1, 2, 12_000),
    ]
