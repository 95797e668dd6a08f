"""`sightline mig` as it is typed."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sightline.mig.live import list_own_gpus
from sightline.mig.models import find_model, list_models
from sightline.mig.planner import plan_gpus
from sightline.mig.wants import parse_want
from sightline.views.html.mig import draw_gpu
from sightline.views.terminal.mig_screen import draw_plan
from support import fake_nvml as fake
from support.command import sightline
from support.histories import Phase, rest, train, write_history

H100 = ("--gpu", "H100-80GB:2")


def test_the_screen_at_80_columns() -> None:
    told = sightline("mig", *H100, "--want", "1g.10gb:3", "--want", "memory=30GB,name=chat")
    assert told.code == 0
    lines = told.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "4 workloads on 1 of 2 GPUs (H100-80GB)"
    assert lines[3:7] == [
        "  ┌───────┬───────┬───────┬───────┬───────────────────────────────┐",
        "  │1g.10gb│1g.10gb│1g.10gb│·······│3g.40gb                        │",
        "  │       │       │       │·······│chat                           │",
        "  └───────┴───────┴───────┴───────┴───────────────────────────────┘",
    ]
    assert lines[7:9] == ["  Free: 1 x 1g.10gb", "  In no instance: 8 of 132 SMs"]
    assert any(line.startswith("Suits: ") for line in lines)
    assert lines[-1].startswith("The commands:  --to nvidia-smi")


def test_what_finds_no_place_is_the_exit_code() -> None:
    told = sightline("mig", *H100, "--want", "memory=60GB,count=3,name=big", "--json")
    assert told.code == 1
    data = json.loads(told.out)
    assert data["unserved"] == {"big": 1} and data["gpus_used"] == 2
    text = sightline("mig", *H100, "--want", "memory=60GB,count=3,name=big").out
    assert "2 workloads on 2 of 2 GPUs (H100-80GB); 1 found no place" in text
    assert "No place for 1 of 3 x big (60 GB)" in text


def test_estimates_are_said() -> None:
    told = sightline("mig", "--gpu", "B200", "--want", "memory=30GB")
    assert "estimated from below" in told.said
    proven = sightline("mig", "--gpu", "A30", "--want", "4g.24gb")
    assert "estimated" not in proven.said


def test_names_cannot_steer_the_terminal() -> None:
    told = sightline("mig", *H100, "--want", "memory=1GB,name=\x1b[31mred")
    assert "\x1b" not in told.out and "red" in told.out


def test_lists() -> None:
    told = sightline("mig", "--list")
    assert "RTX-PRO-6000" in told.out and "  1g.10gb      7 x    16 SMs" in told.out
    assert max(map(len, told.out.splitlines())) <= 80
    models = json.loads(sightline("mig", "--list", "--json").out)
    assert len(models) == 12
    layouts = sightline("mig", "--gpu", "A30", "--layouts")
    assert layouts.out.splitlines()[0].startswith("A30: 25 placements, 5 to which nothing")
    assert (
        len(json.loads(sightline("mig", "--gpu", "H200", "--layouts", "--json").out)["H200"]) == 78
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "H100-80GB"), "no workload was given"),
        (("--gpu", "H100-80GB:none", "--want", "1g.10gb"), "is not a number of GPUs"),
        (("--gpu", "H100", "--want", "1g.10gb"), "H100-80GB or H100-PCIe-80GB"),
        (("--gpu", "T4", "--want", "1g.10gb"), "there is no GPU with MIG called 'T4'"),
        (("--gpu", "H100-80GB:200000", "--want", "1g.10gb"), "100,000 GPUs at most"),
        (("--gpu", "A30:99", "--want", "4g.24gb:99", "--to", "nvidia-smi"), "several machines"),
        (("--want", "1g.10gb"), "no GPU with MIG can be read here"),
        (("--gpu", "A30", "--want", "1g.6gb", "--apply"), "not the GPUs of this machine"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(words: tuple[str, ...], said: str) -> None:
    told = sightline("mig", *words)
    assert told.code == 2 and said in told.said


def test_needs_are_those_that_a_watch_measured(tmp_path: Path) -> None:
    # Two GPUs that train with 60 GiB at 90 % of the SMs, and one on which nothing runs.
    write_history(tmp_path / "h", [Phase(30, {0: train(), 1: train(), 2: rest()})])
    told = sightline("mig", str(tmp_path / "h"), "--gpu", "H100-80GB:4", "--json")
    assert told.code == 0, told.err
    (gpus,) = json.loads(told.out)["gpus"]
    assert gpus["count"] == 2
    assert gpus["instances"] == [{"profile": "7g.80gb", "start": 0, "for": "GPU 0 and others"}]
    idle = tmp_path / "idle"
    write_history(idle, [Phase(30, {0: rest()})])
    refused = sightline("mig", str(idle), "--gpu", "H100-80GB:4")
    assert refused.code == 2 and "no GPU of the recording has a gigabyte" in refused.said


NVIDIA_SMI = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in *-dci*|*-dgi*) exit 6;; esac
"""


