"""What unitrace prints at a program's end: calls, device work and how kernels were built."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import sightline
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.errors import DamagedError
from support.corpus import list_recordings, name_recording
from support.differences import STATED_SUMS, compare_figures

SUMMARY = """what the program itself printed, with, commas

=== API Timing Summary ===

             Total Execution Time (ns):              9000000
    Total API Time for L0 backend (ns):              1500000
Total API Time for CL GPU backend (ns):                   40

== L0 Backend ==

                     Function,        Calls,            Time (ns),      Time (%),         Average (ns),             Min (ns),             Max (ns)
               zeModuleCreate,            2,              1400000,     93.333333,               700000,               100000,              1300000
zeCommandListAppendMemoryCopy,            4,               100000,      6.666667,                25000,                10000,                60000

== CL GPU Backend ==

       Function,       Calls,           Time (ns),    Time (%),        Average (ns),            Min (ns),            Max (ns)
clGetDeviceInfo,           2,                  40,      100.00,                  20,                  20,                  20

=== Device Timing Summary ===

                Total Execution Time (ns):              9000000
    Total Device Time for L0 backend (ns):              2150000

== L0 Backend ==

                                   Kernel,        Calls,            Time (ns),     Time (%),         Average (ns),             Min (ns),             Max (ns)
"scale(float*, int)[SIMD16 {20; 1; 1} {64; 8; 1}]",        2,              1000000,    46.511628,               500000,               400000,               600000
"scale(float*, int)[SIMD16 {40; 1; 1} {64; 8; 1}]",        1,               900000,    41.860465,               900000,               900000,               900000
"zeCommandListAppendMemoryCopy(M2D)[4096]",            3,               150000,     6.976744,                50000,                40000,                60000
"zeCommandListAppendMemoryFill(D)",            1,                50000,     2.325581,                50000,                50000,                50000
"zeCommandListAppendBarrier",            2,                50000,     2.325581,                25000,                20000,                30000


=== Kernel Properties ===

                                   Kernel, Compiled, SIMD, Number of Arguments, SLM Per Work Group, Private Memory Per Thread, Spill Memory Per Thread, Register File Size Per Thread
"scale(float*, int)[SIMD16 {20; 1; 1} {64; 8; 1}]",      JIT,   16,                   2,                  64,                         0,                     512,                           128
"scale(float*, int)[SIMD16 {40; 1; 1} {64; 8; 1}]",      AOT,  ANY,                   2,                  0,                        256,                       0,                       unknown
"""  # noqa: E501
# pti-gpu, tools/cl_tracer and ze_tracer, README.md: what was before unitrace.
OLDER = """=== Device Timing Results: ===

Total Execution Time (ns): 387907073
Total Device Time for CPU (ns): 0
Total Device Time for GPU (ns): 175106295

== GPU Backend: ==

              Kernel,       Calls, SIMD, Transferred (bytes),           Time (ns),  Time (%),        Average (ns),            Min (ns),            Max (ns)
                GEMM,           4,   32,                   0,           172514582,     98.52,            43128645,            42925833,            43291333
 clEnqueueReadBuffer,           4,    0,            16777216,             1353048,      0.77,              338262,              323979,              367465
