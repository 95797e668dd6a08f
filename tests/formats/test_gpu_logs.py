"""Logs of amd-smi, rocm-smi, xpu-smi, all-smi, nvidia-smi -q and pmon, and Zeus' power.

Headers and lines are as the tools print them: those of MI355X and MI300X by amd-smi 26 and 25,
of Aurora's six GPUs by xpu-smi, of an H100 by nvidia-smi, of an A40 by zeus_monitor.
"""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from backports import zstd

import sightline
from sightline.errors import InputError
from sightline.formats.device_logs import (
    all_smi,
    amd_smi,
    energy_csv,
    nvidia_smi_text,
    power_gadget,
    prometheus,
    rocm_smi,
    smi_dmon,
    superbench_monitor,
    xpu_smi,
    zeus_tables,
)
from support.corpus import list_recordings, name_recording
from support.damage import survive_damage

MIB = 1 << 20
SECOND = 10**9
Row = tuple[str, str, int | None, str | None, int, float]


def read(folder: Path, name: str, content: str | bytes) -> list[Row]:
    """metric, unit, device, source, time and value of each row."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    counters = sightline.open(str(path)).table("counters")
    rows = counters.select("metric", "unit", "device_id", "source", "time_ns", "value").rows()
    return [(*row[:5], round(row[5], 6)) for row in rows]


def list_notes(folder: Path, name: str) -> set[str]:
    return set(sightline.open(str(folder / name)).table("quality").get_column("kind"))


AMD_METRIC = """timestamp,gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,socket_power,\
gfx_voltage,throttle_status,gfx_0_clk,gfx_1_clk,mem_0_clk,edge,hotspot,mem,total_vram,used_vram
1789515524,0,95,80,N/A,"['N/A', 'N/A']",1180,850,N/A,2402,2310,2000,N/A,44,24,196592,283
1789515525,1,0,0,N/A,"[0, 0]",N/A,N/A,N/A,132,132,900,40,45,25,196592,26
"""


def test_amd_smi_metric_csv(tmp_path):
    at = 1_789_515_524 * SECOND
    rows = read(tmp_path, "metric.csv", AMD_METRIC)
    assert [row for row in rows if row[2] == 0] == [
        ("GPU utilization", "%", 0, None, at, 95),
        ("memory utilization", "%", 0, None, at, 80),
        ("power", "W", 0, None, at, 1180),
        ("gfx_voltage", "", 0, None, at, 850),
        ("SM clock", "MHz", 0, None, at, 2402),
        ("SM clock", "MHz", 0, "gfx 1", at, 2310),
        ("memory clock", "MHz", 0, None, at, 2000),
        ("temperature", "C", 0, "junction", at, 44),
        ("memory temperature", "C", 0, None, at, 24),
        ("memory total", "bytes", 0, None, at, 196_592 * MIB),
        ("memory used", "bytes", 0, None, at, 283 * MIB),
    ]
    second = {(m, s): v for m, _, d, s, _, v in rows if d == 1}
    assert ("power", None) not in second  # N/A is not a 0
    assert second["GPU utilization", None] == 0
    assert second["temperature", None] == 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # amd-smi 24.7.1 and 25.3.0: the order and the names of columns differ.
        (
            "gpu,gfx,gfx_clock,vram_used,vram_total\n0,10,132,283,196300\n",
            {"GPU utilization": 10, "SM clock": 132, "memory used": 283 * MIB},
        ),
        (
            "gpu,gfx_clk,gfx,vram_used,vram_free,vram_total,vram_percent\n"
            "0,132,10,283,196309,196592,0.0\n",
            {"GPU utilization": 10, "memory free": 196_309 * MIB, "vram_percent": 0},
        ),
        # 26: partitions; `mem` is a utilization here, beside the temperature of the memory.
        (
            "timestamp,gpu,xcp,power_usage,hotspot_temperature,memory_temperature,gfx,mem\n"
            "1789515524,0,0,288,44,31,95,12\n",
            {"power": 288, "memory temperature": 31, "memory utilization": 12},
        ),
    ],
)
def test_amd_smi_monitor_csv(tmp_path, text, expected):
    found = {m: v for m, _, _, _, _, v in read(tmp_path, "monitor.csv", text)}
    assert expected.items() <= found.items()


def test_amd_smi_json_of_all_its_shapes(tmp_path):
    gpu = {
        "gpu": 1,
        "usage": {"gfx_activity": {"value": 73, "unit": "%"}, "mm_activity": "N/A"},
        "power": {"socket_power": {"value": 142, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
        "clock": {"gfx_0": {"clk": {"value": 2402, "unit": "MHz"}, "clk_locked": "DISABLED"}},
        "temperature": {"hotspot": {"value": 61, "unit": "C"}, "mem": {"value": 58, "unit": "C"}},
        "ecc": {"total_correctable_count": 3},
        "mem_usage": {"used_vram": {"value": 283, "unit": "MB"}},
        "energy": {"total_energy_consumption": {"value": 96.5, "unit": "J"}},
    }
    expected = {
        ("GPU utilization", "%", None, 73),
        ("power", "W", None, 142),
        ("SM clock", "MHz", None, 2402),
        ("temperature", "C", "junction", 61),
        ("memory temperature", "C", None, 58),
        ("total_correctable_count", "", None, 3),
        ("memory used", "bytes", None, 283 * MIB),
        ("energy", "J", None, 96.5),
    }
    shapes = {
        "list": json.dumps([gpu], indent=4),
        "wrapped": json.dumps({"gpu_data": [gpu]}),
        "warned": "WARNING: User is missing the following groups: render\n" + json.dumps([gpu]),
    }
    for name, text in shapes.items():
        rows = read(tmp_path, f"{name}.json", text)
        assert {(m, u, s, v) for m, u, _, s, _, v in rows} == expected, name
        assert {row[2] for row in rows} == {1}
    watched = "\n".join(
        json.dumps([{"timestamp": 1_789_515_524 + n, "gpu": 0, "power_usage": {"value": 100 + n}}])
        for n in range(3)
    )
    assert [(t, v) for *_, t, v in read(tmp_path, "watched.json", watched)] == [
        ((1_789_515_524 + n) * SECOND, 100 + n) for n in range(3)
    ]


def test_rocm_smi_csv_of_several_tables_and_readings(tmp_path):
    table = (
        "device,GPU use (%),Fan speed (level),Fan speed (%)\ncard0,42,89,35\ncard1,17,0,0\n\n"
        "device,Temperature (Sensor edge) (C),Temperature (Sensor junction) (C)\n"
        "card0,72.5,80.0\ncard1,N/A,60.0\n\n"
    )
    rows = read(tmp_path, "rocm.csv", table + table.replace("72.5", "75"))
    assert [row for row in rows if row[4] == 0] == [
        ("GPU utilization", "%", 0, None, 0, 42),
        ("Fan speed (level)", "", 0, None, 0, 89),
        ("fan speed", "%", 0, None, 0, 35),
        ("GPU utilization", "%", 1, None, 0, 17),
        ("Fan speed (level)", "", 1, None, 0, 0),
        ("fan speed", "%", 1, None, 0, 0),
        ("temperature", "C", 0, None, 0, 72.5),
        ("temperature", "C", 0, "junction", 0, 80),
        ("temperature", "C", 1, "junction", 0, 60),
    ]
    assert ("temperature", "C", 0, None, SECOND, 75) in rows


XPU = """Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Frequency (MHz), \
GPU Memory Utilization (%), GPU Memory Used (MiB), GPU Energy Consumed (J), \
GPU Core Temperature (Celsius Degree), GPU Memory Bandwidth Utilization (%)
23:59:59.043,    0,  N/A, 280.50, 1600.00,  N/A, 28.5, 95554.67, 65, 18.5
23:59:59.043,    5,  0.00, 285.25, 1600.00,  11.15, 28.5, 1, N/A, 0
00:00:00.043,    0,  1.50, 279.97, 1600.00, 11.15, 29, 95834.64, 66, 19
"""


def test_xpu_smi_dump_over_midnight(tmp_path):
    rows = read(tmp_path, "xpu.csv", XPU)
    before = (24 * 3600 - 1) * SECOND + 43_000_000
    assert [(m, u, v) for m, u, d, _, t, v in rows if (d, t) == (0, before)] == [
        ("power", "W", 280.5),
        ("SM clock", "MHz", 1600),
        ("memory used", "bytes", 28.5 * MIB),
        ("energy", "J", 95_554.67),
        ("temperature", "C", 65),
        ("memory utilization", "%", 18.5),
    ]
    later = {m: v for m, _, d, _, t, v in rows if (d, t) == (0, before + SECOND)}
    assert later["GPU utilization"] == 1.5
    assert later["GPU Memory Utilization"] == 11.15  # of its size, not of its bandwidth
    assert "date_unknown" in list_notes(tmp_path, "xpu.csv")


def make_frame(second: int, **gpu: Any) -> dict[str, Any]:
    own = {
        "uuid": "GPU-7", "time": "x", "name": "NVIDIA H200", "host_id": "h", "hostname": "secret",
        "utilization": 97.0, "ane_utilization": 0.0, "dla_utilization": None, "temperature": 61,
        "used_memory": 1 << 30, "total_memory": 141 << 30, "frequency": 1965,
        "power_consumption": 645.5, "gpm_metrics": {"sm_occupancy": 0.25}, "detail": {},
    }  # fmt: skip
    cpu = {"index": 0, "host_id": "h", "utilization": 12.5, "power_consumption": None}
    memory = {"host_id": "h", "used_bytes": 7, "total_bytes": 9, "swap_used_bytes": 0}
    process = {"device_uuid": "GPU-7", "pid": 42, "uses_gpu": True, "used_memory": 5}
    return {
        "schema": 1, "timestamp": f"2026-08-08T12:00:{second:02d}Z", "hostname": "secret",
        "gpus": [own | gpu], "cpus": [cpu], "memory": [memory], "processes": [process],
    }  # fmt: skip


def test_all_smi_record_packed_and_not(tmp_path):
    header = {"all_smi_version": "0.26.0", "header": True, "hosts": ["secret"], "schema": 1}
    # A device without a reading: -1, and 0 of what is never 0.
    silent = {"utilization": -1.0, "power_consumption": -1.0, "temperature": 0, "frequency": 0}
    index = {"byte_offset": 9, "index": True, "schema": 1, "seq": 1}
    lines = [header, make_frame(1), index, make_frame(2, **silent)]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    at = 1_786_190_401 * SECOND
    rows = read(tmp_path, "r.ndjson.zst", zstd.compress(text))
    assert [row[:4] + row[5:] for row in rows if row[4] == at] == [
        ("GPU utilization", "%", 0, None, 97),
        ("temperature", "C", 0, None, 61),
        ("memory used", "bytes", 0, None, 1 << 30),
        ("memory total", "bytes", 0, None, 141 << 30),
        ("SM clock", "MHz", 0, None, 1965),
        ("power", "W", 0, None, 645.5),
        ("SM occupancy", "%", 0, None, 25),
        ("CPU utilization", "%", None, "CPU 0", 12.5),
        ("host memory used", "bytes", None, "host", 7),
        ("host memory total", "bytes", None, "host", 9),
        ("host swap used", "bytes", None, "host", 0),
        ("process memory", "bytes", 0, "process 42", 5),
    ]
    assert {m for m, _, d, s, t, _ in rows if t == at + SECOND and d == 0 and s is None} == {
        "memory used", "memory total", "SM occupancy",
    }  # fmt: skip
    assert read(tmp_path, "r.ndjson.gz", gzip.compress(text)) == rows
    assert read(tmp_path, "r.ndjson", text) == rows
    one = json.dumps([make_frame(1)], indent=2)
    assert read(tmp_path, "snapshot.json", one) == [row for row in rows if row[4] == at]


ALL_SMI = """# TYPE all_smi_gpu_utilization gauge
all_smi_gpu_utilization{gpu="NVIDIA A100", instance="secret", uuid="GPU-1", index="2"} 30.5
all_smi_gpu_memory_used_bytes{gpu="NVIDIA A100", instance="secret", uuid="GPU-1", index="2"} 7
all_smi_gpu_sm_occupancy{gpu="NVIDIA A100", instance="secret", uuid="GPU-1", index="2"} 0.67
"""


def test_all_smi_as_prometheus_metrics(tmp_path):
    assert read(tmp_path, "a.metrics", ALL_SMI) == [
        ("GPU utilization", "%", 2, None, 0, 30.5),
        ("memory used", "bytes", 2, None, 0, 7),
        ("SM occupancy", "%", 2, None, 0, 67),
    ]
    devices = sightline.open(str(tmp_path / "a.metrics")).table("devices")
    assert devices.select("device_id", "name").rows() == [(2, "NVIDIA A100")]


UUID = 'gpu_uuid="GPU-f9440afd-a9da-3d17-d9e2-ca0d04fcc082",job_id="None"'
PORT = 'ib_port="mlx5_ib0:1",ib_sys_guid="946dae0300aa0000",job_id="None"'
CPU = 'cpu_id="3",job_id="None",numa_domain="0"'
# Names, labels and units: nvidia_exporter.py, net_exporter.py and node_exporter.py of Azure/Moneo,
# docs/Moneo-exporter.md for how it looks, DCGM's tags for the first.
MONEO = f"""# HELP dcgm_sm_clock SM clock frequency (in MHz)
# TYPE dcgm_sm_clock gauge
dcgm_sm_clock{{gpu_id="3",{UUID}}} 210.0
dcgm_total_energy_consumption{{gpu_id="3",{UUID}}} 5000000.0
dcgm_sm_active{{gpu_id="3",{UUID}}} 0.5
dcgm_tensor_active{{gpu_id="3",{UUID}}} 0.25
dcgm_fp16_active{{gpu_id="3",{UUID}}} 0.125
dcgm_nvlink_tx_bytes{{gpu_id="3",{UUID}}} 1000.0
dcgm_pcie_rx_bytes{{gpu_id="3",{UUID}}} 2000.0
dcgm_ecc_dbe_volatile_total{{gpu_id="3",{UUID}}} 1.0
dcgm_current_clock_throttle_reasons{{gpu_id="3",{UUID}}} 4.0
dcgm_thermal_violation{{gpu_id="3",{UUID}}} 77.0
# HELP ib_port_xmit_data ib_port_xmit_data
# TYPE ib_port_xmit_data gauge
ib_port_xmit_data{{{PORT}}} 2.5e+010
ib_port_rcv_data{{{PORT}}} 300.0
ib_port_xmit_discards{{{PORT}}} 2.0
node_cpu_util{{{CPU}}} 12.5
node_cpu_frequency{{{CPU}}} 2445.0
node_mem_available{{job_id="None"}} 1.841545956e+09
node_mem_util{{job_id="None"}} 0.9
node_net_rx{{job_id="None"}} 5000.0
"""


def test_azures_moneo(tmp_path):
    port, cpu = "ib_port=mlx5_ib0:1", "cpu_id=3, numa_domain=0"
    assert read(tmp_path, "moneo.txt", MONEO) == [
        ("SM clock", "MHz", 3, None, 0, 210),
        ("energy", "J", 3, None, 0, 5000),
        ("SM active", "%", 3, None, 0, 50),
        ("tensor active", "%", 3, None, 0, 25),
        ("FP16 active", "%", 3, None, 0, 12.5),
        ("NVLink sent", "bytes/s", 3, None, 0, 1000),
        ("PCIe received", "bytes/s", 3, None, 0, 2000),
        ("uncorrected ECC errors", "", 3, None, 0, 1),
        ("clock event reasons", "bits", 3, None, 0, 4),
        ("clocks lowered by heat", "ns", 3, None, 0, 77),
        ("link sent", "bytes/s", None, port, 0, 25e9),
        ("link received", "bytes/s", None, port, 0, 300),
        ("ib_port_xmit_discards", "", None, port, 0, 2),
        ("CPU utilization", "%", None, cpu, 0, 12.5),
        ("CPU clock", "MHz", None, cpu, 0, 2445),
        ("host memory available", "bytes", None, None, 0, 1841545956 * 1024),
        ("host memory utilization", "%", None, None, 0, 0.9),
        ("network received", "bytes/s", None, None, 0, 5000),
    ]


def test_counters_of_ports_that_others_export_keep_their_names(tmp_path):
    text = '# TYPE ib_port_xmit_data counter\nib_port_xmit_data{interface="rdma0"} 7\n'
    assert read(tmp_path, "ports.txt", text) == [
        ("ib_port_xmit_data", "", None, "interface=rdma0", 0, 7)
    ]


def test_gpus_whose_uuid_is_hidden_are_told_by_their_numbers(tmp_path):
    lines = [f'dcgm_sm_clock{{gpu_id="{n}",gpu_uuid="********"}} {n}\n' for n in range(8)]
    rows = read(tmp_path, "hidden.txt", "# TYPE dcgm_sm_clock gauge\n" + "".join(lines))
    assert [(device, value) for _, _, device, _, _, value in rows] == [(n, n) for n in range(8)]


NVSMI = """
==============NVSMI LOG==============

