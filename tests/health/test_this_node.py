"""A machine made of a fake NVML, fake files of /sys, /proc and /dev, and stand-ins for tools."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sightline.health.check import FAIL, WARN
from sightline.health.judge import forget_before, judge_node
from sightline.health.node import Node
from sightline.health.reading.kernel import list_events
from sightline.health.reading.this_node import read_this_node
from support import fake_nvml as fake

# Of the Python that runs these tests, which may have any CUDA.
OURS = ("cuda-version", "nccl-version")
XID = "NVRM: Xid (PCI:0000:13:00): 79, pid=1234, name=python, GPU has fallen off the bus."
OTHERS = """\
<6>[  1.0] mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010090
<6>[  1.1] mce: [Hardware Error]: Machine check events logged
<4>[  1.2] pcieport 0000:00:01.0: AER: Corrected error received: 0000:13:00.0
<3>[  1.3] Out of memory: Killed process 4711 (python) total-vm:9kB
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_root(root: Path, gpus: int = 8, port: str = "4: ACTIVE") -> Path:
    """Files of a node with GPUs, two InfiniBand ports and four processes."""
    for number in range(gpus):
        device = root / f"sys/bus/pci/devices/0000:{0x10 + number:02x}:00.0"
        write(device / "vendor", "0x10de\n")
        write(device / "class", "0x030200\n")
    for number, state in enumerate(("4: ACTIVE", port)):
        place = root / f"sys/class/infiniband/mlx5_{number}/ports/1"
        write(place / "state", f"{state}\n")
        write(place / "phys_state", "5: LinkUp\n")
        write(place / "rate", "400 Gb/sec (4X NDR)\n")
        write(place / "counters/link_downed", "0\n")
        write(place / "counters/symbol_error", "0\n")
    (root / "sys/module/nvidia_peermem").mkdir(parents=True)
    write(
        root / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Tue May 27\nGCC version: 12\n",
    )
    write(
        root / "proc/meminfo",
        "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\nHugePages_Total: 4\n",
    )
    for pid, name, state in ((1, "systemd", "S"), (2, "kthreadd", "S"), (99, "a) b", "Z")):
        write(root / f"proc/{pid}/stat", f"{pid} ({name}) {state} 0 0")
        write(root / f"proc/{pid}/comm", name)
    write(root / "dev/kmsg", "6,1,1,-;Linux version 6.1\n")
    return root


def read(machine: fake.Scenario, library: Path, folder: Path, root: Path) -> Node:
    with fake.use_scenario(machine, library, folder):
        return read_this_node(root=root)


def list_problems(node: Node) -> list[tuple[str, str, str, str]]:
    return [
        (v.state, one.check.name, v.where, v.text)
        for state in (FAIL, WARN)
        for one in judge_node(node)
        for v in one.list_verdicts(state)
    ]


def test_a_machine_that_is_well(nvml_library: Path, tmp_path: Path) -> None:
    machine = fake.make_eight()
    for device in machine.devices:
        device.processes.append(fake.Process(99 - 98, 60 << 30))
    node = read(machine, nvml_library, tmp_path, make_root(tmp_path / "root"))
    assert [p for p in list_problems(node) if p[1] not in OURS] == []
    assert node.texts["CUDA of the driver"] == "12.9"
    assert node.gpus[3].uuid == "GPU-00000000-0000-0000-0000-000000000003"
    assert node.gpus[3].pci == "00000000:13:00.0"
    assert node.gpus[3].values["nvlinks_up"] == 18
    assert (node.values["gpus by NVML"], node.values["gpus by PCIe"]) == (8, 8)
    assert node.texts["driver (kernel)"] == node.texts["driver (NVML)"] == "575.57.08"
    assert node.values["memory_total"] == 2_000_000 * 1024 and node.values["huge_pages"] == 4


