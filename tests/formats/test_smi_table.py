"""The table of plain `nvidia-smi`: several GPUs, MIG, processes, GPUs that do not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.session import Session

MIB = 1 << 20
AT = 1_678_296_340 * 10**9
HEAD = """Wed Mar  8 17:25:40 2023
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
"""
GPU0 = """|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    2 |
| N/A   34C    P0    60W / 400W |   1024MiB / 81920MiB |     35%      Default |
|                               |                      |             Disabled |
+-------------------------------+----------------------+----------------------+
"""
GONE = """|   5  ERR!                On   | 00000000:91:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |
|                               |                      |                 ERR! |
+-------------------------------+----------------------+----------------------+
"""
FAN = """|   1  NVIDIA GeForce ...  Off  | 00000000:01:00.0  On |                  N/A |
|ERR!   45C    P8    11W / 250W |    300MiB / 11264MiB |      2%      Default |
+-------------------------------+----------------------+----------------------+
"""
MIG = """
+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    1   0   0  |   8860MiB / 20096MiB | 56      0 |  4   0    2    0    0 |
|                  |      3MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  0    5   0   1  |   8542MiB /  9984MiB | 28      3 |  2   0    1    0    0 |
|                  |     10MiB / 16383MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
"""
PROCESSES = """
+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0    1    0      12345      C   python train.py                 8840MiB |
|    0  N/A  N/A        777    C+G   ...me with blanks                 12MiB |
+-----------------------------------------------------------------------------+
"""


def open_text(folder: Path, text: str) -> Session:
    path = folder / "smi.txt"
    path.write_text(text)
    return sightline.open(str(path))


def list_values(run: Session) -> dict[tuple[str, int, str | None], Any]:
    rows = run.table("counters").select("metric", "device_id", "source", "value").rows()
    return {(metric, device, source): value for metric, device, source, value in rows}


def list_events(run: Session) -> list[tuple[Any, ...]]:
    columns = ("time_ns", "device_id", "event", "source", "text")
    return run.table("device_events").select(columns).rows()


def test_all_cells_of_a_gpu_its_parts_and_its_processes(tmp_path: Path) -> None:
    values = list_values(open_text(tmp_path, HEAD + GPU0 + MIG + PROCESSES))
    ecc = next(metric for metric, *_ in values if "ncorrect" in metric or "ECC" in metric)
    assert values == {
        (ecc, 0, None): 2,
        ("temperature", 0, None): 34,
        ("power", 0, None): 60,
        ("power limit", 0, None): 400,
        ("memory used", 0, None): 1024 * MIB,
        ("memory total", 0, None): 81920 * MIB,
        ("GPU utilization", 0, None): 35,
        ("memory used", 0, "MIG 1/0"): 8860 * MIB,
        ("memory total", 0, "MIG 1/0"): 20096 * MIB,
        ("SMs", 0, "MIG 1/0"): 56,
        (ecc, 0, "MIG 1/0"): 0,
        ("memory used", 0, "MIG 5/0"): 8542 * MIB,
        ("memory total", 0, "MIG 5/0"): 9984 * MIB,
        ("SMs", 0, "MIG 5/0"): 28,
        (ecc, 0, "MIG 5/0"): 3,
        ("process memory", 0, "process 12345"): 8840,
        ("process memory", 0, "process 777"): 12,
    }


@pytest.mark.parametrize("indent", ["", "    "])
def test_a_gpu_that_answers_with_errors_is_lost(tmp_path: Path, indent: str) -> None:
    text = "".join(f"{indent}{line}" for line in (HEAD + GPU0 + GONE).splitlines(keepends=True))
    run = open_text(tmp_path, text)
    (event,) = list_events(run)
    assert event[:3] == (AT, 5, "device-lost")
    assert "temperature" in event[4]
    notes = run.table("quality")
    assert "GPU 5" in notes.filter(kind="device_lost").get_column("text").item()
    names = dict(run.table("devices").select("device_id", "name").rows())
    assert names == {0: "NVIDIA A100-SXM...", 5: None}


def test_one_broken_sensor_is_no_lost_gpu(tmp_path: Path) -> None:
    run = open_text(tmp_path, HEAD + FAN)
    (event,) = list_events(run)
    assert event[1:3] == (1, "sensor-failed")
    assert "fan" in event[4]
    assert "device_lost" not in run.table("quality").get_column("kind").to_list()
    assert list_values(run)["power", 1, None] == 11


def test_windows_and_memory_that_is_not_supported(tmp_path: Path) -> None:
    text = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.88                 Driver Version: 580.88         CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA GeForce RTX 3060      WDDM  |   00000000:01:00.0  On |                  N/A |
| 30%   41C    P8             14W /  170W | Not Supported          |      5%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
    assert list_values(open_text(tmp_path, text)) == {
        ("fan speed", 0, None): 30,
        ("temperature", 0, None): 41,
        ("power", 0, None): 14,
        ("power limit", 0, None): 170,
        ("GPU utilization", 0, None): 5,
    }


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        (
            "Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the"
            " system to recover this GPU",
            "0000:05:00.0",
            "GPU is lost.  Reboot the system to recover this GPU",
        ),
        (
            "Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error",
            "0000:01:00.0",
            "Unknown Error",
        ),
    ],
)
def test_a_line_instead_of_a_table(tmp_path: Path, line: str, place: str, words: str) -> None:
    run = open_text(tmp_path, f"{line}\n")
    assert list_events(run) == [(0, None, "device-lost", place, words)]
    assert not run.rows("counters")


def test_a_line_above_the_table_of_the_others(tmp_path: Path) -> None:
    line = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n"
    run = open_text(tmp_path, line + HEAD + GPU0)
    assert [event[3] for event in list_events(run)] == ["0000:3B:00.0"]
    assert list_values(run)["temperature", 0, None] == 34


LOST_XML = """<?xml version="1.0" ?>
<nvidia_smi_log><timestamp>Wed Mar  8 17:25:40 2023</timestamp>
  <gpu id="00000000:81:00.0"><product_name>NVIDIA A100</product_name><minor_number>2</minor_number>
    <utilization><gpu_util>{value}</gpu_util><memory_util>{value}</memory_util></utilization>
    <temperature><gpu_temp>{value}</gpu_temp></temperature>
    <fan_speed>50 %</fan_speed>
  </gpu></nvidia_smi_log>
