"""perf: what is known of it, and its command lines (perf-record(1), perf-script(1))."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sightline.record.collect.backend import Fact, Facts, Missing

PERF_HZ = 199  # not a round number, so that samples do not fall into step with timers (perf wiki)
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
PERF = Fact("perf", 80, lambda look: look.find_version("perf"))
LEVEL = Fact(
    "perf_event_paranoid",
    161,
    lambda look: look.read_number("proc/sys/kernel/perf_event_paranoid"),
)


def check_perf(facts: Facts, root: bool) -> Iterator[Missing]:
    """What is missing for perf itself."""
    if facts["perf"] is None:
        yield Missing(
            "perf, which samples native code, is not installed",
            (
                "sudo apt-get install linux-perf               # Debian",
                "sudo apt-get install linux-tools-$(uname -r)  # Ubuntu",
            ),
            "https://perf.wiki.kernel.org",
        )


def sample_process(pid: int | str, data: Path, control: tuple[int, int] | None) -> list[str]:
    """`perf record` attached to a process and all that it starts, on the monotonic clock."""
    words = [
        "perf", "record", "--pid", str(pid), "--output", str(data), "-F", str(PERF_HZ),
        # A virtual machine often has no cycle counter; this clock every kernel has.
        "-e", "cpu-clock", "--call-graph", "fp", "--clockid", "monotonic", "--quiet",
    ]  # fmt: skip
    if control is not None:
        words += ["--delay", "-1", "--control", f"fd:{control[0]},{control[1]}"]
    return words


def trace_system(
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


def print_samples(data: Path, *, is_trace: bool = False) -> list[str]:
    """The samples, or the kernel's events, as text, which the importer reads."""
    fields = "comm,pid,tid,time,period,event,ip,sym,dso"
    if is_trace:
        fields = "comm,pid,tid,cpu,time,event,trace"
    return ["perf", "script", "--input", str(data), "--ns", "-F", fields]
