"""Real recordings of nvidia-smi and rocm-smi, judged as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.health.check import FAIL
from sightline.health.judge import grade, judge_node
from sightline.health.reading.recordings import read_recordings
from support.corpus import list_recordings

HEALTH = "smi/NVIDIA__k8s-test-infra/tests/e2e/go/assertions/nvidiasmi/testdata"


def list_failing(path: Path) -> set[str]:
    node = read_recordings(sightline.open(str(path)))
    return {one.check.name for one in judge_node(node) if grade([one]) == FAIL}


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", list_recordings("smi/**/*.xml", "smi/**/*.json"), ids=lambda p: p.name
)
def test_only_what_was_broken_for_a_test_is_unhealthy(path: Path) -> None:
    memory = {"ecc-uncorrected", "row-remap-failure"}
    injected = {"ecc-injected": memory, "lost": {"gpu-lost", *memory},
                "fabric-degraded": {"nvswitch"}}  # fmt: skip
    expected = next((names for word, names in injected.items() if word in path.stem), set())
    assert list_failing(path) == expected


@pytest.mark.corpus
def test_counts_of_a_node_of_eight(corpus: Path) -> None:
    node = read_recordings(sightline.open(str(corpus / HEALTH / "hardware/qx-h100.xml")))
    assert len(node.gpus) == 8 and all("H100" in gpu.name for gpu in node.gpus)
    assert {gpu.values["pcie_width"] for gpu in node.gpus} == {16}
    assert {gpu.values["power_limit_default"] for gpu in node.gpus} == {
        gpu.values["power_limit"] for gpu in node.gpus
    }
