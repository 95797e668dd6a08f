"""Whole recordings of every format, stores, run folders and rules, for the campaign to damage."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import sightline
import synth_rocm
from attack.recorded_seeds import write_recorded
from formats import test_clustercockpit as cockpit
from formats import test_clustercockpit_parquet as rows
from formats import test_gtpin as gtpin
from formats import test_likwid as likwid
from formats import test_ncu_csv as ncu_csv
from formats import test_nsys_trace_csv as nsys_csv
from formats import test_nvidia_text as printed
from formats import test_nvidia_text_traces as traces_of
from formats import test_nvprof as nvprof_file
from formats import test_nvprof_csv as nvprof
from formats import test_proton_cycles as cycles
from formats import test_rocminfo as rocminfo
from formats import test_rocprofv3_summary as rocm_sums
from formats import test_slurm as slurm
from formats import test_stack_formats as stacks
from formats import test_torch_memory as memory
from formats import test_unitrace_summary as unitrace_sums
from sightline.core.model import event_file as f
from sightline.record.inline.recorder import Recorder, end, now
from support import profiled, served
from support import traces as t
from support.as_folder import write_folder
from support.reports import OSRT, Report
from synth_nsys import Export

RULES = """\
name: Much idle
tag: much-idle
parameters:
  most: 20
metrics: [breakdown]
variables:
  share: breakdown.idle_pct.max
requirements:
  - run.window_ns > 1
