"""What nvidia-smi, dcgmi and rocm-smi print, and metrics of Prometheus: written and real ones."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.metric_names import name_metric
from sightline.errors import InputError
from support.corpus import list_recordings, name_recording

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Wed Mar  8 17:25:40 2023</timestamp>
  <gpu id="00000000:81:00.0">
    <product_name>NVIDIA A100</product_name> <minor_number>2</minor_number> <serial>42</serial>
    <fb_memory_usage> <total>40960 MiB</total> <used>512 MiB</used> </fb_memory_usage>
    <utilization> <gpu_util>35 %</gpu_util> <encoder_util>N/A</encoder_util> </utilization>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
    </clocks_event_reasons>
    <gpu_power_readings> <power_draw>70.10 W</power_draw> </gpu_power_readings>
    <clocks> <sm_clock>1410 MHz</sm_clock> </clocks>
    <mig_devices> <mig_device> <gpu_instance_id>1</gpu_instance_id>
      <compute_instance_id>0</compute_instance_id>
      <fb_memory_usage> <used>19 MiB</used> </fb_memory_usage> </mig_device> </mig_devices>
    <processes> <process_info> <pid>7</pid> <process_name>secret</process_name>
      <used_memory>300 MiB</used_memory> </process_info> </processes>
  </gpu>
</nvidia_smi_log>
"""
MIB = 1 << 20
AT = 1_678_296_340 * 10**9


def read(folder: Path, name: str, text: str) -> list[tuple[Any, ...]]:
    """metric, unit, device, source, time and value of each row."""
    path = folder / name
    path.write_text(text)
    counters = sightline.open(str(path)).table("counters")
    return counters.select("metric", "unit", "device_id", "source", "time_ns", "value").rows()


def test_xml(tmp_path: Path) -> None:
    rows = read(tmp_path, "q.xml", XML)
    assert {(m, u, s): (d, v) for m, u, d, s, t, v in rows} == {
        ("memory total", "bytes", None): (2, 40960 * MIB),
        ("memory used", "bytes", None): (2, 512 * MIB),
        ("GPU utilization", "%", None): (2, 35),
        ("clock event reasons", "bits", None): (2, 0x4 | 0x8),
        ("power", "W", None): (2, 70.10),
        ("SM clock", "MHz", None): (2, 1410),
        ("memory used", "bytes", "MIG 1/0"): (2, 19 * MIB),
        ("process memory", "MiB", "process 7"): (2, 300),
    }
    assert {row[4] for row in rows} == {AT}


def test_an_xml_that_would_grow_is_refused(tmp_path: Path) -> None:
    bomb = XML.replace("<nvidia_smi_log>", '<!ENTITY a "aaaa"><nvidia_smi_log>', 1)
    with pytest.raises(InputError, match="entities"):
        read(tmp_path, "q.xml", bomb)


def test_csv_of_two_gpus_again_and_again(tmp_path: Path) -> None:
    text = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
2023/03/08 17:25:40.500, 0, NVIDIA A100, 35 %, 512 MiB, 70.10 W
2023/03/08 17:25:40.500, 1, NVIDIA A100, 0 %, [N/A], [Not Supported]
2023/03/08 17:25:41.500, 0, NVIDIA A100, 36 %, 513 MiB, 71.00 W
2023/03/08 17:25:41.500, 1, NVIDIA A100
"""
    assert read(tmp_path, "log.csv", text) == [
        ("GPU utilization", "%", 0, None, AT + 5 * 10**8, 35),
        ("memory used", "bytes", 0, None, AT + 5 * 10**8, 512 * MIB),
        ("power", "W", 0, None, AT + 5 * 10**8, 70.10),
        ("GPU utilization", "%", 1, None, AT + 5 * 10**8, 0),
        ("GPU utilization", "%", 0, None, AT + 15 * 10**8, 36),
        ("memory used", "bytes", 0, None, AT + 15 * 10**8, 513 * MIB),
        ("power", "W", 0, None, AT + 15 * 10**8, 71),
    ]


def test_csv_without_times_units_and_numbers(tmp_path: Path) -> None:
    text = "uuid, clocks.sm [MHz], memory.used [MiB]\nGPU-b, 100, 1\nGPU-a, 200, 2\nGPU-b, 300, 3\n"
    rows = read(tmp_path, "log.csv", text)
    assert [(m, d, t, v) for m, _, d, _, t, v in rows if m == "SM clock"] == [
        ("SM clock", 0, 0, 100),
        ("SM clock", 1, 0, 200),
        ("SM clock", 0, 10**9, 300),
    ]
    assert [v for m, *_, v in rows if m == "memory used"] == [MIB, 2 * MIB, 3 * MIB]


def test_dmon_of_nvidia_smi(tmp_path: Path) -> None:
    text = """#Date       Time        gpu    pwr  gtemp     sm   fb
