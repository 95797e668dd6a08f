"""What nsys and nvprof print: each version's form restated by hand, wherever it is pasted."""

# ruff: noqa: E501, W291

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import SightlineError

# `nsys profile --stats=true`, 2023 to 2025.
NEW = """\
Generating '/tmp/nsys-report-1a2b.qdstrm'
[1/8] [========================100%] report1.nsys-rep
[2/8] [========================100%] report1.sqlite
[3/8] Executing 'nvtx_sum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)   Style     Range   
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -------  ----------
    100.0        9,000,000          3       3e6       3e6   3000000   3000000          0.0  PushPop  lib:step x

[4/8] Executing 'osrt_sum' stats report

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
    100.0    1,000,000,000         10  1.0       1.0              5         6          0.0  poll

[5/8] Executing 'cuda_api_sum' stats report

 Time (%)  Total Time (ns)  Num Calls   Avg (ns)   Med (ns)  Min (ns)   Max (ns)   StdDev (ns)        Name       
 --------  ---------------  ---------  ----------  --------  --------  ----------  -----------  -----------------
     90.0      100,000,000          2  50,000,000    50,000    10,000  99,990,000          1.0  cudaMalloc       
     10.0        1,500,000        300     5,000.0   5,000.0     4,000       9,000          1.0  cudaLaunchKernel 

[6/8] Executing 'cuda_gpu_kern_sum' stats report

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)             Name            
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ---------------------------
     80.0        8,000,000        200  40,000.0  40,000.0    39,000    41,000          1.0  void mul<(int)8>(float *, i…
     20.0        2,000,000        100  20,000.0  20,000.0    19,000    21,000          1.0  add(float *)               

[7/8] Executing 'cuda_gpu_mem_time_sum' stats report

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)           Operation          
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ----------------------------
     75.0        6,000,000      4   1.5e6       1.5e6   1500000   1500000          0.0  [CUDA memcpy Host-to-Device]
     25.0        2,000,000      2   1.0e6       1.0e6   1000000   1000000          0.0  [CUDA memset]               

[8/8] Executing 'cuda_gpu_mem_size_sum' stats report

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)           Operation          
 ----------  -----  --------  --------  --------  --------  -----------  ----------------------------
     60.500      4    15.125    15.125    15.125    15.125        0.000  [CUDA memcpy Host-to-Device]
  1,024.000      2   512.000   512.000   512.000   512.000        0.000  [CUDA memset]               

Generated:
    /home/someone/report1.nsys-rep
"""
# `nsys profile --stats=true`, 2019 to 2021: no reports' names, other columns, sizes in KiB.
OLD = """\
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls    Average     Minimum    Maximum        Name      
 -------  ---------------  ---------  -----------  ---------  ---------  ---------------
    99.0        200000000          1  200000000.0  200000000  200000000  cudaMallocAsync



CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum       Name      
 -------  ---------------  ---------  -------  -------  -------  ---------------
   100.0          3000000         30   1000.0      900     1100  scale(int, int)



CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Operations  Average  Minimum  Maximum      Operation     
 -------  ---------------  ----------  -------  -------  -------  ------------------
   100.0           500000           5   1000.0      900     1100  [CUDA memcpy DtoH]



CUDA Memory Operation Statistics (by size in KiB):

   Total    Operations  Average  Minimum  Maximum      Operation     
 ---------  ----------  -------  -------  -------  ------------------
     2.500           5    0.500    0.500    0.500  [CUDA memcpy DtoH]



Operating System Runtime API Statistics:

 Time(%)  Total Time (ns)  Num Calls  Average  Minimum  Maximum  Name 
 -------  ---------------  ---------  -------  -------  -------  -----
   100.0             7000          7   1000.0      900     1100  ioctl
"""
# 2019 and 2020.1: the unit stands in the title, and copies have the columns of calls.
OLDEST = """\
CUDA API Statistics (nanoseconds)

Time(%)      Total Time       Calls         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ---------------
  100.0       294859478           2     147429739.0          675112       294184366  cudaMalloc

CUDA Kernel Statistics (nanoseconds)

Time(%)      Total Time   Instances         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ---------------
  100.0            3360           2          1680.0            1664            1696  forward(float*,
                                                                                     int)

CUDA Memory Operation Statistics (nanoseconds)

Time(%)      Total Time  Operations         Average         Minimum         Maximum  Name
-------  --------------  ----------  --------------  --------------  --------------  ---------------
  100.0        89602913           2      44801456.5        41565528        48037385  [CUDA memcpy HtoD]

CUDA Memory Operation Statistics (KiB)

            Total      Operations            Average            Minimum            Maximum  Name
-----------------  --------------  -----------------  -----------------  -----------------  ---------
              4.0               2                2.0                2.0                2.0  [CUDA memcpy HtoD]
"""
NVPROF = """\
==77== NVPROF is profiling process 77, command: ./bin/app --seed 3
the program's own words
==77== Profiling application: ./bin/app --seed 3
==77== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.0000ms        10  300.00us  299.50us  301.00us  step(float*, int)
                   25.00%  1.00000s        20  50.000ms  1.2480us  80.000ms  [CUDA memcpy HtoD]
      API calls:   90.00%  100.25ms         2  50.125ms     250ns  100.00ms  cudaMallocManaged
                   10.00%  85.000us        10  8.5000us  7.0000us  20.000us  cudaLaunchKernel
 OpenACC (excl):  100.00%  1.0000us         1  1.0000us  1.0000us  1.0000us  acc_wait@a.c:5

==77== Unified Memory profiling result:
Device "Tesla V100-SXM2-16GB (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
      36  32.889KB  4.0000KB  60.000KB  1.156250MB  196.5440us  Host To Device
      20         -         -         -           -  3.041344ms  Gpu page fault groups
      48  4.0000KB  4.0000KB  4.0000KB  192.0000KB           -  Memory thrashes
Total CPU Page faults: 17
"""
# Until CUDA 8: no column Type, and calls have a heading of their own.
NVPROF_OLD = """\
==9== Profiling application: ./a
==9== Profiling result:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  93.471us         1  93.471us  93.471us  93.471us  add(int, float*, float*)

==9== API calls:
Time(%)      Time     Calls       Avg       Min       Max  Name
100.00%  1.5000ms         3  500.00us  1.0000us  1.4000ms  cudaFree
"""

