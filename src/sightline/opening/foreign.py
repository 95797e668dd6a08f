"""Files that people give and that are not recordings, or not in a form that is read: what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sightline.opening.foreign_cluster import CLUSTER_FILES


@dataclass(frozen=True)
class Foreign:
    """What a file is, and what to type instead where there is something."""

    pattern: bytes  # in the file's head
    what: str
    hint: str | None = None


_NSYS = """\
Export it as SQLite:  nsys export --type sqlite REPORT.nsys-rep
then:                 sightline REPORT.sqlite"""
_SMI = "Log the GPUs with  nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv -l 1"
_ROCM = "Record a timeline:  rocprofv3 --sys-trace -- PROGRAM"
_WORKLOAD = "Give the folder that it lies in: it has the kernels and their counters."
_HPCTOOLKIT = "Give the folder of the database:  sightline DATABASE"
_PERFETTO = "Make it binary:  protoc --encode=perfetto.protos.Trace perfetto_trace.proto"
_FOREIGN = (
    Foreign(rb"\A\s*\{\s*\}\s*\Z", "it is an empty object of JSON, and holds nothing"),
    Foreign(
        rb'\A\s*(?:<\?xml[^>]*>\s*)?<session version="\d+" name="[^"]*\.nvvp"',
        "it is a session of the Visual Profiler, which names its recordings and holds none",
        "Give what the program's profile was saved to:  nvprof -o FILE.nvprof -- PROGRAM",
    ),
    Foreign(
        rb'^"?Node_Id"?,"?Logical_Node_Id"?,"?Agent_Type"?,',
        "it is rocprofv3's list of a machine's agents, without kernels",
        "Give the folder with its traces; where they are empty, nothing was recorded.",
    ),
    Foreign(
        rb"^GPU\s*:\s*\d+\s*\nName\s*:",
        "it is rocprofv3's list of what a GPU can count, and no measurement",
        _ROCM,
    ),
    Foreign(
        rb"^=+ ROCm System Management Interface =+",
        "it is a screen of rocm-smi: one moment of the machine, without the program",
        _ROCM,
    ),
    Foreign(
        rb"^workload_name,command,",
        "it is the description of a machine by rocprof-compute, without kernels",
        _WORKLOAD,
    ),
    Foreign(
        rb"^device,HBMBw,",
        "it is rocprof-compute's measurement of a GPU's ceilings, without kernels",
        _WORKLOAD,
    ),
    Foreign(
        rb"^Dispatch_ID,Kernel_Name,GPU_ID\r?\n",
        "it is rocprof-compute's list of dispatches, without their times and counters",
        _WORKLOAD,
    ),
    Foreign(
        rb"^(?:\w+: [^\n]*\n)*?(?:config_dir|format_rocprof_output): ",
        "it holds the settings of rocprof-compute, and no measurement",
        _WORKLOAD,
    ),
    Foreign(
        rb"^(?:\[profiling\]|(?:Omniperf|rocprof-compute) version: )",
        "it is the log of rocprof-compute, and no measurement",
        _WORKLOAD,
    ),
    Foreign(
        rb"^(?:pmc|att): *\w+",
        "it is an input file of rocprof: what to record, and no recording",
        "Record with it:  rocprofv3 -i INPUT -- PROGRAM",
    ),
    Foreign(
        rb"<\w+ id\(\d+\)\s+correlation_id\(\d+\) on-enter|rocTX <\"",
        "it is what roctracer's tests print: calls without their times",
        _ROCM,
    ),
    Foreign(
        rb"^ROCProfilerV2: Collecting",
        "it is the log of a rocprofv2 that recorded no kernel",
        _ROCM,
    ),
    Foreign(
        rb"^# dummy\n\w+_trace --check-",
        "it is the list of roctracer's tests, and no recording",
    ),
    Foreign(
        rb'^\s*\{\s*"(?:tokens|counter_names)"\s*:|^\s*\{\s*"/"\s*:',
        "it belongs to a decoded thread trace of AMD, whose instructions are in code.json",
        "Give that file:  sightline code.json",
    ),
    Foreign(
        rb'^\s*\{\s*"tritonparse_url_prefix"\s*:',
        "it is tritonparse's list of its files",
        "Give one of the files that it lists.",
    ),
    Foreign(
        rb"^\s*Function:\S+\s*\n[^\n]*(?://##|/\*0)",
        "it is the machine code of a kernel, without measurements",
        "Nsight Compute measures each instruction:  ncu --set full -o REPORT PROGRAM",
    ),
    Foreign(
        rb"^PROJECTIONS(?:-RECORD|_ID)|^RC_GLOBAL_START_TIME ",
        "it is a log of Charm++ (Projections), which has no GPU and is not read",
    ),
    Foreign(
        rb"^(?:#[^\n]*\n|\s)*(?:packet|android_gpu) ?\{",
        "it is a Perfetto trace, or an answer to a query of one, in the text form of its tests",
        _PERFETTO,
    ),
    Foreign(
        rb"^HPCTOOLKIT(?:ctxt|meta|prof|trce)",
        "it is one file of an HPCToolkit database, which is read as a whole",
        _HPCTOOLKIT,
    ),
    Foreign(
        rb"^HPCPROF-metricdb",
        "it holds the metrics of one thread of an HPCToolkit database, whose names are elsewhere",
        _HPCTOOLKIT,
    ),
    Foreign(
        rb"^A full HPCToolkit database consists|^%YAML 1\.2\s+---\s+# Specification and example "
        rb"document for metric|^version: 0\s+inputs:\s+- &",
        "it describes an HPCToolkit database, and is not one itself",
        _HPCTOOLKIT,
    ),
    Foreign(
        rb"^SCOREP_\w+=",
        "it holds the settings of Score-P, and no measurement",
        "Give traces.otf2, which lies next to it.",
    ),
    Foreign(
        rb'^\s*\{\s*"timemory"\s*:',
        "it is a profile of timemory, which is not read",
        "perf, py-spy and Caliper write what is read.",
    ),
    Foreign(
        rb'^\s*\{\s*"start_time"\s*:[^{}]*"sample_count"\s*:',
        "it is a profile of pyinstrument as JSON, which is not read",
        "pyinstrument writes what is read with  -r speedscope",
    ),
    Foreign(
        rb"^\[[A-Za-z][\w ]*\]\r?\n",
        "it holds settings (INI), and no measurement",
    ),
    Foreign(
        rb"^\x03\x42(?:OTF2|\x01)",
        "it is one file of an OTF2 archive, which is read as a whole",
        "Give the folder that traces.otf2 lies in.",
    ),
    Foreign(
        rb"(?:^|\n)ROCTracer \(",
        "it is the log of a roctracer that recorded no call",
        _ROCM,
    ),
    Foreign(
        rb"^\s*(?:strict )?digraph\b",
        "it is a drawing of a graph (Graphviz), without what it was drawn of",
    ),
    Foreign(
        rb'^\s*\{\s*"(?:type|Type)"\s*:\s*"?\w+"?\s*,\s*"(?:id|value)"\s*:',
        "it is an Nsight Systems export as JSON lines, which is not read",
        _NSYS,
    ),
    Foreign(
        rb"^(?:\xef\xbb\xbf)?\"?(?:Start \(ns\)|Time \(%\)|Time\(%\))\"?,",
        "it is a table of nsys stats, which is not read",
        _NSYS,
    ),
    Foreign(
        rb"^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs\"?,?",
        "it is a summary of rocprofv3, without the single kernels and calls",
        "Give the trace that it was made of, or record one:  rocprofv3 --sys-trace -- PROGRAM",
    ),
    Foreign(
        rb"^\x80[\x02-\x05]",
        "it is a Python pickle, but no memory snapshot of PyTorch; other pickles are not read",
        "torch.cuda.memory._dump_snapshot(PATH) writes a memory snapshot.",
    ),
    Foreign(
        rb"^\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg",
        "it is a picture (SVG)",
        "py-spy writes what is read with  --format speedscope",
    ),
    Foreign(
        rb'^\s*\{(?:\s*"cells"\s*:\s*\[\s*\{.{0,300}"cell_type"|.{0,65000}"nbformat"\s*:\s*\d)',
        "it is a Jupyter notebook",
    ),
    Foreign(rb"^%PDF-", "it is a PDF document"),
    Foreign(rb"^(?:\x89PNG|\xff\xd8\xff|GIF8)", "it is a picture"),
    Foreign(rb"^PK\x03\x04", "it is a ZIP archive", "Unpack it, and give what is in it."),
    Foreign(rb"^.{257}ustar", "it is a tar archive", "Unpack it, and give what is in it."),
    Foreign(rb"^(?:\x7fELF|MZ)", "it is a program", "To record it:  sightline run -- PROGRAM"),
    Foreign(rb"^\s*<(?:!DOCTYPE html|html)", "it is an HTML page"),
    Foreign(
        rb"(?:\A|\n)==ERROR== (?:ERR_NVGPUCTRPERM|The user does not have permission to )",
        "it is what a program printed under ncu, which was refused the GPU's counters "
        "(ERR_NVGPUCTRPERM): nothing was measured",
        "Record again as root, or let all users read counters (NVIDIA's page ERR_NVGPUCTRPERM: "
        "NVreg_RestrictProfilingToAdminUsers=0; on Windows the NVIDIA control panel).",
    ),
    Foreign(
        rb"(?:\A|\n)==(?:ERROR|WARNING)== No kernels were profiled",
        "it is what a program printed under ncu, which profiled no kernel",
        "Look at what the program printed; check the filters (-k, --launch-skip), and add "
        "--target-processes all where it starts others.",
    ),
    Foreign(
        rb"^NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        "nvidia-smi did not reach the driver, so it measured nothing",
        "Load it (modprobe nvidia); after a kernel's update rebuild it (dkms autoinstall).",
    ),
    Foreign(
        rb"^Failed to initialize NVML: Driver/library version mismatch",
        "nvidia-smi and the loaded driver differ in version, so it measured nothing",
        "Restart the machine, or load the driver that was installed (rmmod and modprobe nvidia).",
    ),
    Foreign(
        rb"^(?:Failed to initialize NVML: [^\n]+|No devices were found)\s*$",
        "nvidia-smi found no GPU that it can ask, so it measured nothing",
        "dmesg | grep NVRM  says why; in a container, start it with the GPUs (--gpus all).",
    ),
    Foreign(
        rb"^\s*\+-+\+\s*\| (?:Compute instance profiles|(?:GPU|Compute) instances): +\|",
        "it is nvidia-smi's list of instances of divided GPUs, and no measurement",
        _SMI,
    ),
    Foreign(
        rb"\A\s*GPU \d{1,3}: [^\n]{1,120}\(UUID: GPU-[^\n]*"
        rb"(?:\n[ \t\r]*(?:GPU \d{1,3}: [^\n]{1,120}\(UUID: GPU-[^\n]*|MIG \S+ [^\n]*)?)*\Z",
        "it is nvidia-smi's list of GPUs, and no measurement",
        _SMI,
    ),
    Foreign(
        rb"^List of valid properties to query for the switch",
        "it is nvidia-smi's list of what can be asked, and no measurement",
        _SMI,
    ),
    Foreign(
        rb"^#[^\n]*\n(?:#[^\n]*\n|\s*\n)*\s*dcgm_\w+\s*,\s*(?:gauge|counter|label)",
        "it is dcgm-exporter's list of what to export, and no measurement",
        "Give what it exports:  curl -s http://HOST:9400/metrics > gpus.metrics",
    ),
    Foreign(
        rb"^dataset,network,batch_size,optimizer,",
        "it is a table of Zeus' experiments, without times",
        "Windows that ZeusMonitor logged are read (log_file=…).",
    ),
    Foreign(rb'^\s*\{\s*"items"\s*:\s*\[\s*\{\s*"label"', "it is a list of electricity prices"),
    Foreign(rb"^go test fuzz v1\n", "it is an input of a Go fuzz test"),
    Foreign(
        rb"^\w+\{[^}\n]* \.\.\. [^}\n]*\}",
        "it is a piece of Prometheus metrics with labels left out",
        "Give what an exporter says:  curl -s http://HOST:9400/metrics > gpus.metrics",
    ),
    *(Foreign(*row) for row in CLUSTER_FILES),
)


def recognise_foreign(head: bytes) -> Foreign | None:
    """What the file is, if it is one of those that are known to be no recording."""
    return next(
        (f for f in _FOREIGN if re.search(f.pattern, head, re.DOTALL | re.IGNORECASE)), None
    )