rule: share > most
severity: warning
hint: "For {share:.1f} % of the window a GPU is idle."
"""
CHECKERS = {
    "dcgm_diag": json.dumps(
        {
            "DCGM Diagnostic": {
                "test_categories": [
                    {
                        "category": "Hardware",
                        "tests": [
                            {
                                "name": "memory",
                                "results": [
                                    {"entity_group": "GPU", "entity_id": 0, "status": "Pass"},
                                    {
                                        "entity_group": "GPU",
                                        "entity_id": 1,
                                        "status": "Fail",
                                        "warnings": [{"warning": "ECC errors", "error_id": 1}],
                                    },
                                ],
                            }
                        ],
                    }
                ]
            }
        }
    ),
    "dcgm_diag_table": "| Diagnostic                | Result                   |\n"
    "|-----  Hardware  ----------+--------------------------|\n"
    "| GPU Memory                | Fail - GPUs: 0, 3        |\n"
    "| Warning                   | ECC errors               |\n",
    "node_health_check": "SUCCESS:  nhc:  Health check passed:  check_gpu_count: 8 and 8\n"
    "ERROR:  nhc:  Health check failed:  check_ecc: GPU id 3: SRAM errors. FaultCode: NHC2019\n",
    "thapi_trace": "".join(
        f"13:46:47.48045{n:04} - host - vpid: 9, vtid: 9 - lttng_ust_ze:zeInit_{side}: {{ a: 0 }}\n"
        for n, side in enumerate(("entry", "exit") * 4)
    ),
    "gcm_checks": '[{"health_check": "check_dcgmi_diag", "result": 2, "_msg": "GPU 3 failed"}]\n'
    '[{"health_check": "check_ssh", "result": 0, "_msg": "", "end_time": 1772359201.5}]\n',
    "xpu_smi_health": '{"device_list": [{"device_id": 0, "memory_health": {"status": "OK", '
    '"description": "well"}}, {"device_id": 1, "power_health": {"status": "Critical"}}]}',
    "zeus_tables": '{"measurements": [{"power_limit": 300, "energy": 2053.5, "time": 9.5}, '
    '{"power_limit": 275, "energy": 2051.0, "time": 10.0}]}',
    "gpud_states": json.dumps(
        [
            {
                "component": "accelerator-nvidia-error-xid",
                "states": [
                    {
                        "time": "2026-03-01T10:00:00Z",
                        "name": "error_xid",
                        "health": "Unhealthy",
                        "reason": "XID 74",
                        "suggested_actions": {"repair_actions": ["REBOOT_SYSTEM"]},
                    }
                ],
            }
        ]
    ),
}
# A cut at the end of a line or record is no loss that can be seen: these forms have no end.
ENDLESS = {"collapsed", "iaprof", "unitrace_stalls", "rocprof_pc", "perf_script", "ncu_csv"}
ENDLESS |= {"rocprofv3_csv", "node_health_check", "dcgm_diag_table", "gcm_checks"}
ENDLESS |= {"thapi_trace"}
ENDLESS |= {"slurm_accounting", "slurm_text", "nvidia_text"}
ENDLESS |= {"vllm_log", "sglang_log", "trtllm_log", "bench_jsonl"}


@dataclass(frozen=True)
class Seed:
    """An input that is read without a complaint; a folder is damaged one file at a time."""

    kind: str
    path: Path
    recording: Path | None = None  # what is opened, where the damage is done elsewhere

    @property
    def asked(self) -> Path:
        """What is opened."""
        return self.recording or self.path

    @property
    def files(self) -> list[Path]:
        """What can be damaged."""
        if self.path.is_file():
            return [self.path]
        return sorted(p for p in self.path.rglob("*") if p.is_file())


def write_seeds(folder: Path) -> list[Seed]:
    """Write them all; each is opened once to make sure that it is one."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [Seed("kineto", _trace(folder / "trace.json"))]
    packed = folder / "packed.json.gz"
    packed.write_bytes(gzip.compress(seeds[0].path.read_bytes()))
    seeds.append(Seed("kineto_gz", packed))
    for name, text in stacks.FORMATS.items():
        path = folder / f"{name}.stacks"
        path.write_text(text)
        seeds.append(Seed(name, path))
    path = folder / "printed.csv"
    path.write_text(nsys_csv.PRINTED)
    seeds.append(Seed("nsys_trace_csv", path))
    path = folder / "regions.json"
    path.write_text(cycles.TWO_WARPS)
    seeds.append(Seed("proton_cycles", path))
    seeds += _write_jobs(folder / "jobs")
    for _, name, text in served.FILES:
        path = folder / name
        path.write_text(text)
        seeds.append(Seed(name.replace(".", "_"), path))
    path = folder / "rocprof.json"
    path.write_text(json.dumps(stacks.ROCPROF_JSON))
    seeds.append(Seed("rocprof_json", path))
    seeds.append(Seed("rocprofv3_json", synth_rocm.write_json(folder / "rocm.json")))
    seeds.append(Seed("rocprofv3_csv", synth_rocm.write_csv(folder / "rocm")))
    for version in (3, 4):
        path = synth_rocm.write_rocpd(folder / f"rocm{version}.db", version)
        seeds.append(Seed(f"rocpd_{version}", path))
    path = folder / "kernels.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(list_ncu_rows())
    seeds.append(Seed("ncu_csv", path))
    path = folder / "nvprof.csv"
    path.write_text(nvprof.GPU + nvprof.API)
    seeds.append(Seed("nvprof_csv", path))
    path = folder / "rocminfo.txt"
    path.write_text(rocminfo.TEXT)
    seeds.append(Seed("rocminfo", path))
    path = folder / "unitrace.txt"
    path.write_text(unitrace_sums.SUMMARY)
    seeds.append(Seed("unitrace_summary", path))
    path = folder / "rocprofv3.txt"
    path.write_text(rocm_sums.SUMMARY)
    seeds.append(Seed("rocprofv3_summary", path))
    for name, text in gtpin.FILES.items():
        path = folder / f"gtpin-{name}.txt"
        path.write_text(text)
        seeds.append(Seed("gtpin", path))
    for name, text in likwid.FILES.items():
        path = folder / f"likwid-{name}.txt"
        path.write_text(text)
        seeds.append(Seed("likwid", path))
    seeds.append(Seed("nvprof", nvprof_file.write_file(folder / "timeline.nvvp")))
    path = folder / "printed.log"
    path.write_text(
        printed.NEW
        + printed.OLD
        + printed.OLDEST
        + printed.NVPROF
        + traces_of.NSYS
        + traces_of.COUNTERS
    )
    seeds.append(Seed("nvidia_text", path))
    path = folder / "memory.json"
    path.write_text(memory.document(memory.ENTRY, memory.ENTRY))
    seeds.append(Seed("torch_memory", path))
    path = folder / "kernels.ncu-rep"
    path.write_bytes(profiled.with_code())
    seeds.append(Seed("ncu_rep", path))
    export = Export()
    for number in range(40):
        export.api("cudaLaunchKernel", 1000 * number, 1000 * number + 90, number + 1)
        export.kernel(f"k{number % 5}", 1000 * number + 100, 1000 * number + 800, number + 1)
    database = export.write(folder / "nsys.sqlite")
    seeds.append(Seed("nsys", database))
    report = Report(per_block=20)
    for number in range(40):
        report.call("cudaLaunchKernel", start=9 * number, end=9 * number + 2, correlation=number)
        report.kernel(
            f"k{number % 5}", start=9 * number + 3, end=9 * number + 8, correlation=number
        )
        report.range(f"step {number}", start=9 * number, end=9 * number + 9)
        report.call("read", start=number, end=number + 1, kind=OSRT, frames=[("main", "app")])
    for kind, ending in (("nsys_rep", "nsys-rep"), ("qdstrm", "qdstrm")):
        seeds.append(Seed(kind, report.write(folder / f"whole.{ending}")))
    seeds += _record_perf(folder / "cpu.perf.data")
    for ending in ("parquet", "arrow"):
        seeds.append(
            Seed(f"nsys_{ending}", write_folder(database, folder / f"nsys.{ending}dir", ending))
        )
    seeds.append(Seed("events", _events(folder / "rank0.events")))
    run_folder = folder / "recorded.sightline"
    run_folder.mkdir()
    shutil.copy(folder / "rank0.events", run_folder / "rank0-0123abcd-77.events")
    shutil.copy(seeds[0].path, run_folder / "rank0-0123abcd-77.torch-0.json")
    facts = {"format": "sightline-recorded", "version": 1, "command": ["python"], "notes": []}
    (run_folder / "0123abcd-7.recorded.json").write_text(json.dumps(facts))
    seeds.append(Seed("run_folder", run_folder))
    store = folder / "kept.sightline"
    sightline.save(sightline.open(str(seeds[0].path)), str(store))
    seeds.append(Seed("store", store))
    for name, text in CHECKERS.items():
        path = folder / f"{name}.checks"
        path.write_text(text)
        seeds.append(Seed(name, path))
    seeds += [Seed(kind, path) for kind, path in write_recorded(folder / "recorded")]
    rules = folder / "mine.yaml"
    rules.write_text(RULES)
    seeds.append(Seed("rules", rules, seeds[0].path))
    seeds.append(Seed("cache", folder / "cache-of-trace", seeds[0].path))
    return seeds


