"""Damages that cost rows without a word once, one of each kind: the reader says now what is gone.

`losses.py` finds such by chance; here stands one of each kind, with the mend that it asked for.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import synth_rocm
from attack import losses, wellformed
from attack.recorded_seeds import WHOLE
from attack.seeds import CHECKERS, list_ncu_rows
from attack.structured import _swap_pages
from formats import test_clustercockpit as cockpit
from formats import test_clustercockpit_parquet as rows
from formats import test_gtpin as gtpin
from formats import test_nvidia_text as printed
from formats import test_nvidia_text_traces as traces_of
from formats import test_nvprof_csv as nvprof
from formats import test_slurm as slurm
from formats import test_stack_formats as stacks
from formats import test_torch_memory as memory
from sightline.core.model import mpi_file
from sightline.errors import DamagedError
from sightline.formats.hpc.otf2.reading import _check
from support import profiled, served
from support.flight import entry, write_dumps
from support.histories import Phase, train, write_history


def assert_said(whole: Path, damaged: Path) -> None:
    """Rows are fewer, or others, and `quality` says what it did not say of the whole."""
    before, after = losses.read_answer(whole), losses.read_answer(damaged)
    assert after.said - before.said, after.said


# Kind and file of what is kept in `whole`, what is replaced, and by what.
KEPT: tuple[tuple[str, bytes, bytes], ...] = (
    ("kernel_log", b"bus.\n2026", b"bus.2026"),  # two lines in one
    ("nvidia_smi_nvlink", b"(UUID: GPU-0)\n", b"(UUID: GPU-0)"),
    ("nvidia_smi_nvlink", b"         Link 3: Raw Errors: 12\n", b"         \n"),  # blanks are left
    ("gpu_burn", b"41 C \n\tSummary", b"41 C \tSummary"),
    ("prometheus", b"counter\n", b"counter"),
    ("prometheus", b'{index="0"} 1000', b'{index="0"} \xd9\xa3'),  # a digit, and none of ASCII
    ("nvidia_smi_csv", b"35 %", b"\xd9\xa3"),
    ("amd_smi", b"1180,850", b"1180,nan"),  # amd-smi writes N/A
    ("xpu_smi", b"95834.64, 66", b"95834.64,nan"),
    ("power_gadget", b",6.597,", b",,"),
    ("vtune", b"\t32\t71.5%", b"\tnan\t71.5%"),
    ("nccl_log", b" INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC", b" IN"),  # ends within a head
    ("nvidia_smi_topo", b"\t14-27,42\t1\t\tN/A", b"\t"),
    ("nvidia_smi_table", b"| NVIDIA-SMI 580", b"|"),
    ("caliper", b"data=7500", b"data=7-00"),
    ("caliper", b"data=1.500000", b"data=x.500000"),
    ("thapi_tally", b"       Name |   Time | Time(%)", b"       Name |   Time | Ti\n"),
    ("tritonparse", b'"store_results"', b'"store_resulps"'),
    ("tritonparse", b'["cubin",300]', b'["cubin",3.0]'),
    ("unitrace_metrics", b"Kernel,Device,SubDeviceId,GpuTime[ns],AvgGpu", b"Kernel,De\nAvgGpu"),
    ("unitrace_metrics", b",XVE_ACTIVE[%]", b""),  # a name less than there are cells
    ("unitrace_metrics", b"90.354", b"90.3x4"),
    ("xplane", b"/host:CPU", b"/jost:CPU"),
    ("nccl_plugin", b'"ts": 110}', b'"ts": 11}'),  # it stops before it starts
    ("perf_trace", b"prev_comm=k w:1 prev_pid", b"prev_comm=k w:1 prev_qid"),
    ("torch_snapshot", b"\x06blocks", b"\x06\0locks"),
    ("proton_trace", b'"traceEvents":[{"args":{"call_stack":["ROOT","forward","copy"]', b"\n\n["),
    ("perfetto", b"P\x01Z\tH\x01X\x07\xba\x01\x02r0", b"P\x01z\tH\x01X\x07\xba\x01\x02r0"),
    ("gpu_burn", b"\tSummary at:   Thu Mar 10 19:21:17 UTC 2022", b"\tS"),
    ("kernel_log", b"NVRM: Xid (PCI:0000:3b", b"NVRM:x:0000:3b"),
    ("nccl_log", b" INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", b" INFO "),
    ("nccl_tests", b"1024           256", b"1024           25-"),
    ("nvidia_smi_xml", b"1410 MHz", b"14-0 MHz"),  # the only number of its name
    ("power_gadget", b"CPU Utilization(%)", b""),
    ("power_gadget", b"Power_0(Watt)", b"Power_0(Wat"),
    ("powermetrics", b"GPU Power: 153 mW", b"GP"),
    ("perf_trace", b"prio=120 target_cpu=001", b"prio=120 "),
    ("deepspeed_flops", b"fwd latency:     ", b"     "),
    ("deepspeed_flops", b"(layers): ModuleList(", b"(laye"),
    ("chakra_et", b"\tis_cpu_op\xd8\x01\x00\x1e", b"\tis_ccpu_op\xd8\x01\x00\x1e"),
    ("smi_dmon", b" 17:25:40      0       1941   C+G      -      -      -     5      0    voxtype",
     b" "),
    ("powermetrics", b"GPU Power: 153 mW", b"Vs:BZc$qVM<)sZA-56"),  # the other sample has it
    ("powermetrics", b"GPU HW active frequency: 720 MHz", b""),
    ("powermetrics", b"\nGPU HW active residency:  12", b"\nGPu HW active residency:  12"),
    ("caliper", b"data=20,parent=3\n__rec=node,id=28", b"data=.0,parent=3\n__rec=node,id=28"),
    ("caliper", b"data=0.500001", b"data=0."),
    ("caliper", b"id=32,attr=28", b"id=32,attr=-8"),  # an attribute that is not there
    ("caliper", b"cupti.activity.duration", b"cupti.actavity.duration"),
    ("caliper", b"ref=31,attr=24,data=0.500001", b"ref=31"),
    ("deepspeed_flops", b"1 K = 40% Params, 10 GMACs = 50% MACs, 4 ms = 40% latency, 2 TFLOPS",
     b"1 K = 40% P"),
    ("key_averages", b"2.097s", b".097s"),
    ("nccl_log", b"node:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC", b"node:1"),
    ("nvidia_smi_text", b"Current Power Limit               : 700.00 W",
     b"Current Power Limit               : "),
    ("nvidia_smi_text", b"Power Draw                        : 74.58 W",
     b"Power Draw                        :nan"),
    ("nvidia_smi_text", b"Clocks Event Reasons", b"Clocks Event x"),
    ("nvidia_smi_text", b": P0\n    Clocks Event Reasons", b": P0    Clocks Event Reasons"),
    ("onetrace", b'"tid":94188012345968, "name":"gemm', b'"tid":941880123459.8, "name":"gemm'),
    ("rocm_smi", b"10850304", b"108503p4"),
    ("rocprof_legacy", b"1000010620003:1000010630007 4242:4243 hipMem",
     b"1000 10620003:1000010630007 4242:4243 hipMem"),
    ("rocprof_legacy", b"1000010620003:1000010630007 4242:4243 hipMemcpyAsync(a=1) :23",
     b"1000010620003"),
    ("rocprof_legacy", b"1000025015009:1000025515002 0:7 scale(float*):40:4242", b"100"),
    ("sightline_probe", b'"cudaStreamSynchronize","runtime","wait"',
     b'"cudaStreamSynchronize","runtime","\x7fait"'),
    ("thapi_tally", b" Name | Time | Time(%) | Calls | Average | Min | Max |\n gemm",
     b" Na\n gemm"),
    ("torch_snapshot", b"ess\x94M\x00\x10\x8c", b"ess\x94M\x00\x10\x8cess\x94M\x00\x10\x8c"),
    ("unitrace_chrome", b'"X", "tid": 4294967295, "pid": 4294967295, "name": "zeCommandListAppendM',
     b'"H", "tid": 4294967295, "pid": 4294967295, "name": "zeCommandListAppendM'),
    ("unitrace_chrome", b'{ "traceEvents":[\n', b'{ "traceEvents"\n'),  # it was Kineto's then
    ("pcsampling_file", b"4\x00\x10\x00\x18\x00 \x00", b"4\x00\x10\x00\x00\x00 \x00"),
    ("xplane", b"\x12\x11Stream #7", b"\x52\x11Stream #7"),  # a line without its name
    ("rocm_smi", b'"47.0"', b'"47..0"'),
    ("superbench_monitor", b"gpu_usage:0", b"gpu_usage:x"),
    ("superbench_monitor", b'{"time": "2021-12-06 04:19:46", "cpu_usage": 6, "gpu_usage:0": null, '
     b'"eth0_receive_bw": 0.5}', b""),
    ("vtune", b"0.015\t100\t32", b"0.015\t\t32"),
    ("vtune", b"205.25", b".05.25"),
    ("nccl_tests", b" 0:        1024           256   float     sum      -1   136.40    0.10    0.15"
     b"      0   137.40    0.10    0.15      0", b" "),  # the last size of the test
    ("nvidia_smi_table", b"|    0   N/A  N/A            1234      C   /opt/my tools/python       "
     b"             480MiB |", b"| "),
    ("onetrace", b'"tid":94188012345968, "name":"zeCommandListA',
     b'"tid":9418801.345968, "name":"zeCommandListA'),
    ("stats_csv", b'"index_add",3,52000000000,17333333333,20.0', b""),
    ("execution_trace", b'me": "gemm", "ctrl_deps": 1, "inputs": {}, "output', b""),
    ("deepspeed_flops", b"      (fc): Linear(1 K = 40% Params, 9 GMACs = 45% MACs, 3 ms = 30%"
     b" latency, 2 TFLOPS, bias=True)", b"   "),
    ("deepspeed_flops", b"fwd flops per GPU:                                                      "
     b"56.61 G", b"fw"),
    ("all_smi", b'"uses_gpu": true, "used_memory": ', b'"uses_gpu": '),
    ("deepspeed_flops", b"MACs, 500 us", b"MACs, x00 us"),
    ("deepspeed_flops", b"fwd latency: ", b"1e999: "),
    ("gpu_burn", b"\tSummary at:   Thu Mar 10 19:21:19 UTC 2022", b""),
    ("gpu_burn", b"Summary at:   Thu Mar 10 19:21:19", b"Suomary at:   Thu Mar 10 19:21:19"),
    ("amd_smi", b"1180,850", b"118-,850"),
    ("amd_smi", b"1789515525,1,0", b"1789515525,,0"),
    ("nvidia_smi_text", b"Used GPU Memory               : 300",
     b"Used GPU Memnry               : 300"),
    ("unitrace_chrome", b'{ "traceEvents":[\n', b'{ "trac\n'),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "old", "new"), KEPT)
def test_of_a_recording_that_is_kept(tmp_path: Path, kind: str, old: bytes, new: bytes) -> None:
    (whole,) = (WHOLE / kind).iterdir()
    data = whole.read_bytes()
    assert old in data
    damaged = tmp_path / whole.name
    damaged.write_bytes(data.replace(old, new, 1))
    assert_said(whole, damaged)


@pytest.mark.parametrize(
    ("kind", "file", "old", "new"),
    [
        # Of profile.db: a metric and a context that meta.db does not have, values out of order.
        ("hpctoolkit", "profile.db", b"\x06\x00i\x1dUM\x10u\xdf>\x06",
         b"\x06\x7fi\x1dUM\x10u\xdf>\x06"),
        ("hpctoolkit", "profile.db", b"\x05\x00\x00\x00\x00\x00\x00\x00\xf8?", b"\x05" + bytes(9)),
        ("rocprof_compute", "sysinfo.csv", b",160,4,", b",160,.,"),
        ("rocprof_compute", "pmc_perf.csv", b"\n1,scale", b"\n,scale"),
        ("rocprof_compute", "pmc_perf.csv", b",32,0,16,64,1000000,1010000.6",
         b",3x,0,16,64,1000000,1010000.6"),
        ("rocprof_compute", "sysinfo.csv", b",8,128", b",8,12x"),
        ("rocprof_compute", "sysinfo.csv", b",8,128", b",(,128"),
        # Of meta.db: a metric's name, the scope of its sum, a context's number.
        ("hpctoolkit", "meta.db", b"CPUTIME (sec)", b"CPUTIME (sec9"),
        ("hpctoolkit", "meta.db", b"CPUTIME (sec)\0", b"CPUTIME (sec)\x7f"),
        ("hpctoolkit", "meta.db", b"GPUOP (sec)", b"GPUO" + bytes(7)),
        # Where a context's own begin: its section is longer than what is led to.
        ("hpctoolkit", "meta.db", b"\x01" + bytes(8) + b"\xc8\x01" + bytes(6) + b"(" + bytes(7)
         + b"X\x02", b"\x01" + bytes(8) + b"\xc8\x01" + bytes(16)),
        ("hpctoolkit", "meta.db", b"\xb0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06",
         b"\xb0\x00\x00\x00\x00\x00\x00\x00\x04\x00\x06"),
        ("hpctoolkit", "meta.db", b"\x04\x00\x00\x00\x01\x01\x00\x01",
         b"\x04\x00\x00\xff\x01\x01\x00\x01"),
    ],
)  # fmt: skip
def test_of_a_folder_that_is_kept(
    tmp_path: Path, kind: str, file: str, old: bytes, new: bytes
) -> None:
    (whole,) = (WHOLE / kind).iterdir()
    damaged = Path(shutil.copytree(whole, tmp_path / whole.name))
    data = (damaged / file).read_bytes()
    assert old in data
    (damaged / file).write_bytes(data.replace(old, new, 1))
    assert_said(whole, damaged)


DIAGNOSIS = (
    "| Diagnostic                | Result                   |\n"
    "|-----  Hardware  ----------+--------------------------|\n"
    "| GPU Memory                | Fail - GPUs: 0, 3        |\n"
)
CSV = "".join(
    ",".join(f'"{cell}"' for cell in row) + "\n"
    for row in list_ncu_rows()  # as ncu quotes
)
MADE: tuple[tuple[str, str, str, str], ...] = (
    ("a.stacks", stacks.FORMATS["collapsed"], "[k] 3\n", "[k] 3"),
    ("a.perf", stacks.FORMATS["perf_script"], "cpu-clock:\n\tffffffff81", "cpu-clock:\tffffffff81"),
    ("a.txt", gtpin.FILES["instcount"], "[      0|       0] 0x000360 :         nop", "[ "),
    ("vllm.log", served.VLLM_LOG, "[core.py:402] Iteration(515)", "[core.py"),
    ("vllm.log", served.VLLM_LOG, "INFO 11-26 10:39:51 [core.py:402] Iteration(515)", "INFO\n"),
    ("sglang.log", served.SGLANG_LOG, "input throughput", "input throug(put"),
    ("sglang.log", served.SGLANG_LOG, "(token/s): 18722.30", "(token/s):-1"),
    ("trt.log", served.TRTLLM_LOG, "'num_ctx_tokens': 900", "1e999"),
    ("bench.json", json.dumps(served.BENCH),
     'ckend": "vllm", "completed": 2, "duration": 2.0, "', ""),
    ("x.txt", slurm.CONTROL + slurm.NODE, "NodeList=n[1-2]", "x"),
    ("x.txt", slurm.CONTROL + slurm.NODE, "NodeName=n1", "NodeName="),
    ("meta.json", json.dumps(cockpit.META), 'hostname": "n1"', 'hostname": ""'),
    ("a.txt", gtpin.FILES["opcodeprof"], "[           1000]", "[           -000]"),
    ("sglang.log", served.SGLANG_LOG, "#cached-token: 256, token usage", "#cached-token"),
    ("sglang.log", served.SGLANG_LOG, "Prefill batch. #new-seq: 4, #new-token: 1024, "
     "#cached-token: "
     "256, token usage: 0.41, #running-req: 12, #queue-req: 5, input throughput (token/s): "
     "18722.30", "Prefi"),
    ("vllm.log", served.VLLM_LOG, "usage: 95.9%, Prefix cache hit rate", "usage:-1"),
    ("bench.json", json.dumps(served.GUIDELLM), '"max": 9.0', '"x": 9.0'),
    ("x.txt", slurm.CONTROL + slurm.NODE, "NodeList=n[1-2]", "NodeList=n[-2]"),
    ("x.txt", slurm.CONTROL + slurm.NODE, "\nNodeName=n1 Arch", "NodeName=n1 Arch"),
    ("m.json", memory.document(memory.ENTRY, memory.ENTRY), '"action"', '"actyon"'),
    ("trt.log", served.TRTLLM_LOG, "'num_ctx_tokens'", "'num_cvx_tokens'"),
    ("trt.log", served.TRTLLM_LOG, "'num_ctx_tokens': 900, ", ""),  # it writes all three
    ("bench.json", json.dumps(served.BENCH), '"completed"', '"d"'),
    ("bench.json", json.dumps(served.GUIDELLM), '"percentiles"', '"les"'),
    ("x.txt", slurm.CONTROL + slurm.NODE, "JobId=21 Array", "9 Array"),
    ("sacct", f"{slurm.NAMES}\n{slurm.JOB}\n", "NodeList", "NodeLis"),
    ("sacct", f"{slurm.NAMES}\n{slurm.JOB}\n", "NodeList", "FodeList"),
    ("x.json", json.dumps({"jobs": [slurm.ACCOUNTED] * 3}),
     '"gpu", "state": {"current": ["TIMEOUT"]}, "time": ', ""),
    ("a.csv", nvprof.GPU + nvprof.API, '"Start","Duration","Grid', '"Start",1e999,"Grid'),
    ("a.csv", nvprof.GPU + nvprof.API, '"Device"', '"DEvice"'),
    ("a.log", printed.NEW, "     20.0        2,000,000        100  20,000.0  20,000.0    19,000  "
     "  21,000          1.0  add(float *)", "     20.0"),
    ("a.log", traces_of.COUNTERS, "        100                             flop_count_dp",
     "        -00                             flop_count_dp"),
    ("a.log", traces_of.COUNTERS, "                                Event Name         Min"
     "         Max         Avg       Total", ""),
    ("a.stacks", stacks.FORMATS["unitrace_stalls"], '"gemm, big"', '"gemm,1e999'),
    ("a.stacks", stacks.FORMATS["rocprof_pc"], '"/src/ops.cpp:134"', "-1"),
    ("a.stacks", stacks.FORMATS["rocprof_pc"], '"/src/ops.cpp:134"', "x"),
    ("vllm.log", served.VLLM_LOG, "Iteration(515): 0 context requests, 0 context tokens, 20 "
     "generation requests, 20 generation tokens, iteration elapsed time: 10.99 ms", "I"),
    ("bench.json", json.dumps(served.GUIDELLM), '"p99"', '"p9"'),
    ("a.log", printed.NVPROF, "48  4.0000KB  4.0000KB", f"48  4.0000KB{'9' * 30}4.0000KB"),
    ("a.log", printed.OLDEST, "Instances         Average         Minimum         Maximum  Name",
     "Instances  "),
    ("m.json", memory.document(memory.ENTRY, memory.ENTRY), '"action"', '"actn"'),
    ("a.stacks", stacks.FORMATS["rocprof_pc"],
     '"ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT"', ""),
    ("bench.json", json.dumps(served.BENCH), 'throughput": 1.0, "output_throughput": 2.5, "input',
     ""),
    ("sglang.log", served.SGLANG_LOG, " Decode batch. #running-req: 18, #token: 16384, token usage:"
     " 0.71, #retracted-req: 2, cuda graph: True, gen throughput (token/s): 2520.18, #queue-req: 3",
     " Decode ba"),
    ("d.txt", DIAGNOSIS, "GPUs", "\x07PUs"),
    ("vllm.log", served.VLLM_LOG, " 000: Avg prompt throughput: 100.0 tokens/s, Avg generation "
     "throughput: 48.4 tokens/s, Running: 3 reqs, Waiting: 43 reqs, GPU KV cache usage: 95.9%, "
     "Prefix cache hit rate: 10.8%", " 00"),
    ("vllm.log", served.VLLM_LOG, "hit rate: 10", "hit rate* 10"),
    ("vllm.log", served.VLLM_LOG, "Prefix cache", "Prefi| cache"),
    ("a.json", json.dumps(served.AIPERF), '"max"', '"maax"'),
    ("a.log", traces_of.COUNTERS, "        100                             flop_count_dp  Floating "
     "Point Operations(Double Precisi         512         512         512", "        100      "),
    ("a.log", traces_of.COUNTERS, "\tKernel: step(float*, int)", " int)"),
    ("a.log", printed.NVPROF, "step(float*, int)\n", "step(float*, int)"),
    ("a.csv", CSV, CSV.splitlines()[2], '"1')  ,  # a quotation that does not end
    ("a.csv", CSV, '\n"1","7"', '\n\n"1","7"'),
    ("a.txt", gtpin.FILES["funtime"], "1259              4 ", "1259  !           4 "),
    ("a.log", traces_of.COUNTERS + printed.NVPROF, "Total Time  Name\n", "Total Time  Name"),
    ("nhc.log", CHECKERS["node_health_check"], "ERROR:  nhc:  Health check failed:  check_ecc: "
     "GPU id 3: SRAM errors. FaultCode: NHC2019", "E"),
    ("a.txt", gtpin.FILES["funtime"], "512        1049600           2050",
     "512                   2050"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "text", "old", "new"), MADE)
def test_of_a_text(tmp_path: Path, name: str, text: str, old: str, new: str) -> None:
    assert old in text
    places = [tmp_path / "whole" / name, tmp_path / "damaged" / name]
    for place, content in zip(places, (text, text.replace(old, new, 1)), strict=True):
        place.parent.mkdir()
        place.write_text(content)
    assert_said(*places)


def change_counts(database: Path) -> None:
    """A value of a counter names a kernel that is not there."""
    db = sqlite3.connect(database)
    (table,) = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_pmc_event%'"
    ).fetchone()
    db.execute(f'UPDATE "{table}" SET event_id = 99999')
    db.commit()
    db.close()


def change_action(database: Path) -> None:
    """What was done with memory is no word of the tool's."""
    db = sqlite3.connect(database)
    (table,) = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_memory_alloc%'"
    ).fetchone()
    db.execute(f"UPDATE \"{table}\" SET type = 'x' WHERE id = 1")
    db.commit()
    db.close()