def test_a_machine_on_which_much_is_wrong(nvml_library: Path, tmp_path: Path) -> None:
    machine = fake.make_eight()
    for device in machine.devices:
        device.processes.append(fake.Process(1, 60 << 30))
    one, two, three = machine.devices[1:4]
    one.values |= {"FieldValues/230/0": 1, "RemappedRows.failure": 1, "CurrPcieLinkWidth": 8}
    two.values |= {"NvLinkState/5": 0, "Temperature/0": 90, "CurrentClocksEventReasons": 0x80}
    two.processes.append(fake.Process(99, 1 << 30))
    three.lose(0.0)
    root = make_root(tmp_path / "root", gpus=7, port="1: DOWN")
    write(root / "dev/kmsg", f"4,2,2,-;{XID}\n{OTHERS}")
    problems = list_problems(read(machine, nvml_library, tmp_path, root))
    problems = [problem for problem in problems if problem[1] not in OURS]
    assert [(state, name, where) for state, name, where, _ in problems] == [
        ("fail", "recovery-action", "GPU 1"),
        ("fail", "gpu-lost", "GPU 3"),
        ("fail", "xid", "0000:13:00"),  # it has no PCI address any more
        ("fail", "gpu-count", ""),
        ("fail", "row-remap-failure", "GPU 1"),
        ("fail", "pcie-width", "GPU 1"),
        ("fail", "nvlink-state", "GPU 2"),
        ("fail", "power-brake", "GPU 2"),
        ("fail", "zombies", "GPU 2"),
        ("fail", "infiniband", "mlx5_1:1"),
        ("fail", "kernel-errors", ""),
        ("warn", "temperature", "GPU 2"),
        ("warn", "kernel-errors", ""),
        ("warn", "kernel-errors", ""),
    ]
    texts = {name: text for _, name, _, text in problems}
    assert texts["gpu-count"] == "contradiction: NVML sees 8, PCIe sees 7"


def test_gpus_on_the_bus_that_no_driver_shows(tmp_path: Path) -> None:
    node = read_this_node(root=make_root(tmp_path / "root", gpus=8))
    said = {(state, name): text for state, name, _, text in list_problems(node)}
    assert said["fail", "gpu-count"] == "contradiction: NVML sees 0, PCIe sees 8"


def test_what_is_expected_and_not_seen_fails(tmp_path: Path) -> None:
    node = read_this_node(root=tmp_path)
    node.expected = {"gpus": 8, "ports": 8}
    said = {(state, name): text for state, name, _, text in list_problems(node)}
    assert "8 GPUs are expected, and none is seen: " in said["fail", "gpu-count"]
    assert "no InfiniBand" in said["fail", "infiniband"]


def test_mig_instances_are_listed(nvml_library: Path, tmp_path: Path) -> None:
    machine = fake.Scenario([fake.make_h200()])
    fake.make_instance(machine.devices[0], 5, 3, 71_680)
    node = read(machine, nvml_library, tmp_path, make_root(tmp_path / "root", gpus=1))
    assert node.gpus[0].instances == ["MIG-00000001-0000-0000-0000-000000000000"]
    assert not [p for p in list_problems(node) if p[1] == "mig-mode"]


def test_without_a_driver_each_check_says_why(tmp_path: Path) -> None:
    node = read_this_node(root=tmp_path)
    judged = {one.check.name: one.verdicts for one in judge_node(node)}
    assert "NVML does not start" in judged["pcie-width"][0].text
    assert "run as root" in judged["xid"][0].text or judged["xid"][0].state == "pass"
    assert "InfiniBand" in judged["infiniband"][0].text


def test_lines_of_a_kernel_log_of_gpus_and_others() -> None:
    events = list_events(f"{XID}\n{OTHERS}", {"13:00": 3})
    assert [(e.kind, e.device, e.source) for e in events] == [
        ("xid", 3, None),
        ("machine-check", None, None),
        ("pcie-error", None, None),
        ("out-of-memory", None, None),
    ]
    assert events[1].text == "CPU 3: Machine Check: 0 Bank 7: 8c00004000010090"


def test_events_have_times_and_old_ones_can_be_left_out(tmp_path: Path) -> None:
    boot = 1_780_000_000
    root = make_root(tmp_path / "root")
    write(root / "proc/stat", f"cpu 1 2 3\nbtime {boot}\n")
    late = XID.replace("79,", "119,")
    write(root / "dev/kmsg", f"4,1,5000000,-;{XID}\n4,2,7200000000,-;{late}\n")
    node = read_this_node(root=root)
    assert [event.time_ns for event in node.events] == [
        (boot + 5) * 10**9, (boot + 7200) * 10**9
    ]  # fmt: skip
    forget_before(node, (boot + 3600) * 10**9)
    assert [event.text[:7] for event in node.events] == ["XID 119"]
    dated = list_events(f"2026-03-01T10:00:00,250000+01:00 {XID}", {})
    assert dated[0].time_ns == 1_772_355_600_250_000_000
    assert list_events(f"[  5.0] {XID}", {}, boot * 10**9)[0].time_ns == (boot + 5) * 10**9
    assert list_events(f"[  5.0] {XID}", {})[0].time_ns is None


