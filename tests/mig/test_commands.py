"""Plans as commands, mig-parted's YAML and Kubernetes' configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sightline.errors import RequestError
from sightline.mig.apply import apply_steps
from sightline.mig.commands import (
    Step,
    list_steps,
    write_device_plugin,
    write_dra,
    write_mig_parted,
    write_script,
)
from sightline.mig.models import find_model
from sightline.mig.planner import Plan, plan_gpus
from sightline.mig.wants import parse_want


def make_plan(*wants: str, gpu: str = "H100-80GB", count: int = 4) -> Plan:
    return plan_gpus([(find_model(gpu), count)], [parse_want(want) for want in wants])


def test_commands_in_order_with_placements_the_largest_first() -> None:
    plan = make_plan("1g.10gb:2", "2g.20gb", "3g.40gb", "sm=100%,name=train", count=2)
    steps = [" ".join(step.words) for step in list_steps(plan)]
    assert steps == [
        "nvidia-smi -i 0,1 --query-compute-apps=pid,name --format=csv,noheader",
        "sh -c echo quit | nvidia-cuda-mps-control",
        "nvidia-smi -i 0 -mig 1",
        "nvidia-smi -i 1 -mig 1",
        "nvidia-smi mig -i 0 -dci",
        "nvidia-smi mig -i 0 -dgi",
        "nvidia-smi mig -i 1 -dci",
        "nvidia-smi mig -i 1 -dgi",
        "nvidia-smi mig -i 0 -cgi 9:4,14:2,19:0,19:1 -C",
        "nvidia-smi mig -i 1 -cgi 0:0 -C",
        "nvidia-smi -L",
    ]
    script = write_script(list_steps(plan)).splitlines()
    assert script[1].startswith("echo quit | nvidia-cuda-mps-control ")
    assert script[8].endswith("# 1 x 3g.40gb, 1 x 2g.20gb, 2 x 1g.10gb")


def test_gpus_alike_share_a_command_and_whole_ones_leave_mig() -> None:
    plan = make_plan("7g.40gb:2", "sm=100%,name=train", gpu="A100-40GB", count=3)
    steps = [" ".join(step.words) for step in list_steps(plan, [1, 4, 6])]
    assert "nvidia-smi -i 6 -mig 0" in steps and "nvidia-smi mig -i 1,4 -cgi 0:0 -C" in steps
    whys = [step.why for step in list_steps(plan) if step.words[-2:] == ("-mig", "1")]
    assert whys == ["MIG mode on; this resets the GPU"]


def test_a_profile_without_a_known_id_is_named() -> None:
    plan = make_plan("1g.24gb:3", gpu="RTX-PRO-6000", count=1)
    assert "nvidia-smi mig -i 0 -cgi 1g.24gb:0,1g.24gb:1,1g.24gb:2 -C" in write_script(
        list_steps(plan)
    )


def test_mig_parted() -> None:
    told = yaml.safe_load(write_mig_parted(make_plan("1g.10gb:7", "sm=100%,name=train", count=2)))
    assert told == {
        "version": "v1",
        "mig-configs": {
            "sightline": [
                {
                    "device-filter": ["0x233010DE", "0x232410DE"],
                    "devices": [0],
                    "mig-enabled": True,
                    "mig-devices": {"1g.10gb": 7},
                },
                {
                    "device-filter": ["0x233010DE", "0x232410DE"],
                    "devices": [1],
                    "mig-enabled": True,
                    "mig-devices": {"7g.80gb": 1},
                },
            ]
        },
    }


def test_mig_parted_of_a_fleet_has_a_configuration_for_each_cut() -> None:
    plan = make_plan("1g.10gb:140", "3g.40gb:40", count=99)
    told = yaml.safe_load(write_mig_parted(plan))
    assert list(told["mig-configs"]) == [
        f"sightline-{number}-on-{gpu.count}-gpus" for number, gpu in enumerate(plan.gpus, 1)
    ]
    totals = {"1g.10gb": 0, "3g.40gb": 0}
    for gpu, (entry,) in zip(plan.gpus, told["mig-configs"].values(), strict=True):
        assert entry["devices"] == "all"
        for name, count in entry["mig-devices"].items():
            totals[name] += count * gpu.count
    assert totals == {"1g.10gb": 140, "3g.40gb": 40}


def test_device_plugin_and_dra() -> None:
    mixed = make_plan("1g.10gb:2", "memory=30GB,name=chat", "media=yes,name=video")
    first, *containers = yaml.safe_load_all(write_device_plugin(mixed))
    assert first == {"version": "v1", "flags": {"migStrategy": "mixed"}}
    asked = {key for one in containers for key in one["resources"]["limits"]}
    assert asked == {
        "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb.me"
    }  # fmt: skip
    alike = make_plan("1g.10gb:7")
    strategy, one = yaml.safe_load_all(write_device_plugin(alike))
    assert strategy["flags"] == {"migStrategy": "single"}
    assert one["resources"]["limits"] == {"nvidia.com/gpu": 1}
    claims = list(yaml.safe_load_all(write_dra(mixed)))
    assert {claim["metadata"]["name"] for claim in claims} == {
        "mig-1g.10gb", "mig-1g.10gb-me", "mig-3g.40gb"
    }  # fmt: skip
    requests = [claim["spec"]["spec"]["devices"]["requests"][0]["exactly"] for claim in claims]
    assert {
        "deviceClassName": "mig.nvidia.com",
        "selectors": [
            {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '3g.40gb'"}}
        ],
    } in requests


def test_steps_end_at_the_first_failure(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    said: list[str] = []
    steps = [
        Step(("false",), "", may_fail=True),
        Step(("sh", "-c", "echo broken >&2; exit 4"), ""),
        Step(("touch", str(mark)), ""),
    ]
    with pytest.raises(RequestError, match="step 2 failed, and the steps before it") as error:
        apply_steps(steps, said.append)
    assert error.value.why == "broken" and not mark.exists()
    assert said[:2] == ["$ false", "$ sh -c echo broken >&2; exit 4"]


def test_gpus_in_use_are_not_cut() -> None:
    query = Step(("echo", "4711, python", "--query-compute-apps=pid,name"), "")
    with pytest.raises(RequestError, match="nothing was changed") as error:
        apply_steps([query], lambda text: None)
    assert error.value.why == "programs use these GPUs"