#YYYYMMDD   HH:MM:SS    Idx      W      C      %   MB
 20230308   17:25:40      1     70     38     35  512
 20230308   17:25:41      1     71      -     36  513
"""
    assert read(tmp_path, "dmon.txt", text) == [
        ("power", "W", 1, None, AT, 70),
        ("temperature", "C", 1, None, AT, 38),
        ("GPU utilization", "%", 1, None, AT, 35),
        ("memory used", "bytes", 1, None, AT, 512 * MIB),
        ("power", "W", 1, None, AT + 10**9, 71),
        ("GPU utilization", "%", 1, None, AT + 10**9, 36),
        ("memory used", "bytes", 1, None, AT + 10**9, 513 * MIB),
    ]


def test_dmon_of_dcgmi(tmp_path: Path) -> None:
    text = """#Entity   SMACT        TENSO        PCITX       POWER
ID                                              W
GPU 3     0.950        0.800        498948      N/A
GPU-I 5   0.100        N/A          N/A         N/A
GPU 3     0.500        0.000        449138      312.5
"""
    rows = [(m, u, d, s, t, round(v, 6)) for m, u, d, s, t, v in read(tmp_path, "d.txt", text)]
    assert rows == [
        ("SM active", "%", 3, None, 0, 95),
        ("tensor active", "%", 3, None, 0, 80),
        ("PCIe sent", "bytes/s", 3, None, 0, 498_948),
        ("SM active", "%", None, "GPU-I 5", 0, 10),
        ("SM active", "%", 3, None, 10**9, 50),
        ("tensor active", "%", 3, None, 10**9, 0),
        ("PCIe sent", "bytes/s", 3, None, 10**9, 449_138),
        ("power", "W", 3, None, 10**9, 312.5),
    ]


@pytest.mark.parametrize(
    "head",
    [
        "#Date       Time        gpu    pwr     sm\n#YYYYMMDD   HH:MM:SS    Idx      W      %\n",
        "# gpu    pwr     sm\n# Idx      W      %\n",
        "#Entity     POWER   SMACT\nID       W\n",
    ],
)
def test_dmon_reads_like_lines_together_as_it_reads_each(tmp_path: Path, head: str) -> None:
    entity = "GPU " if "Entity" in head else ""
    said = [("0", "70"), ("1", "-"), ("0", "N/A"), ("7", "500.5"), ("0", "72")]
    lines = [
        ["20230308", f"17:25:4{n // 2}", entity + gpu, power, f"{n * 0.25:6}"]
        for n, (gpu, power) in enumerate(said)
    ]
    wanted = slice(0 if "Date" in head else 2, None)
    text = head + "".join("  ".join(cells[wanted]) + "\n" for cells in lines) + head
    together = read(tmp_path, "together.txt", text)
    assert len(together) == 8
    # A line that is cut off, as a log has when its machine fails.
    assert read(tmp_path, "each.txt", text + "  1\n") == together


EXPOSED = r"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-7",modelName="NVIDIA A100",Hostname="secret"} 1410
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-7",GPU_I_ID="9",GPU_I_PROFILE="1g.5gb"} 0.5 1678296340000
DCGM_FI_DEV_MEM_CLOCK{gpu="1",UUID="GPU-7"} 9223372036854775794
own_metric{gpu="1",UUID="GPU-7",kind="a \"b\""} 3
"""


def test_prometheus(tmp_path: Path) -> None:
    """A blank of DCGM is not a value; who ran it where is left out."""
    assert read(tmp_path, "a.metrics", EXPOSED) == [
        ("SM clock", "MHz", 1, None, 0, 1410),
        ("own_metric", "", 1, 'kind=a "b"', 0, 3),
        ("SM active", "%", 1, "MIG 9 (1g.5gb)", AT, 50),
    ]
    kept = sightline.open(str(tmp_path / "a.metrics"), keep_identity=True).table("counters")
    assert "Hostname=secret" in kept.get_column("source").to_list()


def test_answer_of_prometheus(tmp_path: Path) -> None:
    series = {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "pod": "p"}}
    series["values"] = [[1678296340, "70.5"], [1678296341.5, "71"]]  # type: ignore[assignment]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series]}}
    assert read(tmp_path, "a.json", json.dumps(answer)) == [
        ("power", "W", 0, None, AT, 70.5),
        ("power", "W", 0, None, AT + 15 * 10**8, 71),
    ]


