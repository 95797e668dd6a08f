"""Every Kineto recording of the corpus against an exact sweep written a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import CORPUS
from sightline import open as sightline_open
from support import sweep
from support.campaigns import sample
from support.command import sightline, stats

pytestmark = pytest.mark.corpus

KINETO = CORPUS / "kineto"
MEGATRON = KINETO / "astra-sim__astra-sim" / "megatron-tp8"
PARTS = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")

# JSON, but no trace: lists of other things, TAU's own trace format.
NO_TRACES = {
    "sglang_decode/capture_traces/execution_details.json",
    "vllm_decode_full/capture_traces/execution_details.json",
    "workflow_consolidation/tracing/trace.json",
}
# Not Kineto's, but of another importer.
OTHERS_TRACES = {"memory_analysis/memory_timeline.raw.gz"}
# Traces without an operation on a device.
NO_DEVICE = {
    "cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "distributed_info_unavailable/distributed_info_not_found.json.gz",
    "mixed_files/rank_non_gpu.json.gz",
    "rank_non_gpu/rank_non_gpu.json.gz",
    "rank_unavailable/rank_not_found.json.gz",
}


def listed(path: Path, names: set[str]) -> bool:
    return any(path.as_posix().endswith(name) for name in names)


def label(path: Path) -> str:
    return "/".join(path.parts[-2:])


FILES = sorted(p for p in KINETO.rglob("*") if p.is_file()) if KINETO.is_dir() else []
if not FILES:
    pytest.skip(f"no corpus at {CORPUS}", allow_module_level=True)
OTHER = [p for p in FILES if listed(p, NO_TRACES)]
HOST_ONLY = [p for p in FILES if listed(p, NO_DEVICE)]
TRACES = [p for p in FILES if p not in OTHER + HOST_ONLY and not listed(p, OTHERS_TRACES)]


def test_nothing_of_the_corpus_is_left_out() -> None:
    assert (len(OTHER), len(HOST_ONLY)) == (len(NO_TRACES), len(NO_DEVICE))
    assert len(TRACES) >= 45


@pytest.mark.parametrize("path", sample(TRACES, 2), ids=label)
def test_breakdown_equals_the_exact_sweep(path: Path) -> None:
    rows = stats("breakdown", path)
    ours = {
        (row["rank"], row["device_id"]): {name: row[name] for name in ("window_ns", *PARTS)}
        for row in rows
    }
    assert ours == sweep.breakdowns(path)
    assert all(sum(row[part] for part in PARTS) == row["window_ns"] for row in rows)
    limits = sightline_open(str(path)).table("quality").get_column("kind")
    assert "unknown_categories" not in limits


@pytest.mark.parametrize("path", HOST_ONLY, ids=label)
def test_trace_without_device_operations_says_so(path: Path) -> None:
    assert not sweep.operations(sweep.parse(path))
    outcome = sightline("stats", "breakdown", path, "--format", "json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "no device_ops" in outcome.err


@pytest.mark.parametrize("path", OTHER, ids=label)
def test_file_that_is_no_trace_is_a_clear_error(path: Path) -> None:
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


@pytest.mark.parametrize("path", [*TRACES[:6], *HOST_ONLY], ids=label)
def test_report_reads_every_kind_of_trace(path: Path) -> None:
    outcome = sightline("report", path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip()
