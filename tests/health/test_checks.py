"""Every check, once where it passes and once where it speaks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sightline.health.check import FAIL, PASS, UNCHECKED, WARN, run_check
from sightline.health.judge import count_states, grade, judge_node, list_checks
from sightline.health.node import Event, Gpu, Node, Port

WELL = {
    "recovery_action": 0, "ecc_uncorrected": 0, "ecc_corrected": 7, "remap_failure": 0,
    "remap_pending": 0, "rows_uncorrected": 511, "pages_corrected": 60, "pages_uncorrected": 2,
    "page_pending": 0, "pcie_width": 16, "pcie_width_max": 16, "pcie_generation": 5,
    "pcie_generation_max": 5, "utilization": 100, "nvlinks_up": 18, "nvlink_recoveries": 0,
    "clock_reasons": 4, "temperature": 60, "power_limit": 700, "power_limit_default": 700,
    "persistence": 1, "ecc_mode": 1, "ecc_mode_pending": 1, "mig_mode": 0, "mig_mode_pending": 0,
    "memory_used": 9e9, "processes": 1, "host_to_device": 55, "device_to_host": 48,
    "peer_bandwidth": 335, "matmul_tflops": 700,
}  # fmt: skip


def make_node() -> Node:
    """A node on which nothing is wrong, four GPUs of it at work."""
    node = Node("node1")
    for number in range(4):
        gpu = Gpu(number, "NVIDIA H100 80GB HBM3", values=dict(WELL), processes=[4711 + number])
        gpu.values["temperature"] += number
        node.gpus.append(gpu)
    node.ports = [
        Port(f"mlx5_{n}:1", "ACTIVE", "LinkUp", 400.0, {"link_downed": 0, "symbol_error": 0})
        for n in range(2)
    ]
    node.values = {
        "gpus by NVML": 4, "gpus by PCIe": 4, "kernel_log": 1, "peermem": 1, "memory_total": 2e12,
        "memory_available": 1e12, "huge_pages": 8, "disk free /": 50, "stuck_processes": 9,
    }  # fmt: skip
    node.texts = {
        "driver (kernel)": "575.57.08", "driver (NVML)": "575.57.08", "fabric manager": "575.57.08",
        "CUDA of the driver": "12.4", "CUDA runtime": "12.9", "CUDA of NCCL": "12",
        **{f"process {4711 + n}": "R" for n in range(4)},
    }  # fmt: skip
    node.events = [
        Event("xid", "XID 63: row remapper", 0),
        Event("check-passed", "", 0, "hardware/memory"),
    ]
    return node


def values(**changed: float) -> Callable[[Node], None]:
    return lambda node: node.gpus[2].values.update(changed)


def event(kind: str, text: str, device: int | None = 2) -> Callable[[Node], None]:
    return lambda node: node.events.append(Event(kind, text, device, None if device else "host"))


def lose(node: Node) -> None:
    node.gpus[2].lost = "GPU is lost"


def narrow_all(node: Node) -> None:
    for gpu in node.gpus:
        gpu.values["pcie_width"] = 8


def set_name(name: str) -> Callable[[Node], None]:
    return lambda node: setattr(node.gpus[2], "name", name)


def set_host(**changed: float) -> Callable[[Node], None]:
    return lambda node: node.values.update({k.replace("__", " "): v for k, v in changed.items()})


def set_text(name: str, text: str) -> Callable[[Node], None]:
    return lambda node: node.texts.update({name: text})


def break_port(**changed: object) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        node.ports[1] = node.ports[1]._replace(**changed)

    return change


def expect(**expected: float) -> Callable[[Node], None]:
    return lambda node: node.expected.update(expected)


# Check, what is wrong, what it says of it: state, place, a part of the text.
BROKEN = [
    ("recovery-action", values(recovery_action=2), FAIL, "GPU 2", "reboot the node"),
    ("recovery-action", values(recovery_action=5), FAIL, "GPU 2", "IMEX domain"),
    ("recovery-action", event("recovery-action", "asks: Reset"), FAIL, "GPU 2", "Reset"),
    ("gpu-lost", lose, FAIL, "GPU 2", "GPU is lost"),
    ("gpu-lost", event("device-lost", "gone"), FAIL, "GPU 2", "gone"),
    ("xid", event("xid", "XID 79: GPU has"), FAIL, "GPU 2", "drain and reboot the node"),
    ("xid", event("xid", "XID 31: MMU"), WARN, "GPU 2", "restart the application"),
    ("xid", event("xid", "XID 9999"), WARN, "GPU 2", "newer than this catalog"),
    ("nvswitch", event("sxid-fatal", "SXID 20034: LTSSM", None), FAIL, "host", "SXID 20034"),
    ("nvswitch", event("sxid", "SXID 11001: ingress", None), WARN, "host", "SXID 11001"),
    ("nvswitch", event("fabric-error", "summary Unhealthy"), FAIL, "GPU 2", "Unhealthy"),
    ("ecc-uncorrected", values(ecc_uncorrected=1), FAIL, "GPU 2", "1 uncorrected ECC error since"),
    ("row-remap-failure", values(remap_failure=1), FAIL, "GPU 2", "no spare row"),
    ("row-remap-pending", values(remap_pending=1), WARN, "GPU 2", "next reset"),
    ("rows-remapped", values(rows_uncorrected=512), FAIL, "GPU 2", "512 rows"),
    ("pages-retired", values(pages_uncorrected=3), FAIL, "GPU 2", "63 pages"),
    ("page-retirement-pending", values(page_pending=1), WARN, "GPU 2", "next reset"),
    ("pcie-width", values(pcie_width=8), FAIL, "GPU 2", "8 PCIe lanes, its siblings 16"),
    ("pcie-generation", values(pcie_generation=1), FAIL, "GPU 2", "1 as PCIe generation, its"),
    ("pcie-width", narrow_all, WARN, "GPU 2", "8 PCIe lanes where 16 are possible"),
    ("nvlink-state", values(nvlinks_up=17), FAIL, "GPU 2", "17 of 18 NVLinks"),
    ("nvlink-errors", values(nvlink_recoveries=3), WARN, "GPU 2", "recovered 3 times"),
    ("power-brake", values(clock_reasons=0x88), FAIL, "GPU 2", "power brake"),
    ("slowdown", values(clock_reasons=0x48), FAIL, "GPU 2", "hardware lowers its clocks, for heat"),
    ("slowdown", values(clock_reasons=0x20), WARN, "GPU 2", "driver lowers its clocks"),
    ("temperature", values(temperature=78), WARN, "GPU 2", "78 C, its siblings 62 C"),
    ("power-limit", values(power_limit=500), WARN, "GPU 2", "500 W instead of 700"),
    ("persistence-mode", values(persistence=0), WARN, "GPU 2", "off"),
    ("ecc-mode", values(ecc_mode=0, ecc_mode_pending=0), WARN, "GPU 2", "ECC is off"),
    ("ecc-mode", values(ecc_mode_pending=0), WARN, "GPU 2", "and off after a reset"),
    ("mig-mode", values(mig_mode=1, mig_mode_pending=1), WARN, "GPU 2", "there is no instance"),
    ("mig-mode", values(mig_mode_pending=1), WARN, "GPU 2", "next reset"),
    ("memory-held", lambda node: node.gpus[2].processes.clear(), WARN, "GPU 2", "9.000 GB"),
    ("zombies", set_text("process 4713", "Z"), FAIL, "GPU 2", "process 4713, which holds it"),
    ("zombies", set_text("process 4713", "gone"), FAIL, "GPU 2", "is gone"),
    ("gpu-count", set_host(gpus__by__PCIe=3), FAIL, "", "contradiction: NVML sees 4, PCIe sees 3"),
    ("gpu-count", expect(gpus=8), FAIL, "", "8 GPUs are expected: NVML sees 4, PCIe sees 4"),
    ("driver-version", set_text("driver (NVML)", "580.65.06"), FAIL, "", "NVML is from 580.65.06"),
    ("cuda-version", set_text("CUDA runtime", "13.0"), FAIL, "", "the driver runs up to 12.4"),
    ("nccl-version", set_text("CUDA of NCCL", "13"), WARN, "", "NCCL is for CUDA 13"),
    ("fabric-manager-version", set_text("fabric manager", "570.1"), FAIL, "", "has version 570.1"),
    ("infiniband", break_port(state="DOWN", physical="Polling"), FAIL, "mlx5_1:1", "is DOWN"),
    ("infiniband", break_port(gbit_per_s=200.0), FAIL, "mlx5_1:1", "200 Gbit/s instead of 400"),
    ("infiniband", expect(ib=800), FAIL, "mlx5_0:1", "400 Gbit/s instead of 800"),
    ("infiniband", expect(ports=8), FAIL, "", "2 ports instead of 8"),
    ("infiniband-errors", break_port(counters={"link_downed": 5}), WARN, "mlx5_1:1", "5 times"),
    ("infiniband-errors", break_port(counters={"symbol_error": 2}), WARN, "mlx5_1:1", "2 symbol"),
    ("rdma", set_host(peermem=0), WARN, "", "nvidia_peermem is not loaded"),
    ("memory", set_host(memory_available=9e10), WARN, "", "are free"),
    ("memory", expect(memory=3e12), FAIL, "", "2.000 TB of memory instead of 3.000 TB"),
    ("huge-pages", expect(hugepages=9), FAIL, "", "8 huge pages instead of 9"),
    ("disk", lambda n: n.values.update({"disk free /": 2}), FAIL, "/", "2 %"),
    ("disk", lambda n: n.values.update({"disk free /": 9}), WARN, "/", "9 %"),
    ("stuck-processes", set_host(stuck_processes=10), WARN, "", "10 processes wait"),
    ("kernel-errors", event("machine-check", "CPU 3: bank 7"), FAIL, "", "bank 7"),
    ("kernel-errors", event("out-of-memory", "Out of memory: Killed process"), WARN, "", "Killed"),
    ("host-bandwidth", values(host_to_device=26.0), FAIL, "GPU 2", "26.0 GB/s to it; 48 are"),
    ("host-bandwidth", set_name("NVIDIA L4"), UNCHECKED, "GPU 2", "no threshold is known"),
    ("compute", values(matmul_tflops=660), FAIL, "GPU 2", "660 TFLOP/s, its siblings 700"),
    ("compute", set_name("NVIDIA L4"), UNCHECKED, "GPU 2", "no sibling"),
    ("peer-bandwidth", values(peer_bandwidth=162.4), FAIL, "GPU 2", "162.4 GB/s from its slowest"),
    ("other-tools", event("check-failed", "SRAM", 1), FAIL, "GPU 1", "SRAM"),
]  # fmt: skip


def test_a_healthy_node_passes_all_checks() -> None:
    judged = judge_node(make_node(), "long")
    assert {one.check.name: grade([one]) for one in judged} == {
        check.name: PASS for check in list_checks()
    }
    assert count_states(judged) == {FAIL: 0, WARN: 0, PASS: len(list_checks()), UNCHECKED: 0}


def test_every_check_is_broken_below() -> None:
    assert {name for name, *_ in BROKEN} == {check.name for check in list_checks()}


@pytest.mark.parametrize(("name", "break_it", "state", "where", "text"), BROKEN)
def test_what_is_wrong_is_said_of_its_place(
    name: str, break_it: Callable[[Node], None], state: str, where: str, text: str
) -> None:
    node = make_node()
    break_it(node)
    check = next(check for check in list_checks() if check.name == name)
    spoken = [v for v in run_check(check, node) if v.state == state]
    assert any(v.where == where and text in v.text for v in spoken), run_check(check, node)


def test_checks_are_declared_whole() -> None:
    names = [check.name for check in list_checks()]
    assert names[0] == "recovery-action" and len(names) == len(set(names))
    for check in list_checks():
        assert check.what and check.threshold and check.source and check.fix
        assert (check.judge_gpu is None) != (check.judge_node is None)


def test_what_is_not_known_is_not_healthy() -> None:
    judged = judge_node(Node(missing={"gpus": "NVML does not start"}))
    states = {one.check.name: grade([one]) for one in judged}
    assert set(states.values()) == {UNCHECKED}
    by_name = {one.check.name: one.verdicts[0].text for one in judged}
    assert by_name["recovery-action"] == by_name["pcie-width"] == "NVML does not start"
    node = make_node()
    node.gpus[1].values.pop("pcie_width")
    node.gpus[1].missing["pcie_width"] = "Not Supported"
    (told,) = [
        v for one in judge_node(node) if one.check.name == "pcie-width" for v in one.verdicts
        if v.state != PASS
    ]  # fmt: skip
    assert told == (UNCHECKED, "Not Supported", "GPU 1")


def test_an_idle_gpus_link_may_be_slow() -> None:
    node = make_node()
    node.gpus[2].values.update(pcie_generation=1, utilization=0)
    assert grade(judge_node(node)) == PASS


def test_a_hundred_of_one_xid_are_one_line() -> None:
    node = make_node()
    node.events += [Event("xid", "XID 13: graphics", 1)] * 100
    (one,) = [one for one in judge_node(node) if one.check.name == "xid"]
    assert [v.text.split(":")[0] for v in one.list_verdicts(WARN)] == ["XID 13, 100 times"]