def swap_leaves(database: Path) -> None:
    """Two pages stand where the other would: each is whole in itself."""

    class Chosen:
        def sample(self, pages: object, count: int) -> tuple[int, int]:
            return first, second

    db = sqlite3.connect(database)
    roots = dict(
        db.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
    )
    db.close()
    first, second = (
        next(page for name, page in roots.items() if name.startswith(wanted)) - 1
        for wanted in ("rocpd_info_agent", "rocpd_info_pmc")
    )
    database.write_bytes(_swap_pages(database.read_bytes(), Chosen()))  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", [change_counts, change_action, swap_leaves])
def test_of_a_database(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    whole = synth_rocm.write_rocpd(tmp_path / "whole.db", 3)
    damaged = Path(shutil.copyfile(whole, tmp_path / "damaged.db"))
    damage(damaged)
    assert_said(whole, damaged)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("4242_hsa_api_trace.csv", b',"Start_Timestamp","End_Timestamp"', b""),  # names are gone
        ("4242_hsa_api_trace.csv", b',"Start_Timestamp"', b',"S'),  # a quotation does not end
        ("4242_counter_collection.csv", b"128.0", b"12..0"),
        ("4242_memory_allocation_trace.csv", b"7150,7150", b"7x50,7150"),
        ("4242_memory_allocation_trace.csv", b"7150,7150", b"715.,7150"),
        ("4242_memory_allocation_trace.csv", b",4096,", b",-1,"),
        ("4242_kernel_trace.csv", b"1024,6,1\r\n", b"1024,6,1\r\x0e"),
    ],
)
def test_of_files_of_rocprofv3(tmp_path: Path, name: str, old: bytes, new: bytes) -> None:
    whole = synth_rocm.write_csv(tmp_path / "whole")
    damaged = Path(shutil.copytree(whole, tmp_path / "damaged"))
    data = (damaged / name).read_bytes()
    assert old in data
    (damaged / name).write_bytes(data.replace(old, new, 1))
    assert_said(whole, damaged)


