"""likwid-perfctr: text, CSV and timeline as its sources write them (5.2.2, and 4.3 without [])."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline import Session
from sightline.errors import DamagedError
from sightline.formats.hpc import likwid
from support.damage import survive_damage

HEAD = """\
--------------------------------------------------------------------------------
CPU name:\tIntel(R) Xeon(R) Gold 6132 CPU @ 2.60GHz
CPU type:\tIntel Skylake SP processor
CPU clock:\t2.59 GHz
--------------------------------------------------------------------------------
"""
TABLE = f"""{HEAD}hello from the program | that was measured |
--------------------------------------------------------------------------------
Group 1: MEM_DP
+-------------------------------------+---------+------------+------------+
|                Event                | Counter | HWThread 0 | HWThread 1 |
+-------------------------------------+---------+------------+------------+
|          INSTR_RETIRED_ANY          |  FIXC0  | 5305266000 | 4819998000 |
|            PWR_PKG_ENERGY           |   PWR0  |    63.7252 |          0 |
| FP_ARITH_INST_RETIRED_SCALAR_DOUBLE |   PMC1  | 1444643000 | 1406082000 |
|             CAS_COUNT_RD            | MBOX0C0 |    1095178 |          0 |
|             CAS_COUNT_RD            | MBOX1C0 |    1050557 |          0 |
+-------------------------------------+---------+------------+------------+

+------------------------------------------+---------+-------------+-----+
|                   Event                  | Counter |     Sum     | Min |
+------------------------------------------+---------+-------------+-----+
|          INSTR_RETIRED_ANY STAT          |  FIXC0  | 10125264000 |   1 |
+------------------------------------------+---------+-------------+-----+

+----------------------------+------------+------------+
|           Metric           | HWThread 0 | HWThread 1 |
+----------------------------+------------+------------+
|     Runtime (RDTSC) [s]    |     2.5000 |     2.5000 |
|         Clock [MHz]        |  1895.6496 |  1895.3918 |
|             CPI            |     0.5277 |     nan    |
|         Energy [J]         |    63.7252 |          0 |
|        DP [MFLOP/s]        |   706.5689 |          0 |
| Memory bandwidth [MBytes/s]|   631.0914 |          0 |
|Memory data volume [GBytes] |     1.2986 |          0 |
+----------------------------+------------+------------+
"""
REGIONS = """\
STRUCT,Info,3
CPU name:,Intel(R) Core(TM) i5-7500 CPU @ 3.40GHz,
CPU type:,Intel Coffeelake processor,
CPU clock:,3.40797065 GHz,
TABLE,Region solve,Group 1 Raw,FLOPS_DP,2
Region Info,Core 3,
RDTSC Runtime [s],2.000000,
call count,4,
Event,Counter,Core 3
INSTR_RETIRED_ANY,FIXC0,103637
FP_ARITH_INST_RETIRED_SCALAR_DOUBLE,PMC1,32778
TABLE,Region solve,Group 1 Metric,FLOPS_DP,3
Metric,Core 3,
Runtime (RDTSC) [s],2.000000,
DP MFLOP/s,2119.1284,
Vectorization ratio,0,
STRUCT,Info,3
CPU name:,Intel(R) Core(TM) i5-7500 CPU @ 3.40GHz,
CPU type:,Intel Coffeelake processor,
CPU clock:,3.40797065 GHz,
TABLE,Region write,Group 1 Raw,FLOPS_DP,1
Region Info,Core 3,
RDTSC Runtime [s],0.500000,
call count,1,
Event,Counter,Core 3
INSTR_RETIRED_ANY,FIXC0,5
TABLE,Region write,Group 1 Metric,FLOPS_DP,1
Metric,Core 3,
DP MFLOP/s,0,
"""
TIMELINE = f"""{HEAD}# HWThreads: 0|2
# GID|MetricsCount|CpuCount|Total runtime [s]|Clock [MHz]|Memory bandwidth [MBytes/s]
# GID|MetricsCount|CpuCount|Total runtime [s]|SP [MFLOP/s]
1 2 2 1.0000808731566 2668.5 2669.5 100.5 0
3 iterations 2 left
2 1 2 2.0001153182593 7.5 8.5
1 2 2 3.0001 2668.5 2669.5 0 0
"""
# AMD's counters of memory have another owner here: likwid writes a dash, and computes 0 of it.
UNCOUNTED = """\
Group 1: MEM
+------------------------------+---------+--------------+
|             Event            | Counter |    Core 46   |
+------------------------------+---------+--------------+
|         MAX_CPU_CLOCK        |  FIXC2  | 243724224400 |
|     RETIRED_INSTRUCTIONS     |   PMC0  |       -      |
| DATA_FROM_LOCAL_DRAM_CHANNEL |   DFC0  |       -      |
+------------------------------+---------+--------------+