FIELDS = ("kind", "layer", "category", "name", "calls", "duration_ns", "bytes")


def list_sums(tmp_path: Path, text: str, name: str = "out.log") -> list[tuple[object, ...]]:
    path = tmp_path / name
    path.write_text(text)
    return sightline.open(str(path)).table("call_sums").select(FIELDS).rows()


NEW_ROWS = [
    ("host", "annotation", None, "lib:step x", 3, 9_000_000, None),
    ("host", "os", None, "poll", 10, 1_000_000_000, None),
    ("host", "runtime", None, "cudaMalloc", 2, 100_000_000, None),
    ("host", "runtime", None, "cudaLaunchKernel", 300, 1_500_000, None),
    ("device", None, "kernel", "void mul<(int)8>(float *, i…", 200, 8_000_000, None),
    ("device", None, "kernel", "add(float *)", 100, 2_000_000, None),
    ("device", None, "memcpy", "[CUDA memcpy Host-to-Device]", 4, 6_000_000, 60_500_000),
    ("device", None, "memset", "[CUDA memset]", 2, 2_000_000, 1_024_000_000),
]


def test_a_page_of_nsys_profile(tmp_path: Path) -> None:
    assert list_sums(tmp_path, NEW) == NEW_ROWS


def test_least_and_most_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(NEW)
    table = sightline.open(str(path)).table("call_sums")
    row = table.filter(name="cudaMalloc").row(0, named=True)
    assert (row["shortest_duration_ns"], row["longest_duration_ns"]) == (10_000, 99_990_000)
    assert (row["part"], row["command"]) == (None, None)