def test_of_series_of_a_job(tmp_path: Path) -> None:
    """Keys one level down, in an object that holds that alone."""
    whole = cockpit.write_archive(tmp_path / "archive")
    damaged = Path(shutil.copytree(whole, tmp_path / "damaged"))
    (path,) = damaged.rglob("data.json*")
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    changed = text.replace(b'"timestep"', b'"timestp"', 1)
    assert changed != text
    path.write_bytes(gzip.compress(changed) if data[:2] == b"\x1f\x8b" else changed)
    assert_said(whole, damaged)


def test_of_devices_of_a_diagnosis(tmp_path: Path) -> None:
    for name, gpus in (("whole", "0, 3"), ("damaged", ", 3")):
        (tmp_path / name).write_text(DIAGNOSIS.replace("0, 3", gpus))
    assert_said(tmp_path / "whole", tmp_path / "damaged")


def test_a_changed_row_of_a_packed_profile(tmp_path: Path) -> None:
    """A place in the code names a function that the profile does not have."""
    (whole,) = (WHOLE / "jax_memory").iterdir()
    data = whole.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    old, new = b'"\t\x08\x0f"\x05\x08\x0e', b'"\t\x08\x0f"\x05\x08\x7e'
    assert old in text
    damaged = tmp_path / whole.name
    damaged.write_bytes(text.replace(old, new, 1))
    assert_said(whole, damaged)


