"""What DCGM's diagnostics, NHC and gpud found, as events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

NHC = """\
Running health checks using Azure's configuration
SUCCESS:  nhc:  Health check passed:  check_gpu_count: Expected 8 and found 8
ERROR:  nhc:  Health check failed:  check_ecc: GPU id 3: SRAM Uncorrectable. FaultCode: NHC2019
20260301 10:00:00 [slurm] nhc[4711]: Health check failed:  check_ps_service:  sshd not running
Health checks completed with exit code: 1.
"""
DCGM_4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [
                            {
                                "entity_group": "GPU",
                                "entity_id": 1,
                                "status": "Fail",
                                "warnings": [
                                    {"warning": "Persistence mode is disabled.", "error_id": 29}
                                ],
                            }
                        ],
                        "test_summary": {"status": "Fail"},
                    }
                ],
            },
            {
                "category": "Hardware",
                "tests": [
                    {"name": "pcie", "results": [{"status": "Skip", "info": ["not allowed"]}]},
                    {
                        "name": "memory",
                        "results": [
                            {"entity_group": "GPU", "entity_id": 0, "status": "Pass"},
                            {"entity_group": "CPU", "entity_id": 0, "status": "Warn"},
                        ],
                    },
                ],
            },
        ]
    },
    "metadata": {"version": "4.5.3"},
}
DCGM_3 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Integration",
                "tests": [
                    {
                        "name": "PCIe",
                        "results": [{"gpu_ids": "0, 2", "status": "FAIL", "warnings": "replays"}],
                    }
                ],
            }
        ]
    }
}
GPUD = [
    {
        "component": "accelerator-nvidia-error-xid",
        "states": [
            {
                "time": "2026-03-01T10:00:00.25Z",
                "name": "error_xid",
                "health": "Unhealthy",
                "reason": "XID 74 (NVLINK Error) detected",
                "suggested_actions": {"repair_actions": ["REBOOT_SYSTEM", "HARDWARE_INSPECTION"]},
            }
        ],
    },
    {"component": "cpu", "states": [{"health": "Healthy", "reason": "ok"}]},
    {
        "component": "disk",
        "startTime": "2026-03-01T09:00:00Z",
        "endTime": "2026-03-01T10:00:00Z",
        "events": [{"time": "2026-03-01T11:00:00+01:00", "type": "Warning", "message": "slow"}],
    },
]


def read(path: Path, content: object) -> list[tuple[object, ...]]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    events = sightline.open(str(path)).table("device_events")
    return events.select("event", "source", "device_id", "text").rows()


def test_nhc(tmp_path: Path) -> None:
    assert read(tmp_path / "nhc.log", NHC) == [
        ("check-passed", "check_gpu_count", None, "check_gpu_count passed: Expected 8 and found 8"),
        (
            "check-failed",
            "check_ecc",
            3,
            "check_ecc failed: GPU id 3: SRAM Uncorrectable. FaultCode: NHC2019",
        ),
        ("check-failed", "check_ps_service", None, "check_ps_service failed: sshd not running"),
    ]


def test_dcgm_4_and_3(tmp_path: Path) -> None:
    assert read(tmp_path / "diag.json", DCGM_4) == [
        (
            "check-failed",
            "deployment/software",
            1,
            "deployment/software failed: Persistence mode is disabled.",
        ),
        ("check-skipped", "hardware/pcie", None, "hardware/pcie was skipped: not allowed"),
        ("check-passed", "hardware/memory", 0, "hardware/memory passed"),
        ("check-warning", "hardware/memory", None, "hardware/memory warns"),
    ]
    warned = "Warning: nv-hostengine is old\n" + json.dumps(DCGM_3)
    assert read(tmp_path / "old.txt", warned) == [
        ("check-failed", "integration/pcie", 0, "integration/pcie failed: replays"),
        ("check-failed", "integration/pcie", 2, "integration/pcie failed: replays"),
    ]


def test_gpud(tmp_path: Path) -> None:
    assert read(tmp_path / "states.json", GPUD) == [
        ("check-failed", "accelerator-nvidia-error-xid", None,
            "accelerator-nvidia-error-xid failed: XID 74 (NVLINK Error) detected "
         "(gpud suggests: reboot system, hardware inspection)"),
        ("check-passed", "cpu", None, "cpu passed: ok"),
        ("check-warning", "disk", None, "disk warns: slow"),
    ]  # fmt: skip
    times = sightline.open(str(tmp_path / "states.json")).table("device_events")
    assert times.get_column("time_ns").to_list() == [
        1_772_359_200_250_000_000, 0, 1_772_359_200_000_000_000
    ]  # fmt: skip


GCM = (
    "2026-03-01 10:00:00 INFO check_dcgmi_diag: node: n1\n"
    '[{"node": "n1", "health_check": "check_dcgmi_diag", "type": "prolog", "result": 2, '
    '"_msg": "GPU 3 failed memtest", "job_id": 7, "start_time": 1.0, "end_time": 1772359200.25}]\n'
    '{"normal": {"health_check": "check_ssh", "_msg": ""}, "int": {"result": 0}, '
    '"double": {"end_time": 1772359201.5}}\n'
    '[{"health_check": "check_iblink", "result": 1, "_msg": "mlx5_0 flaps"}, {"result": 9}]\n'
)


def test_gcm(tmp_path: Path) -> None:
    """Its two sinks; what has no result is counted."""
    path = tmp_path / "gcm.log"
    assert read(path, GCM) == [
        ("check-failed", "check_dcgmi_diag", 3, "check_dcgmi_diag failed: GPU 3 failed memtest"),
        ("check-passed", "check_ssh", None, "check_ssh passed"),
        ("check-warning", "check_iblink", None, "check_iblink warns: mlx5_0 flaps"),
    ]
    run = sightline.open(str(path))
    assert run.table("device_events").get_column("time_ns").to_list() == [
        1_772_359_200_250_000_000, 1_772_359_201_500_000_000, 0
    ]  # fmt: skip
    assert run.table("quality").get_column("count").to_list() == [1]


TABLE = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.1.3                                          |
|-----  Deployment  --------+------------------------------------------------|
| NVML Library              | Pass                                           |
| Persistence Mode          | Warn - GPU: 1                                  |
| Warning                   | GPU 1 Persistence mode is off                  |
|                           | for this GPU                                   |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Fail - GPUs: 0, 3                              |
|-----  Stress  ------------+------------------------------------------------|
| memory                    | Fail                                           |
|                           | GPU2: Fail                                     |
| Warning: GPU2             | ECC errors                                     |
| SM Stress                 | FAIL - GPU 3: below its target                 |
| Inforom                   | Fail - All                                     |
| Warning                   | GPU 0 Error using CUDA API cuInit Check DCGM l |
|                           | ogs for errors.                                |
| Warning                   | GPU 1 too                                      |
+---------------------------+------------------------------------------------+
"""