@pytest.mark.parametrize(
    "paste",
    [
        lambda text: "# How fast?\n\n```\n$ nsys profile --stats=true ./a.out\n" + text + "```\n",
        lambda text: "/*\n" + "\n".join(f" * {line}" for line in text.split("\n")) + "\n */\n",
        lambda text: "\n".join(f"// {line}" for line in text.split("\n")),
        lambda text: "\n".join(f"    > {line}" for line in text.split("\n")),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("[1/8] [", "[1/8] [0%   ] r\r[1/8] [50%  ] r\r[1/8] ["),
        lambda text: text.replace("  lib", " \x1b[1m lib").replace(" x\n", " x\x1b[0m\n"),
        lambda text: "\ufeff" + "\n".join(line.rstrip() for line in text.split("\n")),
        lambda text: "\n".join(line.lstrip() for line in text.split("\n")),
        lambda text: "step 1 loss 0.5 12% done\n" * 20_000 + text,
        lambda text: text + "\n" + "step 1 loss 0.5 12% done\n" * 20_000,
    ],
    ids=(
        "markdown",
        "c",
        "cxx",
        "quoted",
        "crlf",
        "progress",
        "colour",
        "bom",
        "left",
        "end",
        "log",
    ),
)
def test_wherever_it_was_pasted(tmp_path: Path, paste) -> None:
    assert list_sums(tmp_path, paste(NEW)) == NEW_ROWS


def test_as_a_table_of_markdown_and_as_csv(tmp_path: Path) -> None:
    bars = "| Time (%) | Total Time (ns) | Instances | Name |\n|---:|---|---|---|\n| 60.0 | 6,000 | 2 | f<a, b>(int) |\n"
    rows = [("device", None, "kernel", "f<a, b>(int)", 2, 6000, None)]
    assert list_sums(tmp_path, "### Kernels\n\n" + bars, "page.md") == rows
    commas = 'Processing [r.sqlite] with [/opt/reports/cuda_gpu_kern_sum.py]... \nTime (%),Total Time (ns),Instances,Name\n60.0,6000,2,"f<a, b>(int)"\n'
    assert list_sums(tmp_path, commas, "out.csv") == rows


def test_until_2021(tmp_path: Path) -> None:
    assert list_sums(tmp_path, OLD) == [
        ("host", "runtime", None, "cudaMallocAsync", 1, 200_000_000, None),
        ("device", None, "kernel", "scale(int, int)", 30, 3_000_000, None),
        ("device", None, "memcpy", "[CUDA memcpy DtoH]", 5, 500_000, 2560),
        ("host", "os", None, "ioctl", 7, 7000, None),
    ]


def test_until_2020_with_a_name_that_goes_on_below(tmp_path: Path) -> None:
    assert list_sums(tmp_path, OLDEST) == [
        ("host", "runtime", None, "cudaMalloc", 2, 294_859_478, None),
        ("device", None, "kernel", "forward(float*, int)", 2, 3360, None),
        ("device", None, "memcpy", "[CUDA memcpy HtoD]", 2, 89_602_913, 4096),
    ]


def test_other_units(tmp_path: Path) -> None:
    text = NEW.replace("Total Time (ns)", "Total Time (us)").replace("Max (ns)", "Max (us)")
    assert list_sums(tmp_path, text)[2][5] == 100_000_000_000


def test_nvprof(tmp_path: Path) -> None:
    assert list_sums(tmp_path, NVPROF) == [
        ("device", None, "kernel", "step(float*, int)", 10, 3_000_000, None),
        ("device", None, "memcpy", "[CUDA memcpy HtoD]", 20, 1_000_000_000, None),
        ("host", "runtime", None, "cudaMallocManaged", 2, 100_250_000, None),
        ("host", "runtime", None, "cudaLaunchKernel", 10, 85_000, None),
        ("host", "openacc", None, "acc_wait@a.c:5", 1, 1000, None),
        ("device", None, "memcpy", "[CUDA Unified Memory memcpy HtoD]", 36, 196_544, 1_212_416),
        ("device", None, "page faults", "[Unified Memory Gpu page fault groups]", 20, 3_041_344, None),
        ("traffic", None, "page faults", "[Unified Memory Memory thrashes]", 48, None, 196_608),
        ("host", "os", None, "[Unified Memory CPU page faults]", 17, None, None),
    ]  # fmt: skip