def test_apply_prints_the_commands_then_runs_them(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi, calls = tmp_path / "bin" / "nvidia-smi", tmp_path / "calls"
    smi.parent.mkdir()
    smi.write_text(NVIDIA_SMI)
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{smi.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(calls))
    wants = ("--want", "1g.18gb:3", "--want", "3g.71gb")
    with fake.use_scenario(fake.Scenario([fake.make_h200()]), nvml_library, tmp_path):
        # Without --apply nothing is called; the GPU is the machine's own.
        planned = sightline("mig", *wants, "--to", "nvidia-smi")
        assert planned.code == 0 and not calls.exists()
        told = sightline("mig", *wants, "--apply")
    assert told.code == 0, told.err
    assert told.out.startswith("What is run now, in this order:\n")
    assert planned.out.strip() in told.out
    assert calls.read_text().splitlines() == [
        "-i 0 --query-compute-apps=pid,name --format=csv,noheader",
        "-i 0 -mig 1",
        "mig -i 0 -dci",
        "mig -i 0 -dgi",
        "mig -i 0 -cgi 9:4,19:0,19:1,19:2 -C",
        "-L",
    ]


def test_no_more_than_six_pictures() -> None:
    fleet = [(model, 1) for model in list_models()]
    plan = plan_gpus(fleet, [parse_want("sm=100%,count=12,name=all")])
    assert "6 more kinds of cuts: --json lists them" in list(draw_plan(plan, 12))


def test_what_nvml_says_of_a_profile_wins_over_the_table(
    nvml_library: Path, tmp_path: Path
) -> None:
    gpu = fake.make_h200()
    # NVML's number of the profile is no GPU instance id: 2 is 3g, whose id is 9.
    gpu.values |= {
        "GpuInstanceProfile/2.id": 9, "GpuInstanceProfile/2.multiprocessorCount": 61,
        "GpuInstanceProfile/2.memorySizeMB": 70_000, "GpuInstanceProfile/2.instanceCount": 2,
    }  # fmt: skip
    want = ("--want", "memory=70GB,name=big")
    with fake.use_scenario(fake.Scenario([gpu]), nvml_library, tmp_path):
        own = list_own_gpus()
        told = sightline("mig", *want, "--json")
    (only,) = own
    size = only.model.sizes["3g"]
    assert (size.sms, size.memory_bytes, size.is_proven) == (61, 70_000 << 20, True)
    assert only.model.sizes["1g"] == find_model("H200").sizes["1g"]
    # The table's estimate is 4 x 1g's 16.0 GiB = 68.7 GB; this board's 3g has 73.4.
    assert find_model("H200").sizes["3g"].memory_bytes < 70e9
    (instance,) = json.loads(told.out)["gpus"][0]["instances"]
    assert instance["profile"] == "3g.71gb"


def test_commands_are_for_the_numbers_of_this_machines_gpus(
    nvml_library: Path, tmp_path: Path
) -> None:
    other = fake.make_h200(0)
    other.values["PciInfo.pciDeviceId"] = 0x1EB810DE  # a T4
    machine = fake.Scenario([other, fake.make_h200(1), fake.make_h200(2)])
    with fake.use_scenario(machine, nvml_library, tmp_path):
        told = sightline("mig", "--want", "7g.141gb:2", "--to", "nvidia-smi")
    assert "nvidia-smi mig -i 1,2 -cgi 0:0 -C" in told.out


@pytest.mark.pages
def test_a_page_with_pictures(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    name = "memory=30GB,name=<script>alert(1)</script>"
    told = sightline("mig", *H100, "--want", "1g.10gb:3", "--want", name, "-o", page)
    assert told.code == 0 and told.out == ""
    assert "<script>alert" not in page.read_text() and page.stat().st_size > 50_000


def test_pictures_show_instances_what_is_free_and_what_is_wasted() -> None:
    wants = [parse_want("3g.40gb"), parse_want("memory=9GB,sm=22%,name=<b>&")]
    plan = plan_gpus([(find_model("H100-80GB"), 1)], wants)
    for dark in (False, True):
        svg = ElementTree.fromstring(draw_gpu(plan.gpus[0], plan, dark=dark))
        texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert texts[:4] == ["free: 2g.20gb", "2g.20gb", "<b>&", "3g.40gb"]
        assert texts[-1] == (
            "in no instance: 2 of 7 compute slices, 2 of 8 memory slots, 40 of 132 SMs"
        )