def test_rocm_smi(tmp_path: Path) -> None:
    card = {
        "Temperature (Sensor edge) (C)": "43.0",
        "Temperature (Sensor junction) (C)": "47.0",
        "sclk clock speed:": "(500Mhz)",
        "Average Graphics Package Power (W)": "N/A (Secondary die)",
        "VRAM Total Used Memory (B)": "10850304",
        "Card Series": "Instinct MI100",
        "Unique ID": "0x123",
    }
    path = tmp_path / "r.json"
    assert read(tmp_path, path.name, json.dumps({"card1": card, "system": {"x": "1"}})) == [
        ("temperature", "C", 1, None, 0, 43),
        ("temperature", "C", 1, "junction", 0, 47),
        ("SM clock", "MHz", 1, None, 0, 500),
        ("memory used", "bytes", 1, None, 0, 10_850_304),
    ]
    devices = sightline.open(str(path)).table("devices").select("device_id", "vendor", "name")
    assert devices.rows() == [(1, "amd", "Instinct MI100")]


def test_windows_of_zeus(tmp_path: Path) -> None:
    text = "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n5.5,epoch,2.0,300.5,1e2\n"
    path = tmp_path / "z.csv"
    assert read(tmp_path, path.name, text) == [
        ("energy", "J", 0, None, 7_500_000_000, 300.5),
        ("energy", "J", 1, None, 7_500_000_000, 100),
    ]
    run = sightline.open(str(path))
    assert run.table("host_ops").select("name", "start_ns", "end_ns").rows() == [
        ("epoch", 5_500_000_000, 7_500_000_000)
    ]


