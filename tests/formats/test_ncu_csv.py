"""`ncu --csv`: raw and details pages, wide and long, into the same tables and units."""

from __future__ import annotations

import csv
import io

import pytest

import sightline
from sightline.errors import DamagedError
from sightline.formats.nvidia._ncu_pages.units import parse_number, parse_unit, parse_value

HEAD = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]
LONG = [
    *HEAD,
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
]


def kernel(n=0, name="void k<(int)4>(float *)"):
    return [
        str(n),
        "7",
        "a.out",
        "secret",
        name,
        "1",
        "7",
        "(256, 1, 1)",
        "(1,196, 1, 1)".replace(",196", "96"),
        "0",
        "8.6",
    ]


def opened(tmp_path, rows, before="==PROF== Connected to process 7\n"):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    path = tmp_path / "k.ncu.csv"
    path.write_text(before + out.getvalue())
    return sightline.open(str(path))


def metrics(run) -> dict[str, tuple[str | None, float]]:
    frame = run.table("kernel_metrics").filter(kernel_id=0)
    return {m: (u, v) for m, u, v in frame.select("metric", "unit", "value").rows()}


def test_the_details_page(tmp_path):
    def said(section, name, unit, value):
        return [*kernel(), section, name, unit, value, "", "", "", "", ""]

    light = "GPU Speed Of Light Throughput"
    run = opened(
        tmp_path,
        [
            LONG,
            said(light, "Duration", "usecond", "3.23"),
            said(light, "SM Frequency", "cycle/nsecond", "1.34"),
            said(light, "Memory Throughput", "%", "31.28"),
            said(light, "Compute (SM) Throughput", "%", "5.94"),
            said("Launch Statistics", "Threads", "thread", "50,176"),
            said("Launch Statistics", "Driver Shared Memory Per Block", "Kbyte/block", "1.02"),
            said("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "137.29"),
            said("Occupancy", "Achieved Occupancy", "%", "n/a"),
            [*kernel(), light, "", "", "", "SOLBottleneck", "OPT", "small grid", "global", "28.99"],
        ],
    )
    assert metrics(run) == {
        "gpu__time_duration.sum": ("ns", 3230),
        "gpc__cycles_elapsed.avg.per_second": ("1/s", 1.34e9),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", 31.28),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 5.94),
        "launch__thread_count": ("threads", 50_176),
        "launch__shared_mem_per_block_driver": ("bytes", 1020),
        "dram__bytes.sum.per_second": ("bytes/s", 137.29e9),
    }
    row = run.table("profiled_kernels").to_dicts()[0]
    assert (row["duration_ns"], row["block_x"], row["grid_x"]) == (3230, 256, 196)
    rule = run.table("vendor_rules").to_dicts()[0]
    assert (rule["rule"], rule["severity"], rule["speedup_pct"]) == (
        "SOLBottleneck",
        "optimization",
        28.99,
    )
    assert run.ask("speed_of_light")["verdict"].to_list() == ["latency"]
    assert run.table("recordings")["host"].to_list() == [None]


def test_the_raw_page(tmp_path):
    names = [
        "gpu__time_duration.sum",
        "launch__registers_per_thread",
        "dram__bytes.sum",
        "device__attribute_multiprocessor_count",
        "launch__func_cache_config",
    ]
    run = opened(
        tmp_path,
        [
            [*HEAD, *names],
            [""] * len(HEAD) + ["msecond", "register/thread", "Mbyte", "", ""],
            [*kernel(0), "1,234.5", "40", "2.5", "80", "CachePreferNone"],
            [*kernel(1), "0.5", "40", "2.5", "80", "CachePreferNone"],
        ],
    )
    rows = run.table("profiled_kernels")
    assert rows["duration_ns"].to_list() == [1_234_500_000, 500_000]
    assert rows["occurrence"].to_list() == [0, 1]
    assert metrics(run)["dram__bytes.sum"] == ("bytes", 2_500_000)
    device = run.table("devices").to_dicts()[0]
    assert (device["sm_count"], device["compute_capability"]) == (80, "8.6")
    assert (
        run.table("kernel_metrics").filter(metric=names[4])["text"].to_list()[0]
        == "CachePreferNone"
    )


def test_metrics_by_name_in_a_long_table(tmp_path):
    rows = [
        [
            *kernel(),
            "Command line profiler metrics",
            "sm__cycles_active.avg",
            "cycle",
            "5",
            *[""] * 5,
        ]
    ]
    assert metrics(opened(tmp_path, [LONG, *rows], before="")) == {
        "sm__cycles_active.avg": ("cycles", 5)
    }


@pytest.mark.parametrize(
    ("text", "unit", "factor"),
    [
        ("nsecond", "ns", 1),
        ("usecond", "ns", 1e3),
        ("ms", "ns", 1e6),
        ("second", "ns", 1e9),
        ("Ghz", "1/s", 1e9),
        ("hz", "1/s", 1),
        ("cycle/nsecond", "1/s", 1e9),
        ("cycle/usecond", "1/s", 1e6),
        ("Kbyte/block", "bytes", 1e3),
        ("byte/block", "bytes", 1),
        ("Gbyte/second", "bytes/s", 1e9),
        ("Tbyte/s", "bytes/s", 1e12),
        ("%", "%", 1),
        ("inst", "inst", 1),
        ("inst/cycle", "inst/cycle", 1),
        ("register/thread", "registers/thread", 1),
        ("Mbyte", "bytes", 1e6),
        ("", None, 1),
        ("warp", "warps", 1),
        ("sector/ns", "sectors/s", 1e9),
    ],
)
def test_units(text, unit, factor):
    assert parse_unit(text) == (unit, pytest.approx(factor))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234,567", 1_234_567),
        ("12.50", 12.5),
        ("-3", -3),
        ("1e3", 1000.0),
        ("12,34", None),
        ("n/a", None),
        ("", None),
        (".5", 0.5),
        ("1.2.3", None),
    ],
)
def test_numbers(text, number):
    assert parse_number(text) == number


