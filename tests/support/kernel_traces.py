"""Traces of LTTng's kernel tracer, written bit by bit: one stream for each CPU core."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

from support.ctf_traces import Bits, declare_events, write_trace

# net.h of lttng-modules as LTTng writes it for x86, where all is aligned to bytes.
_BE = "integer {{ size = {size}; align = {align}; signed = 0; byte_order = be; }} {name};"


def _declare(*fields: tuple[str, int]) -> str:
    """Fields of big-endian numbers: name and bits."""
    return " ".join(
        _BE.format(name=f"_{name}", size=size, align=8 if size % 8 == 0 else 1)
        for name, size in fields
    )


_PORTS = (("source_port", 16), ("dest_port", 16))
_TRANSPORT = (
    "enum : uint8_t { _unknown = 0, _tcp = 1, _udp = 2 } _transport_header_type; "
    "variant <_transport_header_type> { struct {} _unknown; struct { "
    + _declare(
        *_PORTS, ("seq", 32), ("ack_seq", 32), ("data_offset", 4), ("reserved", 3), ("flags", 9),
        ("window_size", 16), ("checksum", 16), ("urg_ptr", 16),
    )
    + " } _tcp; struct { "
    + _declare(*_PORTS, ("len", 16), ("check", 16))
    + " } _udp; } _transport_header;"
)  # fmt: skip
_PACKET = (
    "uint64_t _skbaddr; uint32_t _len; string _name; "
    "enum : uint8_t { _unknown = 0, _ipv4 = 1, _ipv6 = 2 } _network_header_type; "
    "variant <_network_header_type> { struct {} _unknown; struct { "
    + _declare(
        ("version", 4), ("ihl", 4), ("tos", 8), ("tot_len", 16), ("id", 16), ("frag_off", 16),
        ("ttl", 8), ("protocol", 8), ("checksum", 16),
    )
    + f" uint8_t _saddr[4]; uint8_t _daddr[4]; {_TRANSPORT} }} _ipv4; struct {{ "
    + _declare(
        ("version", 4), ("prio", 4), ("flow_lbl", 24), ("payload_len", 16), ("nexthdr", 8),
        ("hop_limit", 8),
    )
    + f" uint8_t _saddr[16]; uint8_t _daddr[16]; {_TRANSPORT} }} _ipv6; }} _network_header;"
)  # fmt: skip
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
    ("net_dev_queue", _PACKET),
    ("net_if_receive_skb", _PACKET),
    ("irq_softirq_entry", "uint32_t vec;"),
    ("irq_softirq_exit", "uint32_t vec;"),
]
_NUMBERS = {name: number for number, (name, _) in enumerate(EVENTS)}
CONTEXT = "packet.context := struct { uint32_t cpu_id; };"
RUNNABLE, SLEEPS, UNINTERRUPTIBLE = 0, 1, 2  # prev_state
NET_RX, BLOCK = 3, 4  # vectors of softirqs

Segment = tuple[int, int, int, int, int]  # ports it comes from and goes to, seq, ack, flags


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

    def packet(
        self, at: int, core: int, direction: str, segment: Segment, *, is_v6: bool = False
    ) -> KernelTrace:
        """A TCP packet without data, from 10.0.0.1 or ::1 to 10.0.0.2 or ::2."""
        tcp = struct.pack(">HHIIHHHH", *segment[:4], 5 << 12 | segment[4], 64, 0, 0)
        if is_v6:
            addresses = b"".join(bytes(15) + bytes([n]) for n in (1, 2))
            header = struct.pack(">IHBB", 6 << 28, 20, 6, 64) + addresses
        else:
            header = struct.pack(">BBHHHBBH", 0x45, 0, 40, 7, 0, 64, 6, 0)
            header += bytes([10, 0, 0, 1, 10, 0, 0, 2])
        name = {"sent": "net_dev_queue", "received": "net_if_receive_skb"}[direction]
        fields = (0xFFFF, 64), (40, 32), "eth0", (2 if is_v6 else 1, 8), header, (1, 8), tcp
        return self.add(at, core, name, *fields)

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

    def write(self, folder: Path, *, offset: int = 1000, host: str = "n1") -> Path:
        streams = []
        for core, events in sorted(self._of_core.items()):
            bits = Bits().integer(core, 32)
            for at, number, fields in sorted(events, key=lambda event: event[0]):
                bits.integer(number, 8).integer(at, 64)
                for field in fields:
                    if isinstance(field, str):
                        bits.text(field)
                    elif isinstance(field, bytes):
                        bits.raw(field)
                    else:
                        bits.integer(*field)
            streams.append(bits.bytes())
        env = f'hostname = "{host}"; tracer_name = "lttng-modules";'
        metadata = declare_events(EVENTS, context=CONTEXT, env=env)
        metadata = metadata.replace("offset = 1000", f"offset = {offset}")
        return write_trace(folder, metadata, *streams)
