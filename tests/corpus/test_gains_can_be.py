"""No gain is more than what can be removed, on real recordings."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core import registry
from sightline.errors import SightlineError
from sightline.replay.gains import starts_in_window
from sightline.replay.graph import list_nodes
from sightline.replay.resources import measure_least
from sightline.timeline.segments import select_repeating
from support.campaigns import sample
from support.places import ROOT

RECORDINGS = (
    "nsys/JeremyGuo__RealCUGAN-TensorRT/profile.nsys-rep",
    "nsys/cestwc__balinski-and-gomory-cuda/report19.sqlite",
    "nsys/danae-pan__hpc_assignment3/report1.nsys-rep",
    "nsys/PolPuigPuy__OpenACC_Project_PolPuig/report2.sqlite",
    "nsys/p4arth__cuda-perf-sandbox/vecAddAsync_report.nsys-rep",
    "nsys/gametekker__mamba_versions/report1.nsys-rep",
    "nsys/D-W-Chiang__JACC.jl/1e8_cg_trace.nsys-rep",
    "kineto/hyukjlee__traceMap/trace_file/examples/1_h100_1000isl_10osl_32con.pt.trace.json.gz",
    "kineto/CodingPlatelets__SwitchTransformers/result/trace.json.gz",
)
# The folders of the corpus that hold timelines: all of it is tried in `make sweep`.
_TIMELINES = (
    *("nsys", "kineto", "intel_unitrace", "xplane", "rocprof_legacy", "rocpd", "rocprofv3"),
    *("chakra_et", "peer_expected"),
)
_HIDDEN = ("idle_ns", "exposed_copy_ns", "exposed_comm_ns", "unknown_ns")


def list_others() -> list[str]:
    """The other recordings of these folders that are read, as answers.tsv has them."""
    with (ROOT / "tests/corpus/answers.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    read = [row["recording"] for row in rows if row["code"] == "0"]
    return [n for n in read if n.split("/")[0] in _TIMELINES and n not in RECORDINGS]


@pytest.mark.corpus
@pytest.mark.parametrize("name", [*sample(RECORDINGS, 3), *sample(list_others(), 100)])
def test_idle_time_gains_no_more_than_there_is(corpus: Path, name: str) -> None:
    """Idle time, exposed copies and communication, and what may overlap: nothing beyond that."""
    if not (corpus / name).exists():
        pytest.skip("not in this corpus")
    opened = sightline.open(str(corpus / name))
    if not opened.rows("device_ops"):
        pytest.skip("no device's work")
    run = select_repeating(opened)
    try:
        found = sightline.findings(run)
    except SightlineError as refused:
        pytest.fail(str(refused))
    nodes = list_nodes(run)
    window = int(run.ask("breakdown").get_column("window_ns").max())
    least = measure_least(run, nodes, starts_in_window(run, nodes))
    hidden = int(run.ask("breakdown").select(pl.sum_horizontal(_HIDDEN)).to_series().max())
    rules = {m.RULE.name: m.RULE for _, m in registry.load_members("rules")}
    for finding in found:
        if finding.gain_ns and finding.rule in rules and rules[finding.rule].causes:
            assert finding.gain_ns <= max(window - least, hidden), finding.title
            assert finding.gain_ns <= finding.cost_ns