clEnqueueWriteBuffer,           8,    0,            33554432,             1238665,      0.71,              154833,              125833,              232500
"""  # noqa: E501
COLUMNS = ("kind", "layer", "category", "name", "calls", "duration_ns", "shortest_duration_ns",
           "longest_duration_ns", "bytes")  # fmt: skip
BUILT = ("built", "simd_width", "registers_per_thread", "shared_bytes", "private_bytes_per_thread",
         "spilled_bytes_per_thread")  # fmt: skip


def open_text(folder: Path, text: str) -> sightline.Session:
    path = folder / "unitrace.txt"
    path.write_text(text)
    return sightline.open(str(path))


def count_damaged(run: sightline.Session) -> list[int]:
    """How many lines could not be read, where some could not; and 1 for each total that differs."""
    notes = run.table("quality").select("kind", "count").rows()
    return [n or 1 for kind, n in notes if kind in ("damaged_lines", "totals_differ")]


def test_all_tables(tmp_path: Path) -> None:
    run = open_text(tmp_path, SUMMARY)
    copy, fill = "zeCommandListAppendMemoryCopy(M2D)", "zeCommandListAppendMemoryFill(D)"
    wide, wider = (f"scale(float*, int)[SIMD16 {{{n}; 1; 1}} {{64; 8; 1}}]" for n in (20, 40))
    sums = run.table("call_sums")
    assert sums.select(COLUMNS).rows() == [
        ("host", "driver", "ze", "zeModuleCreate", 2, 1_400_000, 100_000, 1_300_000, None),
        ("host", "driver", "ze", copy[:-5], 4, 100_000, 10_000, 60_000, None),
        ("host", "driver", "opencl", "clGetDeviceInfo", 2, 40, 20, 20, None),
        ("device", None, "kernel", wide, 2, 1_000_000, 400_000, 600_000, None),
        ("device", None, "kernel", wider, 1, 900_000, 900_000, 900_000, None),
        ("device", None, "memcpy", copy, 3, 150_000, 40_000, 60_000, 3 * 4096),
        ("device", None, "memset", fill, 1, 50_000, 50_000, 50_000, None),
        ("device", None, None, "zeCommandListAppendBarrier", 2, 50_000, 20_000, 30_000, None),
    ]
    assert sums.filter(category="kernel").select(BUILT).rows() == [
        ("JIT", 16, 128, 64, 0, 512), ("AOT", None, None, 0, 256, 0),
    ]  # fmt: skip
    assert run.table("recordings").select("start_ns", "end_ns").row(0) == (0, 9_000_000)
    assert count_damaged(run) == []


def test_the_tools_before_unitrace(tmp_path: Path) -> None:
    run = open_text(tmp_path, OLDER)
    assert run.table("call_sums").select("category", "name", "calls", "bytes").rows() == [
        ("kernel", "GEMM", 4, None),
        ("memcpy", "clEnqueueReadBuffer", 4, 16_777_216),
        ("memcpy", "clEnqueueWriteBuffer", 8, 33_554_432),
    ]
    assert run.table("call_sums")["simd_width"].to_list() == [32, None, None]
    assert count_damaged(run) == []


def test_submission_alone_says_how_long_kernels_ran(tmp_path: Path) -> None:
    text = """=== Kernel Submission Summary ===

Total Execution Time (ns): 900
Total Device Time for L0 backend (ns): 70

== L0 Backend ==

Kernel, Calls, Append (ns), Append (%), Submit (ns), Submit (%), Execute (ns), Execute (%)
"a", 2, 30, 60.0, 20, 40.0, 70, 100.0
"""
    run = open_text(tmp_path, text)
    assert run.table("call_sums").select("name", "calls", "duration_ns").rows() == [("a", 2, 70)]
    assert "submission_times_left_out" in run.table("quality")["kind"].to_list()
    assert count_damaged(run) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("           100000,      6.666667", "           x00000,      6.666667"),  # a time
        ("zeModuleCreate,            2,", "zeModuleCreate,"),  # a cell less
        ("zeModuleCreate,            2,              1400000", "zeModuleCreate,            2,  140"),  # noqa: E501
        ("    Total API Time for L0 backend (ns):              1500000", "    Total API Time for L0 backend (ns):      x"),  # noqa: E501
        ('"zeCommandListAppendBarrier",            2,                50000,     2.325581,                25000,                20000,                30000\n', ""),  # noqa: E501
        ("       Function,       Calls,           Time (ns)", "       Fun\0tion,       Calls,  "),
    ],
    ids=["time", "cell", "digits", "total", "row", "names"],
)  # fmt: skip
def test_what_is_lost_is_counted(tmp_path: Path, old: str, new: str) -> None:
    """A backend's total stands above its table, so a row that is gone, or another time, is seen."""
    assert old in SUMMARY
    assert count_damaged(open_text(tmp_path, SUMMARY.replace(old, new, 1)))


def test_a_text_that_ends_in_the_middle(tmp_path: Path) -> None:
    cut = SUMMARY[: SUMMARY.index('"zeCommandListAppendMemoryFill')]
    assert count_damaged(open_text(tmp_path, cut)) == [1]


def test_two_runs_in_one_text_are_not_added_up(tmp_path: Path) -> None:
    run = open_text(tmp_path, OLDER + "the next run\n" + OLDER.replace("4,   32", "5,   32"))
    assert run.table("call_sums")["part"].to_list() == [0, 0, 0, 1, 1, 1]
    assert run.ask("summed_runs")["kernels"].to_list() == [4, 5]


@pytest.mark.parametrize("text", ["", "\n== L0 Backend ==\n\nKernel, Calls, Time (ns)\n"])
def test_a_summary_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    """unitrace writes no table where no kernel was done when it looked."""
    head = "\n=== Device Timing Summary ===\n\n  Total Execution Time (ns):  1008344251\n"
    with pytest.raises(DamagedError, match="no table of it has a row"):
        open_text(tmp_path, head + text)


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "\u0663", "\u00b2", "-1", "*", ""])
def test_numbers_that_no_column_holds(tmp_path: Path, number: str) -> None:
    text = SUMMARY.replace(" 1000000,    46", f" {number},    46")
    run = open_text(tmp_path, text)
    assert run.table("call_sums").height == 7
    assert count_damaged(run) == [1, 1]  # the row, and the total that it is missing from


