"""What rocprofv3 prints at a program's end: a table of all domains, and tables of each."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from support.corpus import CORPUS

HEAD = (
    "| NAME | DOMAIN | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | "
    "MAX (nsec) | STDDEV |\n|-----|-----|-----|-----|-----|-----|-----|-----|-----|\n"
)
KERNELS = (
    "| void add<float>(float*, int) | KERNEL_DISPATCH | 8 | 3000 | 3.750e+02 | {0} | 300 | 500 | "
    "3.0e+01 |\n| operator|(float*) | KERNEL_DISPATCH | 2 | 1000 | 5.0e+02 | {1} | 400 | 600 | "
    "1.0e+01 |\n"
)
CALLS = (
    "| hipMemcpy | HIP_API | 4 | 5000 | 1.25e+03 | 50.000000 | 1000 | 2000 | 1.0e+01 |\n"
    "| MEMORY_COPY_HOST_TO_DEVICE | MEMORY_COPY | 4 | 1000 | 2.5e+02 | 10.000000 | 200 | 300 | 1|\n"
)
ALL = HEAD + KERNELS.format("30.000000", "10.000000") + CALLS
SUMMARY = (
    "what the program printed | with a line\n\nROCPROFV3 KERNEL_DISPATCH SUMMARY:\n\n"
    + HEAD + KERNELS.format("75.000000", "25.000000")
    + "\n\n    ROCPROFV3 SUMMARY:\n\n" + ALL + "\n"
)  # fmt: skip
COLUMNS = ("kind", "layer", "category", "name", "calls", "duration_ns", "shortest_duration_ns",
           "longest_duration_ns")  # fmt: skip


def open_text(folder: Path, text: str) -> sightline.Session:
    path = folder / "summary.txt"
    path.write_text(text)
    return sightline.open(str(path))


def list_notes(run: sightline.Session) -> list[str]:
    return [k for k in run.table("quality")["kind"].to_list() if k != "no_timeline"]


def test_each_row_is_read_once(tmp_path: Path) -> None:
    run = open_text(tmp_path, SUMMARY)
    assert run.table("call_sums").select(COLUMNS).rows() == [
        ("device", None, "kernel", "void add<float>(float*, int)", 8, 3000, 300, 500),
        ("device", None, "kernel", "operator|(float*)", 2, 1000, 400, 600),
        ("host", "runtime", "hip", "hipMemcpy", 4, 5000, 1000, 2000),
        ("device", None, "memcpy", "MEMORY_COPY_HOST_TO_DEVICE", 4, 1000, 200, 300),
    ]
    assert list_notes(run) == []


def test_tables_of_domains_alone(tmp_path: Path) -> None:
    run = open_text(tmp_path, SUMMARY[: SUMMARY.index("    ROCPROFV3 SUMMARY")])
    assert run.table("call_sums")["duration_ns"].to_list() == [3000, 1000]
    assert list_notes(run) == []


def test_numbers_with_commas_and_fewer_columns(tmp_path: Path) -> None:
    """As tutorials print it: no AVERAGE, MIN and MAX."""
    text = (
        "ROCPROFV3 SUMMARY:\n    | NAME | DOMAIN | CALLS | DURATION (nsec) | PERCENT (INC) |\n"
        "    |---|---|---|---|---|\n"
        "    | hipMalloc | HIP_API |     3 |      68,111,763 |     100.000000 |\n"
    )
    run = open_text(tmp_path, text)
    assert run.table("call_sums").select(COLUMNS[3:]).rows() == [
        ("hipMalloc", 3, 68_111_763, None, None)
    ]


def test_two_ranks_in_one_log_are_not_added_up(tmp_path: Path) -> None:
    run = open_text(tmp_path, SUMMARY + SUMMARY.replace(" 8 | 3000", " 9 | 3000"))
    assert run.table("call_sums")["part"].to_list() == [0] * 4 + [1] * 4
    assert run.ask("summed_runs")["kernels"].to_list() == [10, 11]


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (CALLS[: CALLS.index("\n") + 1], "", ["totals_differ"]),  # a row is gone
        ("| 4 | 5000", "| 4 | 5x00", ["damaged_lines", "totals_differ"]),
        ("| HIP_API | 4 |", "| HIP_API |", ["damaged_lines", "totals_differ"]),
        ("| 50.000000 |", "| 5.0000000 |", ["totals_differ"]),
        ("| NAME | DOMAIN | CALLS | DURATION", "| NAME | DOMAIN | CALLS | DURA", ["damaged_lines"]),
    ],
    ids=["row", "digits", "cell", "share", "names"],
)  # fmt: skip
def test_what_is_lost_is_said(tmp_path: Path, old: str, new: str, kinds: list[str]) -> None:
    assert old in SUMMARY
    assert list_notes(open_text(tmp_path, SUMMARY.replace(old, new, 1))) == kinds


def test_a_text_that_is_cut(tmp_path: Path) -> None:
    assert "totals_differ" in list_notes(open_text(tmp_path, SUMMARY[: SUMMARY.index(CALLS)]))


def test_a_heading_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="no table of it has a row"):
        open_text(tmp_path, f"ROCPROFV3 SUMMARY:\n\n{HEAD}")


def test_hips_time_is_not_counted_again_as_hsas(tmp_path: Path) -> None:
    hsa = "| hsa_amd_memory_lock | HSA_API | 4 | 4000 | 1 | 0.000000 | 1 | 4000 | 1 |\n"
    run = open_text(tmp_path, f"ROCPROFV3 SUMMARY:\n\n{ALL}{hsa}")
    assert run.ask("summed_runs")["call_ns"].to_list() == [9000]  # as printed
    found = {f.rule: f for f in run.findings() if not f.abstained}
    # Copies and kernels take 5 µs, the one call of HIP 5: its 4 µs in HSA are not beside them.
    assert found["summed-kernel"].cost.pct == pytest.approx(60.0)


STATS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'


def test_registering_code_is_no_kernel(tmp_path: Path) -> None:
    """rocprofv3's hip_api_stats.csv and kernel_stats.csv have the same columns."""
    path = tmp_path / "hip_api_stats.csv"
    names = ("__hipRegisterFatBinary", "hipFree", "hsa_init", "roctxMark", "ncclAllReduce",
             "hipcub::Reduce(int)", "ncclDevKernel_Generic", "cuApplyLayerNorm",
             "MEMORY_COPY_DEVICE_TO_HOST")  # fmt: skip
    path.write_text(STATS + "".join(f'"{name}",1,50,50.0,10.0,50,50,0.0\n' for name in names))
    sums = sightline.open(str(path)).table("call_sums")
    assert sums.select("kind", "layer", "category").rows() == [
        ("host", "runtime", "hip"), ("host", "runtime", "hip"), ("host", "driver", "hsa"),
        ("host", "annotation", "marker"), ("host", "library", "rccl"), ("device", None, "kernel"),
        ("device", None, "kernel"), ("device", None, "kernel"), ("device", None, "memcpy"),
    ]  # fmt: skip


def test_totals_of_domains_are_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "domain_stats.csv"
    path.write_text(STATS + '"HIP_API",13,458514859,35270373.7,100.00,2300,352276613,9.9\n')
    with pytest.raises(DamagedError, match="totals of whole domains"):
        sightline.open(str(path))


@pytest.mark.corpus
def test_the_table_of_all_domains_has_the_rows_of_each() -> None:
    """AMD's own example, its last table counted and added up with `awk`."""
    run = sightline.open(str(CORPUS / "rocprofv3/ROCm__rocm-systems/summary.txt"))
    sums = run.table("call_sums")
    kernels = sums.filter(category="kernel")
    assert (sums.height, kernels["calls"].sum(), kernels["duration_ns"].sum()) == (59, 32, 453_090)
    assert list_notes(run) == []