def test_unknown_metrics_keep_their_name_and_unit() -> None:
    assert name_metric("bar1_memory_usage.used", "MiB") == ("bar1_memory_usage.used", "MiB", 1)
    assert name_metric("memory.used", "GiB") == ("memory used", "bytes", 1 << 30)


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("smi/**/*.xml"), ids=name_recording)
def test_xml_of_the_corpus(path: Path) -> None:
    """Power, memory and temperature of each GPU, found by searching the text."""
    counters = sightline.open(str(path)).table("counters")
    gpus = re.split(r"<gpu id=", path.read_text())[1:]
    found = {
        (m, d): v
        for m, d, s, v in counters.select("metric", "device_id", "source", "value").iter_rows()
        if s is None
    }
    for place, gpu in enumerate(gpus):
        minor = re.search(r"<minor_number>(\d+)<", gpu)
        device = int(minor[1]) if minor else place
        for metric, form, scale in (
            ("power", r"<power_draw>([\d.]+) W<", 1),
            ("memory used", r"<fb_memory_usage>(?:(?!</fb_).)*?<used>(\d+) MiB<", MIB),
            ("temperature", r"<gpu_temp>(\d+) C<", 1),
            ("SM clock", r"<clocks>(?:(?!</clocks>).)*?<sm_clock>(\d+) MHz<", 1),
        ):
            told = re.search(form, gpu.split("<mig_device>")[0], re.DOTALL)
            if told:
                assert found[metric, device] == pytest.approx(float(told[1]) * scale), metric


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", list_recordings("smi/**/*.metrics", "prometheus/**/*.ini"), ids=name_recording
)
def test_prometheus_of_the_corpus(path: Path) -> None:
    """As many values as lines with one, and of a metric that is not renamed the same sum."""
    lines = [x.rsplit(" ", 1) for x in path.read_text().splitlines() if re.match(r"\w+(\{| )", x)]
    # What is the whole GPU's stands once, though the exporter repeats it for each MIG instance.
    whole = r"DCGM_FI_DEV_(?:POWER|TOTAL_ENERGY|GPU_TEMP|MEMORY_TEMP|SM_CLOCK|MEM_CLOCK|PCIE|XID)"
    once = {
        (re.sub(r',?GPU_I_\w+="[^"]*"', "", head), value)
        if re.match(whole, head) and "GPU_I_ID" in head
        else (head, n): n
        for n, (head, value) in reversed(list(enumerate(lines)))
    }
    lines = [lines[n] for n in sorted(once.values())]
    values = [(head.split("{")[0], float(value)) for head, value in lines if _is_number(value)]
    counters = sightline.open(str(path)).table("counters")
    assert counters.height == sum(math.isfinite(v) and v < 2**62 for _, v in values)
    for name in {n for n, _ in values if name_metric(n)[0] == n}:
        ours = counters.filter(metric=name).get_column("value").sum()
        assert ours == pytest.approx(sum(v for n, v in values if n == name and math.isfinite(v)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("energy/**/A40+*.csv"), ids=name_recording)
def test_energies_of_the_corpus(path: Path) -> None:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    told = sum(float(v) for row in rows for k, v in row.items() if k.endswith("_energy"))
    ours = sightline.open(str(path)).table("counters").get_column("value").sum()
    assert ours == pytest.approx(told, rel=1e-12)


XPU_TIMER = """XPU_TIMER_COLL_KERNEL_AVG_LATENCY{algorithm="RING_LL",ip="NOT_SET",job_name="a",\
operation="AllReduce",pod_name="b",rank="1"} 370
XPU_TIMER_COLL_KERNEL_AVG_LATENCY{algorithm="RING_LL",operation="AllReduce",rank="0"} 365
XPU_TIMER_COMMON_HANG{rank="1"} 0
"""


def test_metrics_of_xputimer(tmp_path: Path) -> None:
    """One reading of a job's daemon: a counter of each rank and operation."""
    (tmp_path / "metrics.txt").write_text(XPU_TIMER)
    rows = sightline.open(str(tmp_path / "metrics.txt")).table("counters")
    shown = rows.select("metric", "source", "value").sort("source", "metric").rows()
    assert [(source, value) for _, source, value in shown] == [
        ("algorithm=RING_LL, operation=AllReduce, rank=0", 365.0),
        ("algorithm=RING_LL, operation=AllReduce, rank=1", 370.0),
        ("rank=1", 0.0),
    ]


TABLE = """Thu Nov 26 18:17:29 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:06.0 Off |                    2 |
| N/A   37C    P0             72W /  700W |     512MiB /  81559MiB |     35%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:00:07.0 Off |                  Off |
| N/A   38C    P0             73W /  700W |       0MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            1234      C   /opt/my tools/python                    480MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_the_table(tmp_path: Path) -> None:
    rows = read(tmp_path, "smi.txt", TABLE)
    at = 1_795_717_049 * 10**9
    assert {t for *_, t, _ in rows} == {at}
    found = {(d, m, u, s): v for m, u, d, s, _, v in rows}
    assert found[0, "power", "W", None] == 72 and found[1, "power limit", "W", None] == 700
    assert found[0, "memory used", "bytes", None] == 512 * MIB
    assert found[1, "memory total", "bytes", None] == 81559 * MIB
    assert found[0, "GPU utilization", "%", None] == 35
    assert found[1, "temperature", "C", None] == 38
    assert found[0, "process memory", "MiB", "process 1234"] == 480
    errors = {d: v for (d, m, _, _), v in found.items() if m.startswith("ecc")}
    assert errors == {0: 2}  # ECC that is switched off counts none
    # Again and again, with -l: a reading each.
    again = TABLE.replace("18:17:29", "18:17:34").replace("72W", "90W")
    rows = read(tmp_path, "l.txt", TABLE + again)
    power = [(t - at, v) for m, _, d, _, t, v in rows if (m, d) == ("power", 0)]
    assert power == [(0, 72), (5 * 10**9, 90)]


PROFILES = """+-------------------------------------------------------------------------------+
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
|   0  MIG 1g.10gb         19     5/7        9.75       No     16     1     0   |
|                                                               1     2     0   |
+-------------------------------------------------------------------------------+
|   1  MIG 1g.10gb+me      20     1/1        9.75       No     16     1     0   |
|                                                               1     1     1   |
+-------------------------------------------------------------------------------+
"""
PLACEMENTS = """GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  1 Profile ID  5 Placement : {0}:4
"""


def test_how_a_gpu_can_be_divided(tmp_path: Path) -> None:
    rows = read(tmp_path, "lgip.txt", PROFILES)
    found = {(d, s, m): v for m, _, d, s, _, v in rows}
    assert {m: v for (d, s, m), v in found.items() if (d, s) == (0, "MIG 1g.10gb")} == {
        "instances free": 5, "instances": 7, "instance memory": 9.75 * (1 << 30), "SMs": 16,
        "decoders": 1, "encoders": 0, "copy engines": 1, "JPEG decoders": 2,
        "optical flow accelerators": 0,
    }  # fmt: skip
    assert found[1, "MIG 1g.10gb+me", "optical flow accelerators"] == 1
    rows = read(tmp_path, "lgipp.txt", PLACEMENTS)
    assert [(m, d, s, v) for m, _, d, s, _, v in rows] == [
        ("placements", 0, "MIG profile 19", 7), ("memory slices", 0, "MIG profile 19", 1),
        ("placements", 1, "MIG profile 5", 1), ("memory slices", 1, "MIG profile 5", 4),
    ]  # fmt: skip


INSTANCES = """+----------------------------------------------------+
| GPU instances:                                     |
| GPU   Name          Profile  Instance   Placement  |
|                       ID       ID       Start:Size |
|====================================================|
|   0  MIG 3g.20gb       9        1          4:4     |
+----------------------------------------------------+
|   1  MIG 1g.5gb       19       13          6:1     |
+----------------------------------------------------+
"""
COMPUTE = """+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      1       MIG 1c.3g.20gb       0         2          0:1     |
+--------------------------------------------------------------------+
"""


def test_how_a_gpu_is_divided(tmp_path: Path) -> None:
    rows = read(tmp_path, "lgi.txt", INSTANCES)
    assert [(m, d, s, v) for m, _, d, s, _, v in rows] == [
        ("instances made", 0, "MIG 3g.20gb instance 1", 1),
        ("first slot", 0, "MIG 3g.20gb instance 1", 4),
        ("slots", 0, "MIG 3g.20gb instance 1", 4),
        ("instances made", 1, "MIG 1g.5gb instance 13", 1),
        ("first slot", 1, "MIG 1g.5gb instance 13", 6),
        ("slots", 1, "MIG 1g.5gb instance 13", 1),
    ]
    rows = read(tmp_path, "lci.txt", COMPUTE)
    where = "MIG 1c.3g.20gb instance 2 of GPU instance 1"
    assert [(m, d, s, v) for m, _, d, s, _, v in rows] == [
        ("instances made", 0, where, 1), ("first slot", 0, where, 0), ("slots", 0, where, 1),
    ]  # fmt: skip


PMON = """# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0          -     -      -      -      -      -      -      -    -
"""


def test_a_gpu_without_processes_is_no_damaged_log(tmp_path: Path) -> None:
    """An idle GPU has a line without a process: that there are none is what it says."""
    assert read(tmp_path, "idle.txt", PMON) == [("processes", "", 0, None, 0, 0)]
    busy = "    0       1234     C     40     12      -      -      -      -    python \n"
    more = busy.replace("1234", "1235").replace(" 40 ", " 20 ")
    rows = read(tmp_path, "busy.txt", PMON + busy + more)
    processes = [(t, v) for m, _, _, _, t, v in rows if m == "processes"]
    assert processes == [(0, 0), (10**9, 2)]
    shares = {s: v for m, _, _, s, _, v in rows if s is not None and v in (40, 20)}
    assert shares == {"process 1234": 40, "process 1235": 20}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", TABLE[: TABLE.index("|   0  NVIDIA")]),
        ("g.txt", PROFILES[: PROFILES.index("|   0  MIG")]),
        ("p.txt", "GPU  0 Profile ID 19 Placements: none\n"),
    ],
)
def test_outputs_of_nvidia_smi_without_a_number_are_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(InputError):
        read(tmp_path, name, text)


@pytest.mark.parametrize(
    "head", ["#Entity SMACT TENSO\nID\n", "# Entity  SMACT  TENSO\n      Id\n"]
)
def test_dmon_of_older_dcgmi_without_values(tmp_path: Path, head: str) -> None:
    path = tmp_path / "dmon.txt"
    path.write_text(head + "    GPU 0  0.900  N/W\n    GPU 0  0.910  N/W\n")
    counters = sightline.open(str(path)).table("counters")
    assert counters.select("device_id", "value").rows() == [(0, 90.0), (0, 91.0)]


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot",
        "2026/03/01 09:00:01.000, 1, [Unknown Error], [GPU is lost]",
    ],
)
def test_a_lost_gpu_is_no_damaged_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "smi.csv"
    path.write_text(
        "timestamp, index, power.draw [W], utilization.gpu [%]\n"
        f"2026/03/01 09:00:00.000, 0, 100.00 W, 50 %\n{line}\n"
        "2026/03/01 09:00:02.000, 0, 110.00 W, 60 %\n"
    )
    quality = sightline.open(str(path)).table("quality")
    kinds = quality.get_column("kind").to_list()
    assert "device_lost" in kinds
    assert "damaged_lines" not in kinds


def test_a_lost_gpu_is_lost_when_the_line_says(tmp_path: Path) -> None:
    text = (
        "timestamp, index, utilization.gpu [%]\n"
        "2026/11/01 10:00:00.000, 0, 97 %\n"
        "2026/11/01 10:00:01.500, 0, [GPU is lost]\n"
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.\n"
    )
    path = tmp_path / "smi.csv"
    path.write_text(text)
    at = 1_793_527_201_500_000_000
    events = sightline.open(str(path)).table("device_events").select("time_ns", "event").rows()
    assert events == [(at, "device-lost"), (at, "device-lost")]