+-----------------------------------+-----------+
|               Metric              |  Core 46  |
+-----------------------------------+-----------+
|        Runtime (RDTSC) [s]        |  123.2610 |
|                CPI                |    inf    |
|    Memory bandwidth [MBytes/s]    |         0 |
+-----------------------------------+-----------+
"""
FILES = {"table": TABLE, "regions": REGIONS, "timeline": TIMELINE, "uncounted": UNCOUNTED}


def open_text(folder: Path, text: str) -> Session:
    path = folder / "likwid.txt"
    path.write_text(text)
    return sightline.open(str(path))


def list_values(run: Session, *metrics: str) -> list[Any]:
    rows = run.table("counters").select("metric", "unit", "source", "from_ns", "time_ns", "value")
    return [row for row in rows.rows() if not metrics or row[0] in metrics]


def list_notes(run: Session) -> dict[str, int | None]:
    return dict(run.table("quality").select("kind", "count").iter_rows())


def test_metrics_by_thread_have_the_names_of_a_watched_node(tmp_path: Path) -> None:
    run = open_text(tmp_path, TABLE)
    at = (0, 2_500_000_000)
    assert list_values(run, "FLOP rate, double precision", "memory bandwidth", "CPI") == [
        ("CPI", "", "CPU 0", *at, 0.5277),
        ("FLOP rate, double precision", "flop/s", "CPU 0", *at, 706.5689e6),
        ("memory bandwidth", "bytes/s", "CPU 0", *at, 631.0914e6),
        ("FLOP rate, double precision", "flop/s", "CPU 1", *at, 0.0),
    ]
    assert list_values(run, "CAS_COUNT_RD:MBOX0C0", "package energy", "Memory data volume") == [
        ("CAS_COUNT_RD:MBOX0C0", "", "CPU 0", *at, 1095178.0),
        ("package energy", "J", "CPU 0", *at, 63.7252),
        ("Memory data volume", "bytes", "CPU 0", *at, 1.2986e9),
        ("CAS_COUNT_RD:MBOX0C0", "", "CPU 1", *at, 0.0),
    ]
    assert not [row for row in list_values(run) if "STAT" in row[0]]
    assert list_notes(run) == {"times_missing": None}


def test_regions_of_csv_lie_one_after_the_other(tmp_path: Path) -> None:
    run = open_text(tmp_path, REGIONS)
    assert run.table("host_ops").select("name", "start_ns", "end_ns").rows() == [
        ("solve", 0, 2_000_000_000),
        ("write", 2_000_000_000, 2_500_000_000),
    ]
    assert list_values(run, "FLOP rate, double precision") == [
        ("FLOP rate, double precision", "flop/s", "CPU 3", 0, 2_000_000_000, 2119.1284e6),
        ("FLOP rate, double precision", "flop/s", "CPU 3", 2_000_000_000, 2_500_000_000, 0.0),
    ]
    assert list_notes(run) == {"times_missing": None}


def test_the_same_regions_again_are_the_next_runs(tmp_path: Path) -> None:
    run = open_text(tmp_path, REGIONS * 2)
    assert run.table("host_ops").get_column("end_ns").to_list()[-1] == 5_000_000_000
    again = open_text(tmp_path, TABLE * 2)
    assert [row[3:5] for row in list_values(again, "memory bandwidth")] == [
        (0, 2_500_000_000),
        (2_500_000_000, 5_000_000_000),
    ]


def test_a_timeline_of_groups_in_turn(tmp_path: Path) -> None:
    run = open_text(tmp_path, TIMELINE)
    first, second, third = 1_000_080_873, 2_000_115_318, 3_000_100_000
    assert list_values(run, "memory bandwidth", "FLOP rate, single precision") == [
        ("memory bandwidth", "bytes/s", "CPU 0", 0, first, 100.5e6),
        ("FLOP rate, single precision", "flop/s", "CPU 0", first, second, 7.5e6),
        ("FLOP rate, single precision", "flop/s", "CPU 2", first, second, 8.5e6),
        ("memory bandwidth", "bytes/s", "CPU 0", second, third, 0.0),
        ("memory bandwidth", "bytes/s", "CPU 2", second, third, 0.0),
    ]
    assert list_notes(run) == {"times_relative": None}


def test_a_timeline_with_commas_behind_what_the_program_wrote(tmp_path: Path) -> None:
    text = TIMELINE.replace("2 1 2 2.0001153182593 7.5 8.5", "left: 2 1 2 2.0001153182593 7.5 8.5")
    text = text.replace("1 2 2 3.0001 2668.5 2669.5 0 0", "1,2,2,3.0001,2668.5,2669.5,0,0")
    assert list_values(open_text(tmp_path, text)) == list_values(open_text(tmp_path, TIMELINE))


def test_what_was_not_counted_is_no_zero(tmp_path: Path) -> None:
    run = open_text(tmp_path, UNCOUNTED)
    assert [row[0] for row in list_values(run)] == ["MAX_CPU_CLOCK:FIXC2", "Runtime (RDTSC)"]
    assert list_notes(run)["uncounted_events"] == 1


def test_a_rule_of_jobs_reads_it_by_the_names_of_clusters(tmp_path: Path) -> None:
    rule = {
        "tag": "low_flops",
        "metrics": ["flops_dp", "mem_bw"],
        "rule": "flops_dp.max < 1 and mem_bw.max > 0.5",  # GF/s and GB/s
    }
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    run = open_text(tmp_path, TABLE)
    told = [f.rule for f in run.findings(rules=[str(tmp_path / "rule.json")]) if not f.abstained]
    assert "low-flops" in told


@pytest.mark.parametrize(
    ("text", "there", "then"),
    [
        (TABLE, "|   706.5689 |          0 |", "|   706.5689 "),
        (TABLE, "| HWThread 0 | HWThread 1 |\n+----------------------------+", "| HWThread 0 |\n+"),
        (TABLE, "|           Metric           | HWThread 0 | HWThread 1 |", "|      "),
        (TABLE, "5305266000", "53o5266000"),
        (REGIONS, "INSTR_RETIRED_ANY,FIXC0,5\n", ""),
        (REGIONS, "FIXC0,103637", "FIXC0"),
        (TIMELINE, "1 2 2 3.0001 2668.5 2669.5 0 0", "1 2 2 3.0001 2668.5"),
        (TIMELINE, "2 1 2 2.0001153182593 7.5", "2 1 2 2.0001153182593 7x5"),
    ],
)
def test_losses_are_said(tmp_path: Path, text: str, there: str, then: str) -> None:
    assert there in text
    notes = list_notes(open_text(tmp_path, text.replace(there, then, 1)))
    assert notes.get("damaged_lines") or notes.get("damaged_values"), notes


def test_tables_without_values_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no counter of it has a value"):
        open_text(tmp_path, "Group 1: MEM\n+--+\n|  Metric | HWThread 0 |\n+--+\n")


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_damage(tmp_path: Path, text: str) -> None:
    survive_damage(likwid.read, tmp_path / "damaged.txt", text)