def test_a_log_of_metrics_or_a_timeline_keeps_its_reader(tmp_path: Path) -> None:
    line = 'Thread 5 Device 0 : "scale" [ns] 1 (append) 2 (submit) 10 (start) 20 (end)\n'
    run = open_text(tmp_path, line + SUMMARY)
    assert run.table("device_ops")["name"].to_list() == ["scale"]


def test_what_is_said_of_it(tmp_path: Path) -> None:
    """The program's time is the tool's; a kernel that spills is told so; nothing of NVIDIA's."""
    run = open_text(tmp_path, SUMMARY.replace("9000000", "4000000"))
    found = {f.rule: f for f in run.findings() if not f.abstained}
    kernel = found["summed-kernel"]
    assert "512 B of each thread are in memory, not in its 128 registers" in str(kernel.evidence)
    assert "-ze-opt-large-register-file" in str(kernel.fix)
    assert "summed-idle" not in found  # at most 2.1 of 4 ms
    run = open_text(tmp_path, SUMMARY)
    idle = run.answer().findings[0]
    assert idle["rule"] == "summed-idle"
    assert "2.100 ms" in idle["summary"]
    assert "23.3 %" in idle["summary"]
    assert idle["cost_ns"] == 9_000_000 - 2_100_000
    assert "JIT" in str(idle["evidence"])
    said = str([(f.fix, f.reason, f.evidence) for f in run.findings()])
    for word in ("nsys", "ncu ", "cuda", "cuBLAS"):
        assert word not in said


SUMMARIES = [p for p in list_recordings("intel_unitrace/**/*.txt") if p.stem in ("d", "h")]


def _list_rows(text: str) -> list[tuple[str, int, int]]:
    """Name, calls and ns of each row, found in another way than the reader's."""
    pattern = re.compile(r'^\s*"?(\S.*?)"?, +(\d+), +(\d+), +\d+\.\d+, +\d+, +\d+, +\d+\s*$', re.M)
    return [(name, int(calls), int(ns)) for name, calls, ns in pattern.findall(text)]


@pytest.mark.corpus
@pytest.mark.parametrize("path", SUMMARIES, ids=name_recording)
def test_every_summary_of_intels_tests(path: Path) -> None:
    """As many rows, calls and ns as a pattern finds, and each backend's total is its rows' sum."""
    text = path.read_text()
    theirs = _list_rows(text)
    if not theirs:
        assert "*" in text  # a form for comparisons, whose times are stars
        with pytest.raises(DamagedError, match="no table of it has a row"):
            sightline.open(str(path))
        return
    run = sightline.open(str(path))
    sums = run.table("call_sums")
    stated = sum(int(n) for n in re.findall(r"(?:API|Device) Time for .*: +(\d+)$", text, re.M))
    ours = (sums.height, sums["calls"].sum(), sums["duration_ns"].sum(), sums["duration_ns"].sum())
    rows = (len(theirs), sum(r[1] for r in theirs), sum(r[2] for r in theirs), stated)
    compare_figures(path, STATED_SUMS, ours, rows)
    assert count_damaged(run) == ([] if ours == rows else [1])
    for finding in run.findings():
        assert not re.search(r"CUDA|nsys|ncu|nvidia", str(finding.fix), re.IGNORECASE)


def _name_function(kernel: str) -> str:
    """A kernel's label without its line, which moved from one recording to the next."""
    return shorten_kernel_name(kernel).partition(" line ")[0]


@pytest.mark.corpus
@pytest.mark.parametrize("path", [p for p in SUMMARIES if p.stem == "d"], ids=name_recording)
def test_summary_and_timeline_of_one_program_have_the_same_kernels(path: Path) -> None:
    """Two runs of each of Intel's programs were recorded: their kernels and launches are alike."""
    timeline = path.with_name("t.txt")
    if not timeline.exists() or "*" in path.read_text() + timeline.read_text():
        pytest.skip("not recorded both ways")
    if "temporal" in path.parts or "conditional_trace" in path.parts:
        pytest.skip("these switch the tool on and off as they run")
    ops = sightline.open(str(timeline)).table("device_ops").filter(kind="kernel")
    launches = Counter(map(_name_function, ops["name"].to_list()))
    sums = sightline.open(str(path)).table("call_sums").filter(category="kernel")
    summed = Counter({_name_function(n): c for n, c in sums.select("name", "calls").rows()})
    compare_figures(path, "launches by kernel", sorted(summed.items()), sorted(launches.items()))