Timestamp                                 : Wed Mar  8 17:25:40 2023
Driver Version                            : 550.54.15

Attached GPUs                             : 2
GPU 00000000:06:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Minor Number                          : 3
    Fan Speed                             : N/A
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 512 MiB
    Utilization
        Gpu                               : 35 %
        Memory                            : N/A
    Temperature
        GPU Current Temp                  : 30 C
        GPU T.Limit Temp                  : 57 C
        Memory Current Temp               : 36 C
    GPU Power Readings
        Power Draw                        : 100.89 W
        Current Power Limit               : 700.00 W
    GPU Memory Power Readings
        Power Draw                        : 69.61 W
    Clocks
        SM                                : 1980 MHz
    Max Clocks
        SM                                : 1985 MHz
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 42
            Type                          : C
            Name                          : secret
            Used GPU Memory               : 300 MiB

GPU 00000000:07:00.0
    GPU Power Readings
        Power Draw                        : 74.58 W
"""


def test_nvidia_smi_q_as_text(tmp_path):
    rows = read(tmp_path, "q.txt", NVSMI + NVSMI.replace("17:25:40", "17:25:41"))
    at = 1_678_296_340 * SECOND
    first = {(m, u, s): v for m, u, d, s, t, v in rows if (d, t) == (3, at)}
    assert first == {
        ("clock event reasons", "bits", None): 0x4 | 0x8 | 0x80,
        ("memory total", "bytes", None): 81_559 * MIB,
        ("memory used", "bytes", None): 512 * MIB,
        ("GPU utilization", "%", None): 35,
        ("temperature", "C", None): 30,
        ("Temperature.GPU T.Limit Temp", "C", None): 57,
        ("memory temperature", "C", None): 36,
        ("power", "W", None): 100.89,
        ("power limit", "W", None): 700,
        ("GPU Memory Power Readings.Power Draw", "W", None): 69.61,
        ("SM clock", "MHz", None): 1980,
        ("Max Clocks.SM", "MHz", None): 1985,
        ("process memory", "MiB", "process 42"): 300,
    }
    assert [(d, t, v) for m, _, d, _, t, v in rows if m == "power"] == [
        (3, at, 100.89), (1, at, 74.58), (3, at + SECOND, 100.89), (1, at + SECOND, 74.58),
    ]  # fmt: skip


MIG = """
==============NVSMI LOG==============