XPU_2 = {
    "device_list": [
        {
            "device_id": 0,
            "core_temperature": {
                "status": "OK",
                "throttle_threshold": 105,
                "shutdown_threshold": 130,
                "description": "Values for all the temperature sensors are healthy.",
            },
            "power_health": {"status": "Unknown", "description": "Health cannot be determined."},
            "unsupported_item_health": {"status": "Unknown", "description": "Unsupported."},
        },
        {
            "device_id": 1,
            "memory_health": {"status": "Critical", "description": "Memory is failing"},
            "frequency_health": {"status": "Warning", "description": "throttled: thermal"},
        },
    ]
}
# The guides of XPU Manager 1 (xpumcli health -l) and 2 print these forms.
XPU_1_TABLE = """\
+------------------------------+-------------------------------------------------------------------+
| Device ID                    | 0                                                                 |
+------------------------------+-------------------------------------------------------------------+
| 1. GPU Core Temperature      | Status: Ok                                                        |
|                              | Description: All temperature sensors are healthy.                 |
|                              | Throttle Threshold: 105 Celsius Degree                            |
|                              | Custom Threshold: -1                                              |
+------------------------------+-------------------------------------------------------------------+
| 5. Xe Link Port              | Status: Critical                                                  |
|                              | Description: Xe Link ports 0/1 and 0/2 are                        |
|                              | down                                                              |
+------------------------------+-------------------------------------------------------------------+
"""
XPU_2_TABLE = """\
+--------------------------------+--------------------------------------------------------------+
| Component                      | Value                                                        |
+--------------------------------+--------------------------------------------------------------+
| Device ID                      | 3                                                            |
+--------------------------------+--------------------------------------------------------------+
| [ core_temperature ]           |                                                              |
| status                         | Warning                                                      |
| throttle_threshold             | 100                                                          |
| description                    | Unhealthy temperature sensor value, 101.00 >= 100 (threshold)|
+--------------------------------+--------------------------------------------------------------+
| [ unsupported_item_health ]    |                                                              |
| status                         | Unknown                                                      |
| description                    | Unsupported.                                                 |
+--------------------------------+--------------------------------------------------------------+
"""


