"""The command lines of the tools that record, as a person would type them.

Flags: Nsight Systems User Guide, "CLI Profile Command Switch Options"; Nsight Compute CLI,
"Command Line Options" (docs.nvidia.com/nsight-systems, /nsight-compute); perf-record(1);
py-spy's README; ROCprofiler-SDK, "Using rocprofv3" and "Using PC sampling" (rocm.docs.amd.com);
intel/pti-gpu, tools/unitrace/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PERF_HZ = 199  # not a round number, so that samples do not fall into step with timers (perf wiki)
PY_SPY_HZ = 100  # py-spy's own default


def nsys(command: Sequence[str], output: Path, options: dict[str, Any]) -> list[str]:
    """`nsys profile` around a command. The exit code is the program's (--wait all keeps it)."""
    words = [
        "nsys", "profile", "--output", str(output), "--force-overwrite", "true",
        "--export", "sqlite", "--trace", "cuda,nvtx,osrt,cublas,cudnn",
        "--cuda-graph-trace", options.get("graph") or "node",
        "--cuda-memory-usage", "true" if options.get("question") == "memory" else "false",
        # Samples of the CPU cost time and often a permission: asked for with the backend cpu.
        "--sample", "process-tree" if options.get("cpu") else "none",
        "--cpuctxsw", "process-tree" if options.get("cpu") else "none",
        "--wait", "all",
    ]  # fmt: skip
    if options.get("mpi"):
        words[words.index("--trace") + 1] += ",mpi"
    if options.get("capture"):
        words += ["--capture-range", "cudaProfilerApi", "--capture-range-end", "stop"]
    if options.get("after_s"):
        words += ["--delay", f"{options['after_s']:g}"]
    if options.get("seconds"):
        words += ["--duration", f"{options['seconds']:g}", "--kill", "none"]
    return [*words, *command]


def ncu(command: Sequence[str], output: Path, options: dict[str, Any]) -> list[str]:
    """`ncu` around a command. Clocks stay as they are unless `lock_clocks` asks for base clocks."""
    words = [
        "ncu",
        "--export",
        str(output),
        "--force-overwrite",
        "--target-processes",
        "all",
        "--set",
        options.get("set") or "full",
        "--import-source",
        "yes",
        "--replay-mode",
        options.get("replay") or "kernel",
        "--graph-profiling",
        options.get("graph") or "node",
        "--clock-control",
        "base" if options.get("lock_clocks") else "none",
    ]
    if options.get("kernel"):
        words += ["--kernel-name", f"regex:{options['kernel']}"]
    if options.get("launch_skip"):
        words += ["--launch-skip", str(options["launch_skip"])]
    # Without a limit a training run is replayed for days.
    words += ["--launch-count", str(options.get("launch_count") or 50)]
    if options.get("capture"):
        words += ["--profile-from-start", "off"]
    return [*words, *command]


# Where AMD advises to begin (ROCm Compute Profiler, "Using PC sampling"): 2^20 cycles; the method
# that older GPUs have counts µs instead, and takes 1 µs at the least.
_AMD_PERIOD, _AMD_PERIOD_US = 20, 10


def rocprofv3(
    command: Sequence[str], folder: Path, name: str, options: dict[str, Any]
) -> list[str]:
    """`rocprofv3` around a command: a timeline, or (`samples`) where waves stall.

    Each process writes a file of its own, named by its number. PC samples are only in JSON and CSV.
    """
    words = ["rocprofv3", "--output-directory", str(folder), "--output-file", f"{name}.%pid%"]
    if options.get("samples"):
        is_hardware = options.get("amd_sampling") != "host_trap"
        interval = 1 << (options.get("period") or _AMD_PERIOD) if is_hardware else _AMD_PERIOD_US
        words += ["--kernel-trace", "--pc-sampling-beta-enabled",
                  "--pc-sampling-method", "stochastic" if is_hardware else "host_trap",
                  "--pc-sampling-unit", "cycles" if is_hardware else "time",
                  "--pc-sampling-interval", str(interval), "--output-format", "json"]  # fmt: skip
    else:
        words += ["--runtime-trace", "--output-format", "rocpd"]
    if options.get("after_s") or options.get("seconds"):
        # START:LENGTH:REPEAT, in s unless told otherwise; whole ms are exact.
        delay = round(1000 * (options.get("after_s") or 0))
        length = round(1000 * (options.get("seconds") or _LONG_S))
        words += ["--collection-period", f"{delay}:{length}:1", "--collection-period-unit", "msec"]
    return [*words, "--", *command]


_LONG_S = 1_000_000  # as long as the program runs