def put_program(folder: Path, name: str, output: str) -> None:
    """A stand-in that prints what it is given."""
    write(folder / f"{name}.out", output)
    write(folder / name, f'#!/bin/sh\ncat "{folder / name}.out"\n')
    (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)


def test_amd_smi_and_dcgm_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    gpu = {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 0, "unit": "%"}},
        "ecc": {"total_correctable_count": 5, "total_uncorrectable_count": 2},
        "temperature": {"hotspot": {"value": 45, "unit": "C"}},
    }
    put_program(programs, "amd-smi", json.dumps([gpu]))
    put_program(
        programs, "dcgmi",
        '{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": '
        '[{"name": "memory", "results": [{"gpu_ids": "0", "status": "FAIL"}]}]}]}}',
    )  # fmt: skip
    put_program(programs, "nv-fabricmanager", "Fabric Manager version is : 575.57.08\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    node = read_this_node("medium", tmp_path)
    assert node.gpus[0].vendor == "amd" and node.values["gpus by amd-smi"] == 1
    assert node.texts["fabric manager"] == "575.57.08"
    said = {(name, where) for _, name, where, _ in list_problems(node)}
    assert ("ecc-uncorrected", "GPU 0") in said
    assert ("other-tools", "GPU 0") in said


def test_xpu_smi_is_asked_where_no_other_vendor_has_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, root = tmp_path / "bin", tmp_path / "root"
    health = {"device_id": 1, "memory_health": {"status": "Critical", "description": "failing"}}
    found = [
        {"device_id": n, "device_name": "Intel(R) Data Center GPU Max 1550", "uuid": f"u{n}"}
        for n in range(2)
    ]
    programs.mkdir()
    (programs / "xpu-smi").write_text(
        "#!/bin/sh\n"
        f"case $1 in health) echo '{json.dumps({'device_list': [health]})}' ;;\n"
        f"discovery) echo '{json.dumps({'device_list': found})}' ;; esac\n"
    )
    (programs / "xpu-smi").chmod(0o755)
    for number in range(3):
        device = root / f"sys/bus/pci/devices/0000:{0x10 + number:02x}:00.0"
        write(device / "vendor", "0x8086\n")
        write(device / "class", "0x030200\n")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    node = read_this_node(root=root)
    assert [(gpu.vendor, gpu.uuid) for gpu in node.gpus] == [("intel", "u0"), ("intel", "u1")]
    said = {(name, where) for _, name, where, _ in list_problems(node)}
    assert ("other-tools", "GPU 1") in said
    assert node.values["gpus by PCIe"] == 3 and node.values["gpus by xpu-smi"] == 2
    assert "gpu-count" in {name for name, _ in said}


def test_nvbandwidth_is_run_at_medium_level(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = [
        {"name": "host_to_device_memcpy_ce", "bandwidth_matrix": [["55.1", "26.4"]]},
        {"name": "device_to_host_memcpy_ce", "bandwidth_matrix": [["53.9", "54.0"]]},
        {
            "name": "device_to_device_memcpy_read_ce",
            "bandwidth_matrix": [["N/A", "380.2"], ["380.5", "0.00"]],
        },
    ]
    programs = tmp_path / "bin"
    put_program(programs, "nvbandwidth", json.dumps({"nvbandwidth": {"testcases": tests}}))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    root = make_root(tmp_path / "root", gpus=2)
    machine = fake.Scenario([fake.make_h200(0), fake.make_h200(1)])
    with fake.use_scenario(machine, nvml_library, tmp_path):
        node = read_this_node("medium", root)
        put_program(programs, "nvbandwidth", "not JSON")
        without = read_this_node("medium", root)
    judged = {one.check.name: one for one in judge_node(node, "medium")}
    assert [(v.state, v.where) for v in judged["host-bandwidth"].verdicts] == [
        ("pass", "GPU 0"), ("fail", "GPU 1")
    ]  # fmt: skip
    assert {v.state for v in judged["peer-bandwidth"].verdicts} == {"pass"}
    (host,) = [one for one in judge_node(without, "medium") if one.check.name == "host-bandwidth"]
    assert "nvbandwidth is not installed" in host.verdicts[0].text
    assert "host-bandwidth" not in {one.check.name for one in judge_node(node)}
