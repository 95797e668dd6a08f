"""One damage of each kind, of a format in which rows went without a word: `quality` says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attack.recorded_seeds import WHOLE
from formats import test_gtpin as gtpin
from formats import test_stack_formats as stacks
from sightline.core import registry
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.opening.recognise import recognise
from support import served

KNOWN = {
    "vllm.log": served.VLLM_LOG,
    "sglang.log": served.SGLANG_LOG,
    "bench.json": json.dumps(served.BENCH),
    "aiperf.json": json.dumps(served.AIPERF),
    "guidellm.json": json.dumps(served.GUIDELLM),
    "instcount.txt": gtpin.COUNTS,
    **{name: stacks.FORMATS[name] for name in ("iaprof", "unitrace_stalls", "rocprof_pc")},
    "rocprof_json": json.dumps(stacks.ROCPROF_JSON),
}
LOST = [
    # (recording, what stands there, what stands there then, kind)
    ("sglang.log", "[2026-05-27 20:14:38 TP0] Decode batch. ", "[2026-05-27 20\n", "damaged_lines"),
    ("sglang.log", "12, #queue-req: 5", "1\n, #queue-req: 5", "damaged_lines"),
    ("sglang.log", "#running-req: 12", "#runnIng-req: 12", "damaged_lines"),
    ("sglang.log", " True, gen throughput (token/s)", "-1", "damaged_lines"),
    ("vllm.log", " Waiting: 43 reqs,", "", "damaged_lines"),
    ("vllm.log", "0:39:51 [core.py:402] Iteration(515)", "\n", "damaged_lines"),
    ("bench.json", '"output_throughput"', '"output_throu\ufffdhput"', "damaged_names"),
    ("bench.json", '"p99_itl_ms": 29.8', '"p99_itl_ms": "x"', "damaged_values"),
    ("aiperf.json", '"time_to_first_token"', '"time_to_firrst_token"', "damaged_names"),
    ("aiperf.json", '"avg": 2.5', '"avh": 2.5', "damaged_names"),
    ("guidellm.json", '"percentiles"', '"percentientiles"', "damaged_names"),
    ("guidellm.json", '"mean": 21.0', '"mean": {}', "damaged_values"),
    ("instcount.txt", "\n[ 262144", "[ 262144", "damaged_lines"),
    ("instcount.txt", "[      0|       0] 0x000360", "0] 0x000360", "damaged_lines"),
    ("powermetrics/mac.txt", "Nov 10 12:37:08 2023 +0100) (100", "Nov 10 12.", "damaged_lines"),
    ("powermetrics/mac.txt", "720 MHz\n", "720 MHz", "damaged_lines"),
    ("powermetrics/mac.txt", "E-Cluster Power: 105 mW", "E-Cluster Pow", "damaged_lines"),
    ("nvidia_smi_topo/topo.txt", "\nGPU1\t", "GPU1\t", "missing_rows"),
    ("nvidia_smi_topo/topo.txt", "\nGPU0", "\nGPUx", "missing_rows"),
    ("nvidia_smi_text/q.txt", "        Power Draw     ", "1e999:", "damaged_lines"),
    ("nvidia_smi_text/q.txt", "GPU Current Temp                  : 30 C", "GPU ", "damaged_lines"),
    ("nvidia_smi_text/q.txt", "=NVSMI LOG==============", "", "damaged_lines"),
    ("smi_dmon/pmon.txt", "  sm  ", "      ", "damaged_lines"),
    ("smi_dmon/pmon.txt", "train.py\n", "train.py", "damaged_lines"),
    ("deepspeed_flops/whole", "2.5 K\nfwd", "2.5 Kfwd", "damaged_lines"),
    ("deepspeed_flops/whole", "5.66 TFLOPS\n", "5.66 TFLOPS", "damaged_lines"),
    ("iaprof", "string\t3\tgemm.cl", "string\t-\tgemm.cl", "missing_names"),
    ("iaprof", "launch\n", "launch", "damaged_lines"),
    ("unitrace_stalls", "   0,                 5", "   0,               ", "damaged_lines"),
    ("rocprof_pc", "ops.cpp:133", "ops.cpp:13x", "damaged_lines"),
    ("rocprof_pc", '(0)","/src', "(0", "damaged_lines"),
    ("rocprof_legacy/results.txt", ":10\n", ":10", "damaged_lines"),
    ("rocprof_legacy/results.txt", ":4242\n", ":42", "damaged_lines"),
    ("rocprof_legacy/results.txt", "0000:1000001009001 4242", "0\n", "damaged_lines"),
    ("rocprof_legacy/results.txt", "scale(float*):20:4242", "scale(float*):20", "damaged_lines"),
    ("kernel_log/kern.log", "node kernel: NVRM: Xid (PCI:0000:3b:00): 79", "no\n", "damaged_lines"),
    ("gpu_burn/burn.log", "(6045 Gflop/s)   errors: 0", "(-045   errors: 0", "damaged_lines"),
    ("gpu_burn/burn.log", "\tSummary at:", "", "damaged_lines"),
    ("fabric_manager/fabricmanager.log", "portNum : 4\n", "portNum : 4", "damaged_lines"),
    ("caliper/run.cali", "1.500000\n", "1.500000", "damaged_lines"),
    ("caliper/run.cali", "time.duration,parent=23", "time.dur", "damaged_lines"),
    ("key_averages/log.txt", "1.022s", "1.0222s", "damaged_lines"),
    ("key_averages/log.txt", "Self CPU time total:", "", "damaged_lines"),
    ("thapi_tally/iprof.txt", "Device profiling |", "Device prof", "damaged_lines"),
    ("unitrace_chrome/a.json", '"id": 0},\n', '"id": 0},', "damaged_lines"),
    ("unitrace_chrome/a.json", '{"ph": "X", "tid": 7, "pid": 5, ', "]'*5*7Y)", "damaged_lines"),
    ("rocm_smi/r.json", "N/A (Secondary die)", "N/A10850304", "damaged_values"),
    ("unitrace_metrics/metrics.csv", "ReportsCount,\n", "ReportsCount,", "damaged_lines"),
    ("prometheus/gpus.prom", '"1009248"} 1\n', '"1009248"} 1', "damaged_lines"),
    ("proton_trace/proton.chrome_trace", "]}\n", "]}", "damaged_lines"),
    ("xpu_smi/xpu.csv", "95554.67", "1e999", "damaged_values"),
    ("rocprof_json", '"strings"', '"stzings"', "damaged_names"),
    ("rocprof_json", '"snapshot"', '"spshot"', "damaged_names"),
    ("execution_trace/et_plus.json", '"inclusive_dur"', '"in#lusive_dur"', "damaged_names"),
    ("all_smi/r.ndjson", '"used_memory": 5', '"used_me}ory": 5', "damaged_names"),
    ("torch_memory_stats/stats.json", '"active_bytes.all.peak": 44, ', "", "missing_values"),
    ("nvidia_smi_mig/lgip.txt", "9.75", "9.x5", "damaged_lines"),
    ("perf_trace/run.perf-trace.txt", "[action=BLOCK]\n", "[action=BLOCK]", "damaged_lines"),
    ("perf_trace/run.perf-trace.txt", "sched_switch", "schad_switch", "damaged_lines"),
    ("energy_csv/z.csv", "300.5,1e2", "300.5,", "damaged_lines"),
    ("power_gadget/log", "6.597", "1e999", "damaged_values"),
    ("nccl_log/p2p.log", "CUMEM\n", "CUMEM", "damaged_lines"),
    ("nccl_log/p2p.log", "1[1] via P2P/CUMEM", "1[] via P2P/CUMEM", "damaged_lines"),
    ("nccl_log/p2p.log", "CL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC", "", "damaged_lines"),
]  # fmt: skip


def said(path: Path, text: str) -> dict[str, int | None]:
    path.write_text(text)
    source = Source(path, path.name)
    importer = registry.load("importers", recognise(source).name)
    return {q.kind: q.count for q in importer.read(source, ImportOptions()).quality}


@pytest.mark.parametrize(("name", "old", "new", "kind"), LOST)
def test_a_loss_is_said(tmp_path: Path, name: str, old: str, new: str, kind: str) -> None:
    text = KNOWN.get(name) or (WHOLE / name).read_text()
    path = tmp_path / Path(name).name
    assert old in text
    assert kind not in said(path, text)
    assert said(path, text.replace(old, new, 1)).get(kind)


def test_a_comma_ends_a_line_of_sglang_too(tmp_path: Path) -> None:
    text = served.SGLANG_LOG.replace("#queue-req: 3\n", "#queue-req: 3, \n")
    assert not said(tmp_path / "sglang.log", text)
