"""Traces of LTTng's kernel tracer, written bit by bit: one stream for each CPU core."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from support.ctf_traces import Bits, declare_events, write_trace

EVENTS = [
    (
        "sched_switch",
        "string prev_comm; uint32_t prev_tid; uint64_t prev_state; string next_comm; "
        "uint32_t next_tid;",
    ),
    ("sched_waking", "string comm; uint32_t tid; uint32_t target_cpu;"),
    ("irq_handler_entry", "uint32_t irq; string name;"),
    ("irq_handler_exit", "uint32_t irq; uint32_t ret;"),
    ("syscall_entry_read", "uint32_t fd;"),
    ("syscall_exit_read", "integer { size = 64; align = 8; signed = true; } ret;"),
    ("block_rq_issue", "uint32_t dev; uint64_t sector; uint32_t nr_sector; uint32_t rwbs;"),
    ("block_rq_complete", "uint32_t dev; uint64_t sector; uint32_t nr_sector; uint32_t rwbs;"),
    ("softirq_entry", "uint32_t vec;"),
    ("softirq_exit", "uint32_t vec;"),
    ("syscall_entry_futex", "uint64_t uaddr; uint32_t op;"),
    (
        "syscall_exit_futex",
        "integer { size = 64; align = 8; signed = true; } ret; uint64_t uaddr; uint64_t uaddr2;",
    ),
    ("sched_wakeup_new", "string comm; uint32_t tid; uint32_t target_cpu;"),
    ("timer_hrtimer_expire_entry", "uint64_t hrtimer;"),
    ("timer_hrtimer_expire_exit", "uint64_t hrtimer;"),
]
_NUMBERS = {name: number for number, (name, _) in enumerate(EVENTS)}
CONTEXT = "packet.context := struct { uint32_t cpu_id; };"
RUNNABLE, SLEEPS, UNINTERRUPTIBLE = 0, 1, 2  # prev_state
NET_RX, BLOCK = 3, 4  # vectors of softirqs


def switch(leaves: int, state: int, comes: int) -> list[Any]:
    """The fields of a `sched_switch` between threads of these numbers, named t<number>."""
    return [f"t{leaves}", (leaves, 32), (state, 64), f"t{comes}", (comes, 32)]


class KernelTrace:
    """Events of cores, in ns after the clock's zero (1000 ns, or `offset`)."""

    def __init__(self) -> None:
        self._of_core: dict[int, list[tuple[int, int, list[Any]]]] = defaultdict(list)

    def add(self, at: int, core: int, name: str, *fields: Any) -> KernelTrace:
        self._of_core[core].append((at, _NUMBERS[name], list(fields)))
        return self

    def switch(self, at: int, core: int, leaves: int, state: int, comes: int) -> KernelTrace:
        return self.add(at, core, "sched_switch", *switch(leaves, state, comes))

    def wake(self, at: int, core: int, tid: int, *, is_new: bool = False) -> KernelTrace:
        name = "sched_wakeup_new" if is_new else "sched_waking"
        return self.add(at, core, name, f"t{tid}", (tid, 32), (core, 32))

    def softirq(self, begin: int, end: int, core: int, vector: int) -> KernelTrace:
        self.add(begin, core, "softirq_entry", (vector, 32))
        return self.add(end, core, "softirq_exit", (vector, 32))

    def interrupt(self, begin: int, end: int, core: int, irq: int, name: str) -> KernelTrace:
        self.add(begin, core, "irq_handler_entry", (irq, 32), name)
        return self.add(end, core, "irq_handler_exit", (irq, 32), (1, 32))

    def timer(self, begin: int, end: int, core: int) -> KernelTrace:
        self.add(begin, core, "timer_hrtimer_expire_entry", (7, 64))
        return self.add(end, core, "timer_hrtimer_expire_exit", (7, 64))

    def futex(self, begin: int, begin_core: int, end: int, core: int, lock: int) -> KernelTrace:
        self.add(begin, begin_core, "syscall_entry_futex", (lock, 64), (0, 32))
        return self.add(end, core, "syscall_exit_futex", (0, 64), (lock, 64), (0, 64))

    def read(self, begin: int, end: int, core: int, returns: int) -> KernelTrace:
        self.add(begin, core, "syscall_entry_read", (5, 32))
        return self.add(end, core, "syscall_exit_read", (returns % 2**64, 64))

    def request(self, begin: int, end: int, core: int, sectors: int) -> KernelTrace:
        fields = [(8 << 20, 32), (4096, 64), (sectors, 32), (4, 32)]
        self.add(begin, core, "block_rq_issue", *fields)
        return self.add(end, core, "block_rq_complete", *fields)

    def write(self, folder: Path, *, offset: int = 1000) -> Path:
        streams = []
        for core, events in sorted(self._of_core.items()):
            bits = Bits().integer(core, 32)
            for at, number, fields in sorted(events, key=lambda event: event[0]):
                bits.integer(number, 8).integer(at, 64)
                for field in fields:
                    if isinstance(field, str):
                        bits.text(field)
                    else:
                        bits.integer(*field)
            streams.append(bits.bytes())
        env = 'hostname = "n1"; tracer_name = "lttng-modules";'
        metadata = declare_events(EVENTS, context=CONTEXT, env=env)
        metadata = metadata.replace("offset = 1000", f"offset = {offset}")
        return write_trace(folder, metadata, *streams)