GPU 00000001:04:00.0
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 3
        FB Memory Usage
            Total                         : 23680 MiB
            Used                          : 2029 MiB
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 0
        Compute Instance ID               : 2
        Device Attributes
            Shared
                Multiprocessor count      : 70
        Shared FB Memory Usage
            Used                          : 1 MiB
    FB Memory Usage
        Used                              : 2030 MiB
    Utilization
        GPU                               : N/A
    Clocks Event Reasons
        SW Power Cap                      : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 12234991553 us
        SW Thermal Slowdown               : 0 us
"""


def test_nvidia_smi_q_of_instances_and_counters_of_reasons(tmp_path):
    assert [(m, u, s, v) for m, u, _, s, _, v in read(tmp_path, "q.txt", MIG)] == [
        ("clock event reasons", "bits", None, 0),
        ("memory total", "bytes", "MIG 3", 23_680 * MIB),
        ("memory used", "bytes", "MIG 3", 2029 * MIB),
        ("Device Attributes.Shared.Multiprocessor count", "", "MIG 0/2", 70),
        ("memory used", "bytes", "MIG 0/2", MIB),
        ("memory used", "bytes", None, 2030 * MIB),
        ("Clocks Event Reasons Counters.SW Power Capping", "us", None, 12_234_991_553),
        ("Clocks Event Reasons Counters.SW Thermal Slowdown", "us", None, 0),
    ]


PMON = """#Time        gpu         pid   type     sm    mem    enc    fb   ccpm    command
#HH:MM:SS    Idx           #    C/G      %      %      %    MB     MB    name
 17:25:40      0       3485     C     98      7      -  1000      0    python train.py
 17:25:40      0       1941   C+G      -      -      -     5      0    voxtype
 17:25:40      1          -     -      -      -      -     -      -
 17:25:41      0       3485     C      0      0      -  1000      0    python train.py