def test_instances_behind_the_value():
    assert parse_value("6 (HMMA: 4; IMAD: 2)", 1.0) == (6, [("HMMA", 4), ("IMAD", 2)])
    assert parse_value("6 (1; 2; 3)", 1.0) == (6, [(0, 1), (1, 2), (2, 3)])
    assert parse_value("Cache (none)", 1.0) == ("Cache (none)", [])


def test_broken_rows_are_counted(tmp_path):
    run = opened(
        tmp_path,
        [[*HEAD, "gpu__time_duration.sum"], [""] * 11 + ["ns"], [*kernel(), "5"], kernel(1)],
    )
    assert run.rows("profiled_kernels") == 1
    assert "damaged_parts" in run.table("quality")["kind"].to_list()


def test_a_table_without_kernels_is_damage(tmp_path):
    with pytest.raises(DamagedError, match="no kernels"):
        opened(tmp_path, [LONG])


def test_numbers_that_no_column_holds_are_missing(tmp_path):
    metric = ["Speed Of Light", "Duration", "us", str(2**63), "", "", "", "", ""]
    run = opened(tmp_path, [LONG, [*kernel(), *metric]])
    assert run.table("profiled_kernels").get_column("duration_ns").to_list() == [None]


SOURCE_PAGE = (
    '"Kernel Name","scale(float *)",\n'
    '"Address","Source","# Samples","Instructions Executed","L2 Theoretical Sectors Global",'
    '"L2 Theoretical Sectors Global Ideal","stall_long_sb","stall_selected",'
    '"stall_long_sb (Not Issued)"\n'
    '"0x7f0000001000","      LDG.E R7, desc[UR4][R6.64]","0","8","100","40","0","0","0"\n'
    '"0x7f0000001010","  @P0 FADD R7, R7, 1","9","8","0","0","7","2","6"\n'
    '"0x7f0000001020","      EXIT","0","8"\n'
)


