"""The first finding on real recordings, as docs/cases.md tells it."""

from __future__ import annotations

import pytest

import sightline
from sightline import findings

HTA = "kineto/facebookresearch__HolisticTraceAnalysis/trace_diff"
H100 = "kineto/AMD-AGI__TraceLens/h100"
CASES = {
    "nsys/GindaChen__nsys-ai/tests/fixtures/h100_2gpu_1s.sqlite": ("h2d-bound", 95.0),
    f"{HTA}/control": ("exposed-communication", 16.5),
    f"{HTA}/test": ("copy-bound", 11.0),
    f"{H100}/google_owlv2-large-patch14-ensemble__1016001.json.gz": ("dataloader-starved", 45.6),
    f"{H100}/gaunernst_bert-small-uncased__1016001.json.gz": ("launch-bound", 90.2),
    "kineto/pytorch__kineto/tb_plugin/samples/resnet50_num_workers_0": ("dataloader-starved", 24.6),
    "kineto/astra-sim__astra-sim/megatron-tp8": ("hosts-bind-job", 64.9),
}


@pytest.mark.corpus
@pytest.mark.parametrize("path", CASES)
def test_first_finding(path, corpus):
    rule, pct = CASES[path]
    first = findings(sightline.open(str(corpus / path)))[0]
    assert first.rule == rule
    assert first.severity in ("critical", "warning")
    assert first.cost_pct == pytest.approx(pct, abs=0.05)


@pytest.mark.corpus
def test_megatron_names_the_late_ranks_and_what_is_behind(corpus):
    found = findings(sightline.open(str(corpus / "kineto/astra-sim__astra-sim/megatron-tp8")))
    first = next(f for f in found if f.gain_ns)
    assert first.rule == "straggler-rank"
    assert first.where["late_ranks"] == [0, 6]
    assert any("the next limit is the host" in line for line in first.evidence)
