"""Real pairs: against what TraceLens published of one, and where no change is expected."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from sightline.compare.comparison import compare_samples
from sightline.compare.sides import open_side

pytestmark = pytest.mark.corpus

_QWEN = "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"


@pytest.fixture(scope="module")
def qwen(corpus: Path) -> dict[str, Any]:
    traces = corpus / "kineto" / "AMD-AGI__TraceLens"
    return compare_samples(*[open_side([str(traces / gpu / _QWEN)]) for gpu in ("h100", "mi300")])


@pytest.fixture(scope="module")
def published(corpus: Path) -> Path:
    """TraceLens' own comparison of the same two recordings."""
    peers = corpus / "peer_expected" / "AMD-AGI__TraceLens" / "tests" / "traces"
    return peers / "compare_test_e2e" / "reference" / "compare_h100_mi300_qwen_csvs"


def _read(path: Path, key: str) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row[key]: row for row in csv.DictReader(file)}


def test_timeline_is_the_published_one(qwen: dict[str, Any], published: Path) -> None:
    """Whole and idle time of both sides, but for what float64 drops of µs at 1.7e14: 31 ns."""
    rows = _read(published / "gpu_timeline.csv", "type")
    idle = next(r for r in qwen["waterfall"] if r["part"] == "idle")
    for ours, theirs in ((qwen["step"], "total_time"), (idle, "idle_time")):
        for side, name in (("before_ns", "h100"), ("after_ns", "mi300")):
            assert ours[side] == pytest.approx(
                float(rows[theirs][f"{name}::time ms"]) * 1e6, abs=32
            )


@pytest.mark.parametrize(
    "operator", ["aten::mul", "aten::add", "aten::cat", "aten::_flash_attention_forward"]
)
def test_operators_are_the_published_ones(
    qwen: dict[str, Any], published: Path, operator: str
) -> None:
    """Operators whose kernels run alone, across vendors: the difference to the microsecond."""
    rows = _read(published / "ops_summary.csv", "name")
    mine = [p for p in qwen["pairs"] if p["operator"] == operator and p["part"] == "compute"]
    theirs = float(rows[operator]["total_direct_kernel_time_ms__mi300_diff"]) * 1e6
    assert sum(p["delta_ns"] for p in mine) == pytest.approx(theirs, abs=1000)


def test_all_that_was_launched_is_matched_across_vendors(qwen: dict[str, Any]) -> None:
    alone = [p for p in qwen["pairs"] if p["grade"] == "unmatched" and p["part"] == "compute"]
    assert sum(p["before_ns"] + p["after_ns"] for p in alone) < 0.02 * qwen["step"]["before_ns"]
    assert qwen["verdict"]["word"] == "not comparable"
    assert "H100" in qwen["verdict"]["reasons"][0]


def test_other_gpus_are_said(corpus: Path) -> None:
    """HTA's example of a trace diff: an A100 of eight against a V100 of two, which nobody says."""
    folder = corpus / "kineto" / "facebookresearch__HolisticTraceAnalysis" / "trace_diff"
    sides = [open_side([str(folder / side / f"{side}.json.gz")]) for side in ("control", "test")]
    # From the end of one step's last operation to that of the next, summed by hand from the files.
    assert [side[0].step_ns for side in sides] == [77_903_000, 117_573_800]
    data = compare_samples(*sides)
    assert data["verdict"]["word"] == "not comparable"
    assert data["verdict"]["reasons"] == (
        "before ran on NVIDIA A100-PG509-200, after on Tesla V100-SXM2-16GB",
        "the job had 8 ranks before and 2 after",
    )
    # The host of the one waits for nothing but itself, so its recorder took more of a step.
    assert "recorder" in [check["check"] for check in data["checks"]]
    assert sum(p["delta_ns"] for p in data["pairs"]) == data["step"]["delta_ns"]


def test_ranks_of_one_job_are_one_program(corpus: Path) -> None:
    """Megatron's ranks against one another: nothing blocks, and no side is faster or slower."""
    folder = corpus / "kineto" / "astra-sim__astra-sim"
    ranks = [folder / f"megatron-tp8/megatron_kineto_{rank}.json.gz" for rank in range(3)]
    samples = [open_side([str(path)]) for path in ranks]
    for other in samples[1:]:
        data = compare_samples(samples[0], other)
        assert data["verdict"]["word"] in ("no change", "inconclusive")