"""


def test_a_lost_gpu_in_xml(tmp_path: Path) -> None:
    path = tmp_path / "q.xml"
    path.write_text(LOST_XML.format(value="GPU is lost"))
    run = sightline.open(str(path))
    (event,) = list_events(run)
    assert event[:3] == (AT, 2, "device-lost")
    assert event[4].startswith("GPU is lost: no utilization.gpu_util")


def test_a_lost_gpu_in_text(tmp_path: Path) -> None:
    path = tmp_path / "q.txt"
    path.write_text(
        "==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Wed Mar  8 17:25:40 2023\n\n"
        "GPU 00000000:81:00.0\n"
        "    Product Name                          : NVIDIA A100\n"
        "    Fan Speed                             : 50 %\n"
        "    Utilization\n"
        "        Gpu                               : GPU requires reset\n"
    )
    (event,) = list_events(sightline.open(str(path)))
    assert event[:3] == (AT, 0, "device-lost")
    assert event[4] == "GPU requires reset: no Utilization.Gpu"


@pytest.mark.parametrize(
    ("state", "words"),
    [("Completed", None), ("N/A", None), ("In Progress", "NVLink fabric: state In Progress")],
)
def test_a_gpu_that_has_not_joined_the_fabric(
    tmp_path: Path, state: str, words: str | None
) -> None:
    path = tmp_path / "q.txt"
    path.write_text(
        "==============NVSMI LOG==============\n\n"
        "GPU 00000000:81:00.0\n"
        "    Fan Speed                             : 50 %\n"
        "    Fabric\n"
        f"        State                             : {state}\n"
        "        Status                            : N/A\n"
    )
    run = sightline.open(str(path))
    assert [event[4] for event in list_events(run)] == ([words] if words else [])
    assert ("fabric_incomplete" in run.table("quality").get_column("kind")) == bool(words)


@pytest.mark.corpus
def test_a_real_gpu_whose_fabric_is_unhealthy(corpus: Path) -> None:
    folder = corpus / "smi/NVIDIA__k8s-test-infra/tests/e2e/go/assertions/nvidiasmi/testdata"
    events = list_events(sightline.open(str(folder / "qx-gb200-fabric-degraded.xml")))
    assert [event[1:3] for event in events] == [(1, "fabric-error")]
    assert not sightline.open(str(folder / "qx-gb200-healthy.xml")).rows("device_events")