def test_nvprof_until_cuda_8(tmp_path: Path) -> None:
    assert list_sums(tmp_path, NVPROF_OLD) == [
        ("device", None, "kernel", "add(int, float*, float*)", 1, 93_471, None),
        ("host", "runtime", None, "cudaFree", 3, 1_500_000, None),
    ]


def list_parts(tmp_path: Path, text: str) -> list[tuple[object, ...]]:
    path = tmp_path / "out.txt"
    path.write_text(text)
    table = sightline.open(str(path)).table("call_sums")
    return table.select("part", "command").unique(maintain_order=True).rows()


def test_runs_are_kept_apart(tmp_path: Path) -> None:
    assert list_parts(tmp_path, NEW + NEW) == [(0, None), (1, None)]
    assert list_parts(tmp_path, OLD + OLD) == [(0, None), (1, None)]
    other = NVPROF.replace("77", "78").replace("bin/app", "other")
    assert list_parts(tmp_path, NVPROF + other) == [(0, "app"), (1, "other")]
    assert list_parts(tmp_path, NEW + NVPROF) == [(0, None), (1, "app")]
    assert list_parts(tmp_path, NVPROF_OLD + NVPROF_OLD.replace("9==", "8==")) == [
        (0, None),
        (1, None),
    ]


def test_processes_that_ran_beside_each_other_are_one_run(tmp_path: Path) -> None:
    first, _, rest = NVPROF.partition("\n")
    text = f"{first}\n{first.replace('77', '78')}\n{rest}{rest.replace('77', '78')}"
    assert list_parts(tmp_path, text) == [(None, "app")]
    table = sightline.open(str(tmp_path / "out.txt")).table("call_sums")
    assert set(table["pid"].to_list()) == {77, 78}


def test_no_kernels_and_denied_counters_are_said(tmp_path: Path) -> None:
    text = (
        "==5== NVPROF is profiling process 5, command: ./a\n==5== Profiling result:\n"
        "No kernels were profiled.\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        "      API calls:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  cudaFree\n"
        "==5== Warning: ERR_NVGPUCTRPERM - The user does not have permission\n"
    )
    path = tmp_path / "out.txt"
    path.write_text(text)
    kinds = set(sightline.open(str(path)).table("quality")["kind"].to_list())
    assert {"no_kernels", "counters_denied", "no_timeline"} <= kinds


