"""`sightline health` as it is typed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sightline.errors import RequestError
from sightline.health.fleet import expand_hosts
from support.command import sightline
from support.histories import EPOCH, GPU, SECOND, Entity, Phase, train, write_history
from support.histories import Event as WatchEvent

KERNEL = """\
[  123.456789] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.
[  125.400000] NVRM: Xid (PCI:0000:86:00): 31, pid=1
[  125.500000] NVRM: Xid (PCI:0000:86:00): 63, pid=1
"""


@pytest.fixture
def kernel_log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text(KERNEL)
    return path


def test_a_kernel_log_is_judged_at_80_columns(kernel_log: Path) -> None:
    told = sightline("health", kernel_log)
    assert told.code == 1
    lines = told.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("UNHEALTHY (no GPU seen): 1 check failed, ")
    assert lines[2].startswith(
        "FAIL  xid                    0000:3b:00: XID 79: GPU has fallen off"
    )
    assert "0000:86:00: XID 31: GPU memory page fault: restart the application" in told.said
    assert "XID 63" not in told.out


def test_as_data_and_for_slurm(kernel_log: Path) -> None:
    data = json.loads(sightline("health", kernel_log, "--json").out)
    assert data["state"] == "fail" and data["counts"]["fail"] == 1
    assert data["problems"][0].startswith("xid: 0000:3b:00: XID 79")
    told = sightline("health", kernel_log, "--nhc")
    assert told.code == 1
    assert told.out == (
        "ERROR:  nhc:  Health check failed:  xid:  0000:3b:00: XID 79: GPU has fallen off the bus: "
        "drain and reboot the node\n"
    )
    calm = kernel_log.with_name("calm.log")
    calm.write_text("[ 1.0] NVRM: Xid (PCI:0000:86:00): 63, pid=1\n")
    told = sightline("health", calm, "--nhc")
    assert (told.code, told.out) == (0, "")


def test_a_machine_without_a_gpu_is_not_called_healthy(tmp_path: Path) -> None:
    """A host's log on which nothing is wrong passes its checks; no GPU was looked at."""
    log = tmp_path / "kern.log"
    log.write_text("[ 1.0] NVRM: Xid (PCI:0000:86:00): 63, pid=1\n")
    told = sightline("health", log)
    assert told.code == 0
    assert told.out.startswith("NOT CHECKED (no GPU seen): 0 checks failed, 0 warned, ")
    assert json.loads(sightline("health", log, "--json").out)["state"] == "not checked"


def test_several_inputs_are_one_node(kernel_log: Path, tmp_path: Path) -> None:
    nhc = tmp_path / "nhc.log"
    nhc.write_text("ERROR:  nhc:  Health check failed:  check_ecc: GPU id 3: SRAM\n")
    told = sightline("health", kernel_log, nhc, "--json")
    assert json.loads(told.out)["counts"]["fail"] == 2


def test_a_watchs_history_has_its_gpus_and_xids(tmp_path: Path) -> None:
    event = WatchEvent(EPOCH + 5 * SECOND, "xid", Entity(GPU, 1), "XID 94: contained")
    write_history(tmp_path / "h", [Phase(10, {0: train(), 1: train()})], events=[event])
    data = json.loads(sightline("health", tmp_path / "h", "--json", "--expect", "gpus=4").out)
    assert data["problems"] == [
        "gpu-count: 4 GPUs are expected: the recording sees 2",
        "xid: GPU 1: XID 94: Contained memory error: restart the application",
    ]


def test_lists(tmp_path: Path) -> None:
    checks = sightline("health", "--checks")
    assert checks.out.startswith("recovery-action\n    what the driver itself asks for\n")
    assert max(map(len, checks.out.splitlines())) <= 80
    assert len(json.loads(sightline("health", "--checks", "--json").out)) == 40
    listed = sightline("health", "--list")
    assert listed.code == 0 and listed.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--expect", "gpu=8"), "'gpu=8' is not something that can be expected"),
        (("--expect", "gpus=eight"), "'eight' in 'gpus=eight' is not a number"),
        (("--fleet=-oProxyCommand=x",), "is not the name of a host"),
        (("--fleet", "node[1-x]"), "is not the name of a host"),
        (("--fleet", "node[1-]-2,[-]"), "is not the name of a host"),
        (("--fleet", "node[1-99999]"), "10,000 hosts at most"),
        (("--fleet", ","), "no host is named"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], said: str) -> None:
    told = sightline("health", *words)
    assert told.code == 2 and said in told.said


def test_hosts_as_slurm_lists_them() -> None:
    assert expand_hosts("node[08-10,12]-ib,login1,me@a.b") == [
        "node08-ib", "node09-ib", "node10-ib", "node12-ib", "login1", "me@a.b"
    ]  # fmt: skip
    assert expand_hosts("[1-2][8-9]") == ["18", "19", "28", "29"]
    with pytest.raises(RequestError):
        expand_hosts("a b")


STUB = """#!/bin/sh
for word; do host=$node; node=$host; case $word in --nodelist=*) node=${word#--nodelist=};;
n[0-9]) node=$word;; esac; done
case $node in
n1) echo '{"node": "n1", "state": "pass", "counts": {"fail": 0}, "problems": []}';;
n2) echo '{"node": "n2", "state": "fail", "counts": {"fail": 1}, "problems": ["xid: XID 79"]}'; exit 1;;
n3) echo '{"node": "n3", "state": "warn", "counts": {"fail": 0}, "problems": ["disk: full"]}';;
*) echo 'connection refused' >&2; exit 255;;
esac
"""  # noqa: E501


@pytest.mark.parametrize("by", ["ssh", "srun"])
def test_a_fleet_by_ssh_and_srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    program = tmp_path / "bin" / by
    program.parent.mkdir()
    program.write_text(STUB)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    told = sightline("health", "--fleet", "n[1-4]", "--by", by)
    assert told.code == 1
    assert told.out.splitlines() == [
        "4 nodes: 1 did not answer, 1 fail, 1 warn, 1 pass",
        "n4                       ERROR       connection refused",
        "n2                       FAIL        xid: XID 79",
        "n3                       WARN        disk: full",
    ]
    data = json.loads(sightline("health", "--fleet", "n1", "--by", by, "--json").out)
    assert data == [{"node": "n1", "state": "pass", "failed": 0, "problems": []}]


@pytest.mark.pages
def test_pages_of_a_node_and_of_a_fleet(
    kernel_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "node.html"
    told = sightline("health", kernel_log, "-o", page)
    assert (told.code, told.out) == (1, "")
    assert page.stat().st_size > 50_000
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(STUB)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    fleet = tmp_path / "fleet.html"
    assert sightline("health", "--fleet", "n[1-3]", "-o", fleet).code == 1
    assert fleet.stat().st_size > 50_000
    over = sightline("health", kernel_log, "-o", kernel_log)
    assert over.code == 2 and kernel_log.read_text() == KERNEL


def test_what_is_long_past_can_be_left_out(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text("2020-01-01T10:00:00+00:00 n kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n")
    assert sightline("health", log).code == 1
    assert sightline("health", log, "--since", "2h").code == 0
    assert sightline("health", log, "--since", "soon").code == 2