def write_programs(folder: Path) -> Path:
    """Stand-in for NVIDIA's importer: a stream is a report."""
    folder.mkdir(parents=True)
    program = folder / "QdstrmImporter"
    program.write_text('#!/bin/sh\ncp "$2" "$4"\n')
    program.chmod(0o755)
    return folder


def _write_jobs(folder: Path) -> list[Seed]:
    """What Slurm's commands print, and archives and databases of ClusterCockpit."""
    folder.mkdir()
    texts = {
        "slurm_accounting": f"{slurm.NAMES}\n{slurm.JOB}\n{slurm.JOB}\n",
        "slurm_json": json.dumps({"jobs": [slurm.ACCOUNTED] * 3}),
        "slurm_text": slurm.CONTROL + slurm.NODE,
        "clustercockpit_file": json.dumps(cockpit.META),
        "clustercockpit_cluster": json.dumps(cockpit.CLUSTER),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    job = cockpit.write_archive(folder / "archive")
    database = cockpit.write_database(folder / "clustercockpit.db")
    return [
        *(Seed(name, folder / name) for name in texts),
        Seed("clustercockpit", job),
        Seed("clustercockpit_db", database),
        Seed("clustercockpit_parquet", rows.write_seed(folder / "rows") / rows.NAME),
    ]


def list_ncu_rows() -> list[list[str]]:
    """Lines of a table of ncu's: its header, and a metric of each kernel."""
    metric = ["Speed Of Light", "Duration", "us", "12.5", "", "", "", "", ""]
    return [ncu_csv.LONG, *([*ncu_csv.kernel(n), *metric] for n in range(5))]


def _record_perf(path: Path) -> list[Seed]:
    """perf's own file, where perf is here and may record."""
    if shutil.which("perf") is None:
        return []
    work = [sys.executable, "-c", "sum(range(3_000_000))"]
    how = ["-q", "-e", "cpu-clock", "-F", "199", "--call-graph", "fp", "-o", str(path)]
    done = subprocess.run(["perf", "record", *how, "--", *work], capture_output=True, check=False)
    return [Seed("perf_data", path)] if done.returncode == 0 else []


def _trace(path: Path) -> Path:
    events = [t.step(n, 1000 * n, 900) for n in range(4)]
    for n in range(40):
        events += [
            t.op(f"aten::op{n % 7}", 100 * n, 60),
            t.launch(100 * n + 5, 5, n + 1),
            t.kernel(f"kernel_{n % 9}", 100 * n + 20, 70, n + 1),
        ]
    return t.write(path.parent, events, path.name)


def _events(path: Path) -> Path:
    file = Recorder(path)
    names = [file.name(n) for n in ("attention", "mlp", "all the rest of it")]
    for n in range(60):
        chunk, at = file.begin(names[n % 3], now())
        end(chunk, at, now(), f.RANGE)
        file.sample("power [W]", now(), 100.0 + n, 0)
    file.fact(rank=0, sightline="0")
    file.close()
    return path