def test_the_source_page(tmp_path):
    path = tmp_path / "k.source.csv"
    path.write_text(SOURCE_PAGE)
    run = sightline.open(str(path))
    assert run.table("profiled_kernels").get_column("name").to_list() == ["scale(float *)"]
    samples = run.table("pc_samples").select(
        "offset", "opcode", "reason", "stall_class", "samples", "latency_samples"
    )
    assert samples.rows() == [
        (16, "FADD", "long_scoreboard", "memory wait", 7, 6),
        (16, "FADD", "selected", "issuing", 2, None),
    ]
    code = run.table("instructions").select("address", "offset", "opcode").rows()
    assert code == [(0x7F0000001000, 0, "LDG"), (0x7F0000001010, 16, "FADD")]
    assert metrics(run)["inst_executed"][1] == 16
    assert "damaged_parts" in run.table("quality").get_column("kind").to_list()
    found = [f for f in sightline.findings(run) if f.rule == "ncu-uncoalesced-global"]
    assert "60.0 % of the sectors are excessive" in found[0].summary
    assert "most by LDG at byte 0" in found[0].summary


def test_rows_that_end_behind_the_value(tmp_path):
    """Versions with rules in the table leave the rules' empty cells out of a metric's row."""
    row = [*kernel(), "Launch Statistics", "Registers Per Thread", "register/thread", "255"]
    run = opened(tmp_path, [LONG, [*row, ""]])
    assert metrics(run)["launch__registers_per_thread"][1] == 255
    assert "damaged_parts" not in run.table("quality").get_column("kind").to_list()


def test_sms_and_blocks_are_those_that_the_launch_metrics_tell(tmp_path):
    """A table without sizes and device: 40 blocks in 0.25 waves of 2 blocks an SM are 80 SMs.

    The number is taken from the launch with most waves, whose two decimals say most: 4,100 blocks
    in 25.62 waves are 80.01 SMs; 0.26 waves alone would be 77, and are not taken.
    """
    from sightline.roofline.facts import load_facts
    from sightline.roofline.launch import count_blocks, count_threads

    limits = {f"launch__occupancy_limit_{what}": "2" for what in ("registers", "warps")}
    limits |= {f"launch__occupancy_limit_{what}": "16" for what in ("blocks", "shared_mem")}

    def launch(n: int, blocks: int, waves: str) -> list[list[str]]:
        values = {"launch__grid_size": str(blocks), "launch__waves_per_multiprocessor": waves}
        values |= limits | {"launch__block_size": "128"}
        start = [*kernel(n)[:7], *[""] * 4]
        return [[*start, "Launch", k, "", v, "", "", "", "", ""] for k, v in values.items()]

    run = opened(tmp_path, [LONG, *launch(0, 40, "0.25"), *launch(1, 4100, "25.62")])
    small, large = load_facts(run, [])
    assert (small.device["sm_count"], large.device["sm_count"]) == (80, 80)
    assert (count_blocks(small), count_threads(small), count_blocks(large)) == (40, 128, 4100)
    (tmp_path / "one").mkdir()
    (alone,) = load_facts(opened(tmp_path / "one", [LONG, *launch(0, 40, "0.26")]), [])
    assert alone.device.get("sm_count") is None


def test_metrics_of_pascal_by_their_older_names(tmp_path):
    """The raw page of Nsight Compute 2019: units as ever, and what is no number stays unknown."""
    header = [*HEAD, "gpu__time_duration", "sm__sol_pct", "gpu__compute_memory_sol_pct"]
    run = opened(tmp_path, [header, [""] * len(HEAD) + ["us", "%", "%"],
                            [*kernel(), "1.5", "nan", "3.08"]])  # fmt: skip
    assert run.table("profiled_kernels")["duration_ns"].to_list() == [1_500]
    named = dict(run.table("kernel_metrics").select("metric", "value").rows())
    assert named["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"] == 3.08
    assert "sm__throughput.avg.pct_of_peak_sustained_elapsed" not in named
