"""TraceLens' published timelines of the same recordings against ours.

`docs/accuracy.md` explains each figure that differs. TraceLens counts memsets as compute, and
counts only operations whose launch the recording shows: with these two rules its figures come
out of our second opinion, too, so nothing about the times themselves is in doubt.
"""

from __future__ import annotations

import csv
import re
from typing import Any

import pytest

from support import sweep
from support.command import stats
from support.corpus import CORPUS
from support.places import ROOT

pytestmark = pytest.mark.corpus

ACCURACY = ROOT / "docs" / "accuracy.md"
TRACES = CORPUS / "kineto" / "AMD-AGI__TraceLens"
EXPECTED = CORPUS / "peer_expected" / "AMD-AGI__TraceLens" / "tests" / "traces"

RECORDINGS = (
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "h100/google_owlv2-large-patch14-ensemble__1016001.json.gz",
    "inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
    "inference/vllm_decode_full/graph_execution.json.gz",
    "inference/vllm_prefilldecode_piecewise/graph_execution.json.gz",
    "mi210/gpu_only_trace/gpu_only_trace.json.gz",
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    "mi300/resnet_act_checkpoint.json.gz",
    "perf_model/normalization/normalization_layer_test.json.gz",
    "torch_compile_triton/trace.json.gz",
)
# File, and why it differs; the text stands in docs/accuracy.md.
EXCEPTIONS = {
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "launch not recorded",
    "h100/google_owlv2-large-patch14-ensemble__1016001.json.gz": "memsets",
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "launch not recorded",
    "mi300/resnet_act_checkpoint.json.gz": "launch not recorded",
    "perf_model/normalization/normalization_layer_test.json.gz": "memsets",
}
THEIR_NAMES = {
    "window_ns": "total_time",
    "compute_ns": "computation_time",
    "exposed_comm_ns": "exposed_comm_time",
    "exposed_copy_ns": "exposed_memcpy_time",
    "idle_ns": "idle_time",
}
Timeline = dict[str, float]


def published(recording: str) -> list[Timeline]:
    """TraceLens' figures in ns; a second table holds recomputed forward work alone."""
    tables: dict[str, Timeline] = {}
    path = EXPECTED / recording
    stem = path.name.removesuffix(".json.gz")
    folders = (f"{stem}_perf_report_csvs", f"{stem}_recompute_perf_report_csvs", "perf_csvs")
    timeline = next(
        f for f in (path.parent / n / "gpu_timeline.csv" for n in folders) if f.exists()
    )
    with timeline.open(newline="") as lines:
        for row in csv.DictReader(lines):
            part = tables.setdefault(row.get("is_recompute", "False"), {})
            part[row["type"]] = float(row["time ms"]) * 1e6
    return [tables[key] for key in sorted(tables)]


def agrees(ours: dict[str, int], theirs: Timeline) -> bool:
    """Within 0.1 % of each figure; 100 ns are what their float64 and four merges lose."""
    return all(
        abs(ours[name] - theirs[other]) <= max(1e-3 * theirs[other], 100)
        for name, other in THEIR_NAMES.items()
    )


def in_their_scope(recording: str) -> list[sweep.Operation]:
    """Operations that TraceLens counts; memsets are compute.

    An arrow from a launch must name the operation, or a graph launch its correlation id.
    """
    events = sweep.events_of(sweep.parse(TRACES / recording))
    linked = {e["id"] for e in events if e.get("ph") == "s" and e.get("cat") == "ac2g"}
    linked |= {
        e["args"]["correlation"]
        for e in events
        if "GraphLaunch" in str(e.get("name")) and e.get("cat") == "cuda_runtime"
    }
    found = []
    for event in events:
        kind = sweep.class_of(event) if event.get("ph") == "X" else None
        if kind is not None and event["args"].get("correlation") in linked:
            start = sweep.ns(event["ts"])
            kind = "compute" if event["cat"] == "gpu_memset" else kind
            found.append((start, start + sweep.ns(event["dur"]), kind))
    return found


@pytest.mark.parametrize("recording", RECORDINGS)
def test_figures_agree_except_where_documented(recording: str) -> None:
    (ours,) = stats("breakdown", TRACES / recording)
    assert agrees(ours, published(recording)[0]) == (recording not in EXCEPTIONS)


@pytest.mark.parametrize("recording", [r for r in RECORDINGS if "resnet" not in r])
def test_their_figures_follow_from_their_scope(recording: str) -> None:
    assert agrees(sweep.breakdown(in_their_scope(recording)), published(recording)[0])


def test_recomputed_work_stands_in_a_table_of_its_own() -> None:
    """Its two tables split compute; window and communication are those of the linked operations."""
    recording = "mi300/resnet_act_checkpoint.json.gz"
    first, recomputed = published(recording)
    linked = in_their_scope(recording)
    parts = sweep.breakdown(linked)
    communication = sweep.breakdown([op for op in linked if op[2] == "exposed_comm"])
    assert parts["window_ns"] == pytest.approx(first["total_time"], abs=100)
    assert parts["compute_ns"] == pytest.approx(
        first["computation_time"] + recomputed["computation_time"], abs=100
    )
    assert communication["exposed_comm_ns"] == pytest.approx(first["total_comm_time"], abs=100)


def documented() -> dict[str, dict[str, Any]]:
    """The agreement table of docs/accuracy.md: file, our window and idle in ns, verdict."""
    text = ACCURACY.read_text(encoding="utf-8")
    row = re.compile(r"^\| `([^`]+\.json\.gz)` \| ([\d,]+) \| ([\d,]+) \|.*\| ([^|]+) \|$", re.M)
    return {
        m[1]: {
            "window_ns": int(m[2].replace(",", "")),
            "idle_ns": int(m[3].replace(",", "")),
            "verdict": m[4].strip(),
        }
        for m in row.finditer(text)
    }


def test_every_recording_is_in_the_documented_table() -> None:
    assert set(documented()) == set(RECORDINGS)


@pytest.mark.parametrize("recording", RECORDINGS)
def test_documented_figures_and_verdicts_are_true(recording: str) -> None:
    (ours,) = stats("breakdown", TRACES / recording)
    said = documented()[recording]
    assert (said["window_ns"], said["idle_ns"]) == (ours["window_ns"], ours["idle_ns"])
    assert said["verdict"] == EXCEPTIONS.get(recording, "agrees")