@pytest.mark.parametrize("moment", ["2026-03-01T10:00:99", "0026-03-01T10:00:00"])
def test_moments_that_no_clock_has(tmp_path: Path, moment: str) -> None:
    """A minute has no such second, and a year that ns since 1970 do not reach: once exit 3."""
    (whole,) = (WHOLE / "kernel_log").iterdir()
    text = whole.read_text()
    (tmp_path / "kern.log").write_text(text.replace("2026-03-01T10:00:00", moment, 1))
    assert losses.read_answer(tmp_path / "kern.log").rows["device_events"] == 2
    job = slurm.JOB.replace("2026-01-31T10:00:00", moment)
    (tmp_path / "jobs").write_text(f"{slurm.NAMES}\n{job}\n")
    assert losses.read_answer(tmp_path / "jobs").rows["jobs"] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"counters": [{"id"', '"counters": [{"if"'),
        ('"memory_copy"', '"py"'),
        ('"agents"', '"agen"'),
        ('"handle": 7002}, "type"', '"handhandle": 7002}, "type"'),
        ('p": 500, "end_timestamp": 900}, {"kind": 1, "opera', ""),  # two calls in one
        (', "end_timestamp": 900}, {"kind": 1', ""),
    ],
)
def test_of_json_of_rocprofv3(tmp_path: Path, old: str, new: str) -> None:
    """Records under a name that is not read, and what they name is not there."""
    whole = synth_rocm.write_json(tmp_path / "whole.json")
    text = whole.read_text()
    assert old in text
    (tmp_path / "damaged.json").write_text(text.replace(old, new, 1))
    assert_said(whole, tmp_path / "damaged.json")


def test_groups_of_a_flight_recorder(tmp_path: Path) -> None:
    """Records of collectives, and no group of ranks that they are of."""
    whole = Path(write_dumps(tmp_path, [entry(n, done=n < 8) for n in range(9)])[0])
    damaged = tmp_path / "damaged_0"
    damaged.write_bytes(whole.read_bytes().replace(b"pg_config", b"pgOconfig", 1))
    assert_said(whole, damaged)


def test_a_log_that_ends_where_progress_begins(tmp_path: Path) -> None:
    (whole,) = (WHOLE / "gpu_burn").iterdir()
    data = whole.read_bytes()
    (tmp_path / "burn.log").write_bytes(data[: data.rindex(b"\r") + 1])
    assert_said(whole, tmp_path / "burn.log")


def test_code_that_is_no_whole_number_of_instructions(tmp_path: Path) -> None:
    (tmp_path / "whole.ncu-rep").write_bytes(data := profiled.with_code())
    size = b"\x40" + bytes(15) + b"\x01" + bytes(15) + b"\x12"  # of a section with code
    assert size in data
    (tmp_path / "damaged.ncu-rep").write_bytes(data.replace(size, b"\x01" + size[1:], 1))
    assert_said(tmp_path / "whole.ncu-rep", tmp_path / "damaged.ncu-rep")


def test_records_that_an_archive_counts() -> None:
    """OTF2's definitions say how many records each location has."""
    facts = {"damage": None, "unmatched": 0, "missing": 3}
    assert [(note.kind, note.count) for note in _check(facts)] == [("missing_rows", 3)]


def test_figures_of_no_kernel(tmp_path: Path) -> None:
    """A number with a decimal among a table's numbers of kernels."""
    (whole,) = (WHOLE / "rocprof_compute_db").iterdir()
    damaged = Path(shutil.copyfile(whole, tmp_path / whole.name))
    db = sqlite3.connect(damaged)
    db.execute("UPDATE compute_kernel_metric_value SET metric_uuid = 1.5 WHERE metric_uuid = 4")
    db.commit()
    db.close()
    assert_said(whole, damaged)


def test_a_name_of_a_watch_that_is_damaged(tmp_path: Path) -> None:
    whole = write_history(tmp_path / "whole", [Phase(300, {0: train()})])
    damaged = Path(shutil.copytree(whole, tmp_path / "damaged"))
    for path in damaged.rglob("*.parquet"):
        path.write_bytes(path.read_bytes().replace(b"sm_active_pct", b"sm_activg_pct"))
    assert_said(whole, damaged)


def test_samples_that_do_not_say_why(tmp_path: Path) -> None:
    """Of a wave that waits, rocprofv3 writes the reason."""
    whole, damaged = tmp_path / "whole.json", tmp_path / "damaged.json"
    whole.write_text(json.dumps(stacks.ROCPROF_JSON))
    text = whole.read_text()
    assert '"stall_reason"' in text
    damaged.write_text(text.replace('"stall_reason"', '"stan"', 1))
    assert_said(whole, damaged)


@pytest.mark.parametrize(
    ("whole", "made", "want"),
    [
        # nvidia-smi -q -x: lines of blanks in it are nothing.
        (b"<?xml ?>\n<a>\n<b/>\n</a>\n", b"<?xml ?>\n<a>\n\n</a>\n", wellformed.REMOVED),
        (b"<?xml ?>\n<a>\n<b/>\n</a>\n", b"<?xml ?>\n<a>\n<b\n</a>\n", None),
        (b"a 1\nb 2\nc 3\n", b"a 1\n\nc 3\n", None),
    ],
)
def test_what_is_whole_in_itself(whole: bytes, made: bytes, want: str | None) -> None:
    assert wellformed.judge("nvidia_smi_xml", whole, made) == want


@pytest.mark.parametrize(
    ("line", "want"),
    [(b"string\t2\tmain;tr{ain", wellformed.ANOTHER), (b"string\t2\tmain\x07", None)],
)
def test_any_name_is_one_of_a_stack(line: bytes, want: str | None) -> None:
    whole = b"string\t2\tmain;train\n"
    assert wellformed.judge("iaprof", whole, line + b"\n") == want


def test_a_watch_that_makes_polars_panic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no Exception: a page's length that is another one ended the command with 3."""

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("assertion failed: offset + length <= self.length")

    whole = write_history(tmp_path / "whole", [Phase(300, {0: train()})])
    monkeypatch.setattr(pl.LazyFrame, "collect", panic)
    with pytest.raises(DamagedError, match="assertion failed"):
        losses.read_answer(whole)


def test_a_record_of_mpi_of_zeros(tmp_path: Path) -> None:
    """What is left of a message's record is no call that communicates nothing."""
    (whole,) = (WHOLE / "sightline_mpi").iterdir()
    data = bytearray(whole.read_bytes())
    at = mpi_file.HEADER_BYTES + 2 * mpi_file.RECORD_BYTES
    record = np.frombuffer(data, np.dtype(list(mpi_file.FIELDS)), 1, at)
    record["routine"] = record["what"] = 0
    (tmp_path / whole.name).write_bytes(data)
    assert_said(whole, tmp_path / whole.name)


def test_a_name_of_a_column_of_zeros(tmp_path: Path) -> None:
    whole = rows.write_seed(tmp_path / "whole") / rows.NAME
    damaged = tmp_path / rows.NAME
    data = whole.read_bytes()
    damaged.write_bytes(data.replace(b"statistics_json", b"st" + bytes(8) + b"_json"))
    assert_said(whole, damaged)