def test_xpu_smi_health(tmp_path: Path) -> None:
    assert read(tmp_path / "health.json", XPU_2) == [
        ("check-passed", "core temperature", 0,
            "core temperature passed: Values for all the temperature sensors are healthy."),
        ("check-skipped", "power", 0, "power was skipped: Health cannot be determined."),
        ("check-failed", "memory", 1, "memory failed: Memory is failing"),
        ("check-warning", "frequency", 1, "frequency warns: throttled: thermal"),
    ]  # fmt: skip
    one = {"device_id": 2, "memory": {"status": "Ok", "description": "well"}}
    assert read(tmp_path / "one.json", one) == [
        ("check-passed", "memory", 2, "memory passed: well")
    ]
    assert read(tmp_path / "old.txt", XPU_1_TABLE) == [
        ("check-passed", "core temperature", 0,
            "core temperature passed: All temperature sensors are healthy."),
        ("check-failed", "xe link port", 0,
            "xe link port failed: Xe Link ports 0/1 and 0/2 are down"),
    ]  # fmt: skip
    assert read(tmp_path / "new.txt", XPU_2_TABLE) == [
        ("check-warning", "core temperature", 3,
            "core temperature warns: Unhealthy temperature sensor value, 101.00 >= 100 (threshold)"),  # noqa: E501
    ]  # fmt: skip


def test_a_part_without_a_known_status_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "health.json"
    parts = {"memory": {"status": "OK"}, "power": {"status": "Purple"}, "frequency": {}}
    path.write_text(json.dumps({"device_id": 0, **parts}))
    run = sightline.open(str(path))
    assert run.table("device_events").height == 1
    assert run.table("quality").filter(kind="damaged_lines").get_column("count").to_list() == [2]


def test_dcgms_table(tmp_path: Path) -> None:
    assert read(tmp_path / "diag.txt", TABLE) == [
        ("check-passed", "deployment/nvml library", None, "deployment/nvml library passed"),
        ("check-warning", "deployment/persistence mode", 1,
         "deployment/persistence mode warns: GPU 1 Persistence mode is off for this GPU"),
        ("check-failed", "hardware/gpu memory", 0, "hardware/gpu memory failed"),
        ("check-failed", "hardware/gpu memory", 3, "hardware/gpu memory failed"),
        ("check-failed", "stress/memory", None, "stress/memory failed"),
        ("check-failed", "stress/memory", 2, "stress/memory failed: ECC errors"),
        ("check-failed", "stress/sm stress", 3, "stress/sm stress failed: below its target"),
        ("check-failed", "stress/inforom", None,
         "stress/inforom failed: GPU 0 Error using CUDA API cuInit Check DCGM logs for errors.; "
         "GPU 1 too"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [{"status": 3}]}]}]}}',
        '{"DCGM Diagnostic": {"test_categories": {"tests": []}}}',
        '[{"component": "x", "states": [{"health": "Purple"}, 3, null]}]',
        '[{"component": "x", "states": [',
    ],
)
def test_what_says_nothing_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DamagedError):
        read(tmp_path / "odd.json", content)


def test_terminal_sequences_in_texts_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    line = "ERROR:  nhc:  Health check failed:  check_x: \x1b]52;c;AAAA\x07 bad"
    (row,) = read(tmp_path / "nhc.log", line)
    assert "\x1b" not in str(row[3]) and "\x07" not in str(row[3])


def test_states_that_nvidia_smi_says_in_words() -> None:
    from sightline.formats.device_logs._lost import list_states

    well = {"gpu_recovery_action": "None", "remapped_rows.remapped_row_pending": "No",
            "remapped_rows.remapped_row_failure": "No", "GPU Recovery Action": "N/A"}  # fmt: skip
    assert list_states(well) == []
    xml = {"gpu_recovery_action": "Drain and Reset", "remapped_rows.remapped_row_pending": "Yes",
           "remapped_rows.remapped_row_failure": "Yes"}  # fmt: skip
    assert list_states(xml) == [
        ("recovery-action", "GPU recovery action: Drain and Reset"),
        ("row-remap-failure", "rows could not be remapped"),
        ("row-remap-pending", "rows are remapped at the next reset"),
    ]
    text = {"Remapped Rows.Pending": "Yes", "Remapped Rows.Remapping Failure Occurred": "Yes",
            "GPU Recovery Action": "Reset"}  # fmt: skip
    assert [event for event, _ in list_states(text)] == [event for event, _ in list_states(xml)]
