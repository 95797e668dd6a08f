"""Every Kineto recording of the corpus against an exact sweep written a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline import open as sightline_open
from support import sweep
from support.campaigns import sample
from support.command import sightline, stats
from support.corpus import CORPUS, list_recordings, name_recording
from support.differences import compare_figures

pytestmark = pytest.mark.corpus

KINETO = CORPUS / "kineto"
MEGATRON = KINETO / "astra-sim__astra-sim" / "megatron-tp8"
PARTS = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")

# JSON, but no trace: lists of other things, TAU's own trace format.
NO_TRACES = (
    "AMD-AGI__TraceLens/inference/sglang_decode/capture_traces/execution_details.json",
    "AMD-AGI__TraceLens/inference/vllm_decode_full/capture_traces/execution_details.json",
    "UO-OACISS__tau2/examples/workflow_consolidation/tracing/trace.json",
)
# Traces without an operation on a device.
HTA = "facebookresearch__HolisticTraceAnalysis"
HOST_ONLY = (
    f"{HTA}/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    f"{HTA}/distributed_info_unavailable/distributed_info_not_found.json.gz",
    f"{HTA}/mixed_files/rank_non_gpu.json.gz",
    f"{HTA}/rank_non_gpu/rank_non_gpu.json.gz",
    f"{HTA}/rank_unavailable/rank_not_found.json.gz",
)
READ = (
    "AMD-AGI__TraceLens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "AMD-AGI__TraceLens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_decode/capture_traces/bs_32_rank0.json.gz",
    "AMD-AGI__TraceLens/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    f"{HTA}/critical_path/cuda_event_sync/event_sync_trace.json.gz",
)
TRACES = list_recordings("kineto/**/*")


def list_devices(path: Path) -> list[int]:
    """Devices with an operation, by the second opinion; none where the file is no trace at all."""
    try:
        return list(sweep.operations(sweep.parse(path)))
    except (KeyError, TypeError, AttributeError):
        return []


@pytest.mark.parametrize("path", sample(TRACES, 2), ids=name_recording)
def test_breakdown_equals_the_exact_sweep(path: Path) -> None:
    if not list_devices(path):
        outcome = sightline("stats", "breakdown", path, "--format", "json")
        assert (outcome.code, outcome.out) == (2, "")
        assert "no device_ops" in outcome.err or path.name in outcome.err
        assert "Traceback" not in outcome.err
        return
    rows = stats("breakdown", path)
    ours = {
        (row["rank"], row["device_id"]): {name: row[name] for name in ("window_ns", *PARTS)}
        for row in rows
    }
    compare_figures(path, "breakdown", ours, sweep.breakdowns(path))
    assert all(sum(row[part] for part in PARTS) == row["window_ns"] for row in rows)
    limits = sightline_open(str(path)).table("quality").get_column("kind")
    assert "unknown_categories" not in limits


@pytest.mark.parametrize("name", HOST_ONLY)
def test_trace_without_device_operations_says_so(name: str) -> None:
    assert not list_devices(KINETO / name)
    outcome = sightline("stats", "breakdown", KINETO / name, "--format", "json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "no device_ops" in outcome.err


@pytest.mark.parametrize("name", NO_TRACES)
def test_file_that_is_no_trace_is_a_clear_error(name: str) -> None:
    path = KINETO / name
    outcome = sightline("stats", "breakdown", path, "--format", "json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert path.name in outcome.err
    assert "not a trace" in outcome.err
    assert "Traceback" not in outcome.err


def test_eight_ranks_in_one_command() -> None:
    rows = stats("breakdown", MEGATRON)
    want = {}
    for path in MEGATRON.glob("*.json.gz"):
        want |= sweep.breakdowns(path)
    assert {(r["rank"], r["device_id"]): r["exposed_comm_ns"] for r in rows} == {
        key: parts["exposed_comm_ns"] for key, parts in want.items()
    }
    assert sorted(r["rank"] for r in rows) == list(range(8))


def test_megatron_ranks_0_and_6_spend_least_time_in_communication() -> None:
    rows = stats("overlap", MEGATRON)
    ranks = [r["rank"] for r in sorted(rows, key=lambda r: r["comm_ns"])]
    assert set(ranks[:2]) == {0, 6}


@pytest.mark.parametrize("name", [*READ, *HOST_ONLY])
def test_report_reads_every_kind_of_trace(name: str) -> None:
    outcome = sightline("report", KINETO / name)
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip()