def rocprofv3_attach(pid: int, folder: Path, name: str, seconds: float) -> list[str]:
    """`rocprofv3` inside a running program that was started with ROCP_TOOL_ATTACH=1.

    ROCprofiler-SDK, "Dynamic process attachment using rocprofv3".
    """
    return [
        "rocprofv3", "--attach", str(pid), "--attach-duration-msec", str(round(1000 * seconds)),
        "--runtime-trace", "--output-format", "rocpd",
        "--output-directory", str(folder), "--output-file", name,
    ]  # fmt: skip


def unitrace(command: Sequence[str], folder: Path, name: str, options: dict[str, Any]) -> list[str]:
    """`unitrace` around a command: a timeline, or (`samples`) where EUs stall.

    Its timeline is named after the program and its process, and samples after `name`.
    """
    words = ["unitrace", "--output-dir-path", str(folder)]
    if options.get("samples"):
        words += ["--stall-sampling", "--output", f"{name}.csv"]
    else:
        words += ["--chrome-kernel-logging"]
        if not options.get("no_calls"):
            words += ["--chrome-call-logging"]
        if options.get("mpi"):
            words += ["--chrome-mpi-logging"]
    return [*words, *command]


def perf(pid: int | str, data: Path, control: tuple[int, int] | None) -> list[str]:
    """`perf record` attached to a process and all that it starts, on the monotonic clock."""
    words = [
        "perf", "record", "--pid", str(pid), "--output", str(data), "-F", str(PERF_HZ),
        # A virtual machine often has no cycle counter; this clock every kernel has.
        "-e", "cpu-clock", "--call-graph", "fp", "--clockid", "monotonic", "--quiet",
    ]  # fmt: skip
    if control is not None:
        words += ["--delay", "-1", "--control", f"fd:{control[0]},{control[1]}"]
    return words


# What the kernel tells of threads (perf list): who runs, who wakes whom, interrupts, disks, and the
# calls in which threads wait for locks and files.
SYSTEM_EVENTS = (
    "sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup_new",
    "sched:sched_process_fork", "irq:irq_handler_entry", "irq:irq_handler_exit",
    "irq:softirq_entry", "irq:softirq_exit", "timer:hrtimer_expire_entry",
    "timer:hrtimer_expire_exit", "block:block_rq_issue", "block:block_rq_complete",
)  # fmt: skip
# Of perf itself they would be recorded for ever: each write of its file is one.
CALL_EVENTS = tuple(
    f"syscalls:sys_{side}_{call}"
    for call in ("futex", "read", "pread64", "write", "pwrite64", "fsync", "fdatasync")
    for side in ("enter", "exit")
)


def perf_system(
    data: Path,
    control: tuple[int, int],
    events: Sequence[str] = SYSTEM_EVENTS,
    calls: Sequence[str] = CALL_EVENTS,
) -> list[str]:
    """`perf record` of the kernel's events on all CPUs, on the monotonic clock."""
    return [
        "perf", "record", "--all-cpus", "--output", str(data), "-e", ",".join(events),
        *(["-e", ",".join(calls), "--exclude-perf"] if calls else []),
        "--clockid", "monotonic", "--quiet", "--delay", "-1",
        "--control", f"fd:{control[0]},{control[1]}",
    ]  # fmt: skip


def perf_script(data: Path, *, is_trace: bool = False) -> list[str]:
    """The samples, or the kernel's events, as text, which the importer reads."""
    fields = "comm,pid,tid,time,period,event,ip,sym,dso"
    if is_trace:
        fields = "comm,pid,tid,cpu,time,event,trace"
    return ["perf", "script", "--input", str(data), "--ns", "-F", fields]


def py_spy(program: str, pid: int | str, output: Path) -> list[str]:
    """`py-spy record` attached to a process and its children, until they end."""
    return [
        program,
        "record",
        "--pid",
        str(pid),
        "--subprocesses",
        "--format",
        "speedscope",
        "--output",
        str(output),
        "--rate",
        str(PY_SPY_HZ),
        "--duration",
        "unlimited",
        # Stacks are read without stopping the program: one may be torn, none delays it.
        "--nonblocking",
    ]


def wrap_command(
    command: Sequence[str],
    backends: Sequence[str],
    folder: Path,
    stem: str,
    options: dict[str, Any],
) -> list[str]:
    """The command with the vendor's tool around it, where one is taken."""
    if "ncu" in backends:
        return ncu(command, folder / f"{stem}.ncu", options)
    if "nsys" in backends:
        own = {**options, "cpu": "cpu" in backends}
        return nsys(command, folder / f"{stem}.nsys", own)
    if "rocprofv3" in backends:
        return rocprofv3(command, folder, f"{stem}.rocprofv3", options)
    if "unitrace" in backends:
        return unitrace(command, folder, f"{stem}.unitrace", options)
    return list(command)
