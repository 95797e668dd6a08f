"""Whose a GPU and its processes are in Kubernetes: of a node's files, made up as the kubelet's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from sightline.record.monitor.exporter import Collector
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.readings import GPU, PROCESS, Device, Entity, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.pods import Pod, Pods, read_cgroup
from sightline.record.probe.backend import COPY_SIZE
from sightline.record.probe.counts import ProbeCollector
from support.places import ROOT

UID = "6b1f0c1e-1f6e-4d6a-9b0f-0d8f5f1c2a3b"
ID, OTHER = "a" * 64, "b" * 64
SYSTEMD = (
    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
    f"{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope\n"
)
CGROUPFS = f"12:memory:/kubepods/besteffort/pod{UID}/{ID}\n1:name=systemd:/kubepods/x\n"


@pytest.mark.parametrize("text", [SYSTEMD, CGROUPFS])
def test_a_cgroup_names_pod_and_container(text: str) -> None:
    assert read_cgroup(text) == (UID, ID)


def test_a_cgroup_of_no_pod() -> None:
    assert read_cgroup("0::/user.slice/user-1000.slice/session-2.scope\n") == (None, None)
    assert read_cgroup(f"0::/system.slice/docker-{ID}.scope\n") == (None, ID)


def make_node(root: Path, **cgroups: str) -> Pods:
    for pid, text in cgroups.items():
        (root / "proc" / pid[1:]).mkdir(parents=True)
        (root / "proc" / pid[1:] / "cgroup").write_text(text)
    (root / "var/log/containers").mkdir(parents=True)
    (root / "var/log/containers" / f"train-0_research_main-{ID}.log").write_text("")
    (root / "var/log/pods" / f"research_train-0_{UID}").mkdir(parents=True)
    return Pods(root)


def test_names_are_those_of_the_kubelets_logs(tmp_path: Path) -> None:
    pods = make_node(tmp_path, p7=SYSTEMD, p8=SYSTEMD.replace(ID, OTHER), p9="0::/init.scope\n")
    assert pods.find(7) == Pod("research", "train-0", "main")
    assert pods.find(8) == Pod("research", "train-0")  # its container's log is not there
    assert pods.find(9) is None and pods.find(10) is None
    assert pods.find_all([7, 7]) == Pod("research", "train-0", "main")
    assert pods.find_all([7, 9]) is None


def test_metrics_have_the_labels_of_their_pod(tmp_path: Path) -> None:
    pods = make_node(tmp_path, p7=SYSTEMD, p9="0::/init.scope\n")
    latest = Latest({0: Device(0, "nvidia", "H100", "GPU-0"), 1: Device(1, "nvidia", "H100")})
    latest.put(
        Round(1, 1, [
            Reading(Entity(GPU, 0), 1, {"power": 300.0}),
            Reading(Entity(GPU, 1), 1, {"power": 200.0}),
            Reading(Entity(PROCESS, 0, "process 7"), 1, {"memory used": 2.0**30}),
            Reading(Entity(PROCESS, 1, "process 7"), 1, {"memory used": 1.0}),
            Reading(Entity(PROCESS, 1, "process 9"), 1, {"GPU utilization": 50.0}),
        ])
    )  # fmt: skip
    samples = [
        (sample.name, sample.labels, sample.value)
        for family in Collector(latest, host="n", pods=pods).collect()
        for sample in family.samples
    ]
    mine = {"namespace": "research", "pod": "train-0", "container": "main"}
    (power,) = (s for s in samples if s[0] == "DCGM_FI_DEV_POWER_USAGE" and s[1]["gpu"] == "0")
    assert mine.items() <= power[1].items()
    # A GPU that two share is nobody's; each process says whose it is.
    (shared,) = (s for s in samples if s[0] == "DCGM_FI_DEV_POWER_USAGE" and s[1]["gpu"] == "1")
    assert "pod" not in shared[1]
    memory = [s for s in samples if s[0] == "sightline_process_memory_used_bytes"]
    assert [(s[1]["gpu"], s[1]["pid"], s[1]["pod"], s[2]) for s in memory] == [
        ("GPU-0", "7", "train-0", 2.0**30),
        ("1", "7", "train-0", 1.0),
    ]
    (use,) = (s for s in samples if s[0] == "sightline_process_gpu_utilization_ratio")
    assert "pod" not in use[1] and use[2] == 0.5


class Called(NamedTuple):
    """A probed function."""

    kind: str
    name: str
    layer: str = "runtime"


class Probed:
    """A probe's session and backend that have counted one launch, one copy and one call."""

    def __init__(self) -> None:
        self.processes = {7: SimpleNamespace(name="program")}
        self.functions = [
            Called(kind, name)
            for kind, name in (("allocate", "cudaMalloc"), ("wait", "cudaStreamSynchronize"),
                               ("wait", "cudaDeviceSynchronize"))
        ]  # fmt: skip

    def count_kernels(self):
        return {(7, "scale"): 3}

    def read_totals(self):
        sums = dict.fromkeys(("entered", "bytes", "duration_ns", "failed", "lost"), 1)
        return {(7, number): sums for number in range(len(self.functions))}

    def read_sizes(self):
        return [SimpleNamespace(pid=7, what=COPY_SIZE + 1, bucket=3, amount=2)]


def test_a_probes_counts_have_the_pod_and_the_dashboard_asks_for_them(tmp_path: Path) -> None:
    pods = make_node(tmp_path, p7=SYSTEMD)
    probed = Probed()
    samples = [
        sample
        for family in ProbeCollector(probed, probed, 400.0, pods).collect()  # type: ignore[arg-type]
        for sample in family.samples
    ]
    launches = next(s for s in samples if s.name == "gpu_cuda_kernel_launch_calls_total")
    assert launches.labels["k8s_pod_name"] == "train-0" and launches.value == 3
    assert launches.labels["k8s_namespace_name"] == "research"
    board = json.loads((ROOT / "examples" / "grafana-probe.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    known = {sample.name for sample in samples}
    labels = {label for sample in samples for label in sample.labels}
    for expression in asked:
        names = re.findall(r"\b(?:gpu_cuda|sightline_probe)_\w+", expression)
        assert names and set(names) <= known, expression
        by = re.findall(r"by \(([^)]*)\)|(\w+)=~", expression)
        used = {label for pair in by for part in pair for label in part.split(",") if label}
        assert used <= labels, expression