"""


def test_pmon_of_nvidia_smi_with_times_only(tmp_path):
    at = (17 * 3600 + 25 * 60 + 40) * SECOND
    assert read(tmp_path, "pmon.txt", PMON)[:5] == [
        ("GPU utilization", "%", 0, "process 3485", at, 98),
        ("memory utilization", "%", 0, "process 3485", at, 7),
        ("memory used", "bytes", 0, "process 3485", at, 1000 * MIB),
        ("ccpm", "MiB", 0, "process 3485", at, 0),
        ("memory used", "bytes", 0, "process 1941", at, 5 * MIB),
    ]
    assert "damaged_lines" not in list_notes(tmp_path, "pmon.txt")


ZEUS = "Time,Power\n2022-07-13 02:07:36.708783111,32402\n2022-07-13 02:07:36.761689374,32312\n"


def test_power_log_of_zeus_keeps_its_nanoseconds(tmp_path):
    at = 1_657_678_056 * SECOND
    assert read(tmp_path, "power.csv", ZEUS) == [
        ("power", "W", 0, None, at + 708_783_111, 32.402),
        ("power", "W", 0, None, at + 761_689_374, 32.312),
    ]


DCGMI = """#Entity   SMACT        TOTEC                  POWER                FBUSD
ID                     mJ                     W
GPU 0     0.950        9223372036854775794    140737488355330.0    2147483634
GPU-CI 1  0.100        5000                   N/A                  12
CPU 0     N/A          N/A                    81.5                 N/A
"""


def test_blanks_of_dcgm_are_no_values(tmp_path):
    assert read(tmp_path, "dmon.txt", DCGMI) == [
        ("SM active", "%", 0, None, 0, 95),
        ("SM active", "%", None, "GPU-CI 1", 0, 10),
        ("energy", "J", None, "GPU-CI 1", 0, 5),
        ("memory used", "bytes", None, "GPU-CI 1", 0, 12 * MIB),
        ("power", "W", None, "CPU 0", 0, 81.5),
    ]


SUPERBENCH = """{"time": "2021-12-06 04:19:35", "cpu_usage": 3.5, "gpu_usage:0": 56}
{"time": "2021-12-06 04:19:46", "cpu_usage": 6, "gpu_usage:0": null, "eth0_receive_bw": 0.5}
"""
GADGET = """,System Time,RDTSC,Elapsed Time (sec),CPU Utilization(%),Processor Power_0(Watt)
0,14:55:35:726,27292645984428.0,0.102,6.597,1.4280000000000002
1,14:55:35:836,27292899568558.0,0.212,7.824,1.8869999999999998
"""
ANSWER = """{"status": "success", "data": {"resultType": "vector", "result": [
 {"metric": {"__name__": "dcgm_gpu_temp", "gpu_id": "0"}, "value": [1658352303.075, "36"]}]}}"""


ZEUS_TABLES = (
    ('{"measurements": [{"power_limit": 300, "energy": 2053.5, "time": 9.5}, '
     '{"power_limit": 275, "energy": 2051.0, "time": 10.0}]}',
     [("power limit 300 W", 9.5, 2053.5), ("power limit 275 W", 10.0, 2051.0)]),
    ('{"job_id": "j", "train_power": {"300000": 200.0}, "train_throughput": {"300000": 4.0}, '
     '"eval_power": {}, "eval_throughput": {}, "optimal_pl": 300000}',
     [("train, power limit 300 W, an iteration", 0.25, 50.0)]),
    ('{"energy": 1000.0, "time": 8.0, "cost": 3.5, "num_epochs": 2, "reached": false}',
     [("2 epochs, target not reached", 8.0, 1000.0)]),
    ("dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
     "cifar100,net,1024,adam,100,20.5,96.0\ncifar100,net,1024,adam,125,x,96.0\n",
     [("net, batch 1024, adam, power limit 100 W, an epoch", 20.5, 1968.0)]),
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ZEUS_TABLES)
def test_zeus_optimizers(tmp_path, text, expected):
    """Each measurement is a range with its energy; one that is not a number is counted."""
    (tmp_path / "zeus.csv").write_text(text)
    run = sightline.open(str(tmp_path / "zeus.csv"))
    host, counters = run.table("host_ops"), run.table("counters")
    energies = counters.filter(pl.col("metric") == "energy").get_column("value")
    seconds = (host["end_ns"] - host["start_ns"]) / 1e9
    assert list(zip(host["name"], seconds, energies, strict=True)) == expected
    lost = run.table("quality").filter(pl.col("kind") == "damaged_lines").get_column("count")
    assert lost.to_list() == ([1] if text.startswith("dataset") else [])


@pytest.mark.parametrize(
    ("importer", "text"),
    [
        (amd_smi, AMD_METRIC),
        (amd_smi, '[{"gpu": 0, "usage": {"gfx_activity": {"value": 73, "unit": "%"}}}]'),
        (rocm_smi, "device,GPU use (%),Fan speed (%)\ncard0,42,35\ncard1,17,0\n"),
        (xpu_smi, XPU),
        (all_smi, json.dumps(make_frame(1)) + "\n" + json.dumps(make_frame(2)) + "\n"),
        (nvidia_smi_text, NVSMI),
        (smi_dmon, PMON),
        (smi_dmon, DCGMI),
        (energy_csv, ZEUS),
        *((zeus_tables, text) for text, _ in ZEUS_TABLES),
        (rocm_smi, '{"card0": {"Card Series": "MI", "GPU use (%)": "3"}}'),
        (prometheus, ANSWER),
        (superbench_monitor, SUPERBENCH),
        (power_gadget, GADGET),
    ],
    ids=lambda value: value.IMPORTER.name if hasattr(value, "IMPORTER") else "",
)
def test_damage(tmp_path, importer, text):
    survive_damage(importer.read, tmp_path / "log", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "gpu,gfx,gfx_clk\nN/A,N/A,N/A\n"),
        ("a.json", '[{"gpu": 0, "usage": "N/A"}]'),
        ("r.csv", "device,GPU use (%)\ncard0,N/A\n"),
        ("x2.csv", "Timestamp, DeviceId, GPU Power (W),GPU Power (W), GPU Power (W)\n"),
        ("x.csv", "Timestamp, DeviceId, GPU Power (W)\n99:00:00, 0, 1\n"),
        ("s.ndjson", '{"all_smi_version": "1", "header": true}\n{"schema": 1}\n{'),
        ("q.txt", "==============NVSMI LOG==============\nGPU 00000000:06:00.0\n"),
        ("z.csv", "Time,Power\n2022-07-13 02:07:36.708783111,-\n"),
    ],
)
def test_a_log_without_a_number_is_refused(tmp_path, name, text):
    with pytest.raises(InputError):
        read(tmp_path, name, text)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", list_recordings("smi/**/amd_rocm_smi/testdata/*.json"), ids=name_recording
)
def test_rocm_smi_of_the_corpus_reads_the_same_as_csv(tmp_path, path):
    """JSON against a plain look into it, then as the CSV that has the same keys."""
    cards = {k: v for k, v in json.loads(path.read_text()).items() if k.startswith("card")}
    keys = sorted({key for card in cards.values() for key in card if not key.isdecimal()})
    text = tmp_path / "cards.csv"
    with text.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["device", "GPU use (%)", *(key for key in keys if key != "GPU use (%)")])
        for card, values in cards.items():
            rest = [values.get(key, "N/A") for key in keys if key != "GPU use (%)"]
            rows.writerow([card, values.get("GPU use (%)", "N/A"), *rest])
    shown = ("metric", "unit", "device_id", "source", "value")
    tables = [sightline.open(str(p)).table("counters").select(*shown) for p in (path, text)]
    assert sorted(map(repr, tables[0].rows())) == sorted(map(repr, tables[1].rows()))
    told = {(m, d): v for m, _, d, s, v in tables[0].iter_rows() if s is None}
    for card, values in cards.items():
        device = int(card[4:])
        assert told["memory used", device] == float(values["VRAM Total Used Memory (B)"])
        assert told["GPU utilization", device] == float(values["GPU use (%)"])


@pytest.mark.corpus
def test_superbench_of_the_corpus(corpus):
    path = corpus / "smi/microsoft__superbenchmark/tests/data/monitor/monitor.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    counters = sightline.open(str(path)).table("counters")
    assert counters.height == sum(len(line) - 1 for line in lines)
    told = counters.filter(device_id=3, metric="memory used").get_column("value").to_list()
    assert told == [line["gpu_mem_used:3"] for line in lines]
    told = counters.filter(device_id=5, metric="GPU utilization").get_column("value").to_list()
    assert told == [line["gpu_usage:5"] for line in lines]
    eth = counters.filter(metric="network received", source="eth0").get_column("value").to_list()
    assert eth == pytest.approx([line["eth0_receive_bw"] * MIB for line in lines])


@pytest.mark.corpus
def test_power_gadget_of_the_corpus(corpus):
    path = corpus / "energy/mlco2__codecarbon/tests/test_data/mock_intel_power_gadget_data.csv"
    with path.open() as file:
        lines = [row for row in csv.DictReader(file) if row["System Time"]]
    counters = sightline.open(str(path)).table("counters")
    for metric, source, column in (
        ("power", "package 0", "Processor Power_0(Watt)"),
        ("energy", "DRAM 0", "Cumulative DRAM Energy_0(Joules)"),
        ("CPU utilization", "host", "CPU Utilization(%)"),
    ):
        told = counters.filter(metric=metric, source=source).get_column("value").to_list()
        assert told == [float(row[column]) for row in lines], column
    first, second = counters.filter(metric="power", source="DRAM 0").get_column("time_ns")[:2]
    assert (first, second - first) == (
        ((14 * 60 + 55) * 60 + 35) * SECOND + 726_000_000,
        110_000_000,
    )


def test_a_long_log_keeps_its_order_and_all_its_values(tmp_path):
    """More values than are packed at once, by lines and by columns."""
    many = 60_000
    lines = "".join(f"GPU {n % 2}     {n}\n" for n in range(many))
    rows = read(tmp_path, "d.txt", f"#Entity   POWER\nID        W\n{lines}")
    assert [(d, t, v) for _, _, d, _, t, v in rows] == [
        (n % 2, n // 2 * SECOND, n) for n in range(many)
    ]
    lines = "".join(f"{n // 2},{n % 2},{n},{n + 1}\n" for n in range(many))
    rows = read(tmp_path, "a.csv", f"timestamp,gpu,gfx_activity,socket_power\n{lines}")
    assert [(d, t, v) for _, _, d, _, t, v in rows] == [
        (n % 2, n // 2 * SECOND, n + more) for n in range(many) for more in (0, 1)
    ]


def test_a_label_makes_a_gpu_only_in_a_gpus_family(tmp_path):
    content = (
        "# TYPE ceems_compute_unit_cpu_seconds_total counter\n"
        'ceems_compute_unit_cpu_seconds_total{manager="slurm",uuid="1009248"} 60\n'
        'ceems_compute_unit_cpu_seconds_total{manager="slurm",uuid="1009249"} 61\n'
        'ceems_rapl_package_joules_total{index="0"} 1000\n'
        'node_disk_info{device="sda",serial_number="X1",uuid="5f-8a"} 1\n'
    )
    rows = read(tmp_path, "metrics.prom", content)
    assert {row[2] for row in rows} == {None}
    assert len({(row[0], row[3]) for row in rows}) == 4
    gpus = (
        'ceems_compute_unit_gpu_index_flag{gpuuuid="GPU-1",index="1",uuid="1009248"} 1\n'
        'nvidia_smi_utilization_gpu_ratio{uuid="b3-44"} 0.5\n'
    )
    rows = read(tmp_path, "gpus.prom", content + gpus)
    assert {row[2] for row in rows} == {None, 0, 1}


def test_the_moment_at_which_a_series_began_is_no_measurement(tmp_path: Path) -> None:
    """OpenMetrics' X_created beside X_total; a metric of that name alone stays."""
    path = tmp_path / "metrics.txt"
    path.write_text(
        "# TYPE done_total counter\ndone_total 3\n# TYPE done_created gauge\ndone_created 1.7e9\n"
        "# TYPE pods_created gauge\npods_created 2\n"
    )
    counters = sightline.open(str(path)).table("counters")
    assert set(counters.get_column("metric")) == {"done_total", "pods_created"}