@pytest.mark.parametrize(
    "text",
    [
        "Run `nsys stats report.nsys-rep` and read CUDA API Statistics: Time (%), Total Time (ns).\n",
        "## CUDA Kernel Statistics\n\nTime (%)  Total Time (ns)  Instances  Avg (ns)  Name\n\ntext\n",
        "nvprof prints Time(%)      Time     Calls       Avg       Min       Max  Name\nand so on\n",
    ],
)
def test_who_only_speaks_of_it_is_no_recording(tmp_path: Path, text: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(SightlineError):
        sightline.open(str(path))


@pytest.mark.parametrize("whole", [NEW, OLD, NVPROF], ids=("new", "old", "nvprof"))
def test_a_cut_text_gives_a_part_of_its_rows_or_a_message(tmp_path: Path, whole: str) -> None:
    all_rows = {row[3] for row in list_sums(tmp_path, whole)}
    for at in range(0, len(whole), 173):
        try:
            rows = list_sums(tmp_path, whole[:at], f"{at}.txt")
        except SightlineError:
            continue
        # The last name may be cut.
        assert {row[3] for row in rows[:-1]} <= all_rows


def test_nvprof_without_its_processes(tmp_path: Path) -> None:
    text = NVPROF_OLD.replace("==9== ", "")
    kinds = [(row[0], row[3]) for row in list_sums(tmp_path, text)]
    assert kinds == [("device", "add(int, float*, float*)"), ("host", "cudaFree")]
    # Nor its headings.
    lines = [line for line in text.splitlines() if not line.endswith(":")]
    assert [row[0] for row in list_sums(tmp_path, "\n".join(lines), "b.txt")] == ["device", "host"]


def test_a_summary_of_nvprof_as_csv(tmp_path: Path) -> None:
    text = """\
==3== NVPROF is profiling process 3, command: ./stream --mode gpu
==3== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,s,,ms,us,ms,
"GPU activities",56.2,1.285081,13672,93.993000,86.845000,0.103325,"edges(Image<bool>, int)"
"API calls",15.1,0.345682,14476,23.879000,0.800000,1.496855,"cudaMemcpy"
"""
    assert list_sums(tmp_path, text) == [
        ("device", None, "kernel", "edges(Image<bool>, int)", 13672, 1_285_081_000, None),
        ("host", "runtime", None, "cudaMemcpy", 14476, 345_682_000, None),
    ]


def test_a_summary_as_csv_whose_cells_have_their_units(tmp_path: Path) -> None:
    """As somebody kept it: without units below the head, and names that are not quoted."""
    text = (
        "Time(%),Time,Calls,Avg,Min,Max,Name\n"
        "47.79%,542.36ms,45,12.052ms,12.007ms,12.110ms,[CUDA memcpy HtoD]\n"
        "20.92%,237.43ms,150,1.5829ms,1.5103ms,2.1174ms,red(float*, float*, int)\n"
    )
    assert list_sums(tmp_path, text, "nvprof.csv") == [
        ("device", None, "memcpy", "[CUDA memcpy HtoD]", 45, 542_360_000, None),
        ("device", None, "kernel", "red(float*, float*, int)", 150, 237_430_000, None),
    ]


def test_what_ran_in_ranges_is_no_run_of_its_own(tmp_path: Path) -> None:
    """nvprof repeats the sums of each NVTX range below those of the process."""
    ranges = """\
==77== NVTX result:
==77==   Thread "<unnamed>" (id = 1)
==77==     Domain "NCCL"
==77==       Range "ncclGroupEnd"
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
          Range:  100.00%  3.9269ms       590  6.6550us  5.6930us  23.641us  ncclGroupEnd
 GPU activities:  100.00%  23.456us         9  2.6060us  2.3360us  3.4880us  [CUDA memcpy DtoD]
      API calls:  100.00%  182.87us         9  20.318us  14.749us  30.204us  cudaMemcpyAsync

==77==       Range "ncclReduce"
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
          Range:  100.00%  441.49us       590     748ns     556ns  16.600us  ncclReduce
No kernels were profiled in this range.
No API activities were profiled in this range.
"""
    whole = list_sums(tmp_path, NVPROF + "\n" + ranges)
    assert whole == [
        *list_sums(tmp_path, NVPROF, "plain.txt"),
        ("host", "nvtx", None, "ncclGroupEnd", 590, 3_926_900, None),
        ("host", "nvtx", None, "ncclReduce", 590, 441_490, None),
    ]
    list_sums(tmp_path, NVPROF + "\n" + ranges)
    run = sightline.open(str(tmp_path / "out.log"))
    assert "several_runs" not in run.table("quality").get_column("kind").to_list()
    assert "no_kernels" not in run.table("quality").get_column("kind").to_list()


def test_a_page_that_lost_its_gaps(tmp_path: Path) -> None:
    old = "Time(%) Time Calls Avg Min Max Name\n 49.52 9.36ms 101 92.68us 92.31us 94.31us dct(float*, int)\n"
    rows = [("device", None, "kernel", "dct(float*, int)", 101, 9_360_000, None)]
    assert list_sums(tmp_path, f"======== Profiling result:\n{old}", "old.md") == rows
    new = "Time (%) Total Time (ns) Instances Avg (ns) Med (ns) Name\n52.0 9,360,000 101 1.0 1.0 dct(float*, int)\n"
    assert list_sums(tmp_path, new, "new.md") == rows


@pytest.mark.parametrize(
    ("text", "row"), [(NEW, "20.0        2,000,000"), (NVPROF, "25.00%  1.00000s")]
)
def test_a_row_that_is_not_whole_is_counted(tmp_path: Path, text: str, row: str) -> None:
    at = text.index(row) + len(row)
    path = tmp_path / "out.txt"
    path.write_text(text[:at] + text[text.index("\n", at) :])
    session = sightline.open(str(path))
    kinds = dict(session.table("quality").select("kind", "count").rows())
    assert kinds["damaged_lines"] == 1
    path.with_name("whole.txt").write_text(text)
    whole = sightline.open(str(path.with_name("whole.txt")))
    assert "damaged_lines" not in whole.table("quality")["kind"].to_list()
    assert len(whole.table("call_sums")) == len(session.table("call_sums")) + 1


SMI = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  NVIDIA A40          On   | 00000000:07:00.0 Off |                    0 |
|  0%   29C    P8    31W / 300W |      1MiB / 46068MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""
NCU = """\
[77] app@127.0.0.1
  mul(float *) (32, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: GPU Speed Of Light Throughput
    ----------------------- ------------- ------------
    Metric Name               Metric Unit Metric Value
    ----------------------- ------------- ------------
    Duration                      usecond        40.00
    ----------------------- ------------- ------------
"""


@pytest.mark.parametrize("between", ["", "step 1 loss 0.5\n" * 10_000], ids=("short", "long"))
def test_behind_what_nvidia_smi_printed(tmp_path: Path, between: str) -> None:
    assert list_sums(tmp_path, SMI + between + NEW) == NEW_ROWS


def test_nvidia_smi_alone_is_still_its_own(tmp_path: Path) -> None:
    path = tmp_path / "smi.txt"
    path.write_text(SMI)
    assert sightline.open(str(path)).table("recordings")["format"].to_list() == ["nvidia_smi_table"]


def test_what_ncu_printed_beside_it_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "both.txt"
    path.write_text(NEW + NCU)
    session = sightline.open(str(path))
    assert session.table("call_sums").select(FIELDS).rows() == NEW_ROWS
    kernels = session.table("profiled_kernels").select("name", "grid_x", "duration_ns").rows()
    assert kernels == [("mul(float *)", 32, 40_000)]
    path.with_name("ncu.txt").write_text(NCU)
    alone = sightline.open(str(path.with_name("ncu.txt")))
    assert alone.table("recordings")["format"].to_list() == ["ncu_csv"]


def test_totals_of_unified_memory(tmp_path: Path) -> None:
    text = (
        NEW
        + """\
 ** Unified Memory Totals Summary (um_total_sum):

 Total HtoD Migration Size (MB)  Total DtoH Migration Size (MB)  Total CPU Page Faults  Total GPU PageFaults  Minimum Virtual Address  Maximum Virtual Address
 ------------------------------  ------------------------------  ---------------------  --------------------  -----------------------  -----------------------
                         16.777                           8.389                  1,024                     9           0x7F2E14000000           0x7F2E15FFF000
"""
    )
    assert list_sums(tmp_path, text)[-2:] == [
        ("traffic", None, "page faults", "[Unified Memory GPU page faults]", 9, None, None),
        ("host", "os", None, "[Unified Memory CPU page faults]", 1024, None, None),
    ]
    assert list_parts(tmp_path, text) == [(None, None)]


@pytest.mark.parametrize("text", [NEW, OLD, NVPROF], ids=("new", "old", "nvprof"))
def test_in_a_notebook(tmp_path: Path, text: str) -> None:
    lines = text.splitlines(keepends=True)
    cells = [
        {"cell_type": "code", "source": ["!nsys profile ./a"], "outputs": []},
        {"cell_type": "code", "outputs": [{"output_type": "stream", "text": lines}]},
    ]
    book = json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}, indent=1)
    assert list_sums(tmp_path, book, "a.ipynb") == list_sums(tmp_path, text)


def test_a_broken_notebook_is_text(tmp_path: Path) -> None:
    book = '{"cells": [, "nbformat": 4}\n' + NEW
    assert list_sums(tmp_path, book) == NEW_ROWS


def test_at_the_end_of_a_long_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["x = 1\n"] * 20_000, "outputs": []},
        {"cell_type": "code", "outputs": [{"output_type": "stream", "text": NEW}]},
    ]
    book = json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}, indent=1)
    split = book.replace(json.dumps(NEW), json.dumps(NEW.splitlines(keepends=True), indent=4))
    assert list_sums(tmp_path, split, "a.ipynb") == NEW_ROWS
