"""Packets between hosts in kernel traces: their matching, and critical paths through them."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from support.kernel_traces import NET_RX, RUNNABLE, SLEEPS, KernelTrace
from support.traces import op, write

REQUEST, REPLY = (5000, 80, 4_294_967_290, 17, 0x18), (80, 5000, 17, 4, 0x18)
# The traces of Trace Compass' DistributedCriticalPathTest (lttng2.kernel.core.tests,
# testfiles/graph: simple_network_server, simple_network_client, network_exchange_wifi), with TCP
# packets for its packet_sent and packet_received, and a switch at its last event's time.
SERVER = (
    KernelTrace()
    .switch(5, 1, 100, SLEEPS, 101)
    .interrupt(20, 25, 1, 15, "eth0")
    .softirq(30, 38, 1, NET_RX)
    .packet(33, 1, "received", REQUEST)
    .wake(35, 1, 100)
    .switch(40, 1, 101, RUNNABLE, 100)
    .packet(45, 1, "sent", REPLY)
    .switch(55, 1, 100, SLEEPS, 101)
)
CLIENT = (
    KernelTrace()
    .switch(10, 0, 201, RUNNABLE, 200)
    .packet(13, 0, "sent", REQUEST)
    .switch(15, 0, 200, SLEEPS, 201)
    .interrupt(50, 53, 0, 5, "mywifi")
    .softirq(60, 72, 0, NET_RX)
    .packet(65, 0, "received", REPLY)
    .wake(70, 0, 200)
    .switch(75, 0, 201, RUNNABLE, 200)
    .switch(80, 0, 200, SLEEPS, 201)
)
WIFI = (
    KernelTrace()
    .switch(10, 0, 201, RUNNABLE, 200)
    .packet(13, 0, "sent", REQUEST)
    .switch(15, 0, 200, SLEEPS, 201)
    .interrupt(50, 57, 0, 5, "mywifi")
    .wake(55, 0, 50)
    .add(60, 0, "sched_switch", "t201", (201, 32), (RUNNABLE, 64), "irq/30-handler", (50, 32))
    .packet(65, 0, "received", REPLY)
    .wake(70, 0, 200)
    .add(75, 0, "sched_switch", "irq/30-handler", (50, 32), (SLEEPS, 64), "t200", (200, 32))
    .switch(80, 0, 200, SLEEPS, 201)
)
# Its expected path. What it calls preempted between a wake-up and the switch is `woken` here, and
# one state is one row; of an edge between hosts it is the receiver's.
PATH = [
    (10, 15, 200, "running", 0),
    (15, 35, 100, "network", 1),
    (35, 40, 100, "woken", 1),
    (40, 45, 100, "running", 1),
    (45, 70, 200, "network", 0),
    (70, 75, 200, "woken", 0),
    (75, 80, 200, "running", 0),
]


def open_hosts(folder: Path, *traces: KernelTrace, offsets: tuple[int, ...] = (0, 0)) -> Run:
    paths = [
        trace.write(folder / f"host{n}", offset=offset, host=f"host{n}")
        for n, (trace, offset) in enumerate(zip(traces, offsets, strict=False))
    ]
    return sightline.open(*paths)


def find_path(run: Run, tid: int) -> list[tuple[Any, ...]]:
    columns = ("start_ns", "end_ns", "tid", "state", "depth")
    return run.ask("thread_critical_path", tid=tid).select(columns).rows()


@pytest.mark.parametrize("client", [CLIENT, WIFI], ids=["softirq", "threaded irq"])
def test_the_path_between_hosts_is_that_of_trace_compass(
    tmp_path: Path, client: KernelTrace
) -> None:
    run = open_hosts(tmp_path, SERVER, client)
    assert find_path(run, 200) == PATH
    ranks = run.ask("thread_critical_path", tid=200)["rank"].to_list()
    assert ranks == [1, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("client", "source"), [(CLIENT, "NET_RX"), (WIFI, "irq/30-handler")], ids=["softirq", "irq"]
)
def test_without_the_other_host_the_wait_is_the_networks(
    tmp_path: Path, client: KernelTrace, source: str
) -> None:
    """Also Trace Compass': its qualifier names the thread that handled the interrupt."""
    run = open_hosts(tmp_path, client)
    assert find_path(run, 200)[1] == (15, 70, 200, "network", 0)
    assert run.ask("thread_critical_path", tid=200)["source"].to_list()[1] == source


def test_a_packet_over_loopback_leads_to_the_sender_in_the_same_trace(tmp_path: Path) -> None:
    both = (
        KernelTrace()
        .switch(5, 1, 100, SLEEPS, 101)
        .switch(10, 0, 0, RUNNABLE, 200)
        .packet(25, 0, "sent", REQUEST, is_v6=True)
        .softirq(28, 38, 0, NET_RX)
        .packet(30, 0, "received", REQUEST, is_v6=True)
        .wake(35, 0, 100)
        .switch(40, 1, 101, RUNNABLE, 100)
        .switch(50, 1, 100, SLEEPS, 101)
    )
    run = open_hosts(tmp_path, both)
    assert find_path(run, 100) == [
        (5, 10, 200, "unknown", 1),
        (10, 25, 200, "running", 1),
        (25, 35, 100, "network", 0),
        (35, 40, 100, "woken", 0),
        (40, 50, 100, "running", 0),
    ]


@pytest.mark.parametrize("why", ["sent by an interrupt", "sent again", "another came last"])
def test_a_packet_that_no_thread_is_known_to_have_sent_is_not_followed(
    tmp_path: Path, why: str
) -> None:
    server = (
        KernelTrace()
        .switch(5, 1, 100, SLEEPS, 101)
        .switch(40, 1, 101, RUNNABLE, 100)
        .packet(45, 1, "sent", REPLY)
        .switch(55, 1, 100, SLEEPS, 101)
    )
    client = (
        KernelTrace()
        .switch(10, 0, 201, RUNNABLE, 200)
        .switch(15, 0, 200, SLEEPS, 201)
        .softirq(60, 72, 0, NET_RX)
        .packet(65, 0, "received", REPLY)
        .wake(70, 0, 200)
        .switch(75, 0, 201, RUNNABLE, 200)
        .switch(80, 0, 200, SLEEPS, 201)
    )
    if why == "sent by an interrupt":
        server.softirq(44, 46, 1, NET_RX)
    elif why == "sent again":
        server.packet(47, 1, "sent", REPLY)
    else:
        client.packet(67, 0, "received", REQUEST)
    run = open_hosts(tmp_path, server, client)
    assert find_path(run, 200)[1] == (15, 70, 200, "network", 0)


def test_of_two_hosts_that_have_a_thread_of_one_number_the_asked_one_is_taken(
    tmp_path: Path,
) -> None:
    run = open_hosts(tmp_path, CLIENT, CLIENT)
    for rank in (0, 1):
        path = run.ask("thread_critical_path", tid=200, rank=rank)
        assert path["rank"].unique().to_list() == [rank]
        assert path.select("start_ns", "state").rows()[1] == (15, "network")


def test_hosts_that_sent_packets_are_put_on_one_clock(tmp_path: Path) -> None:
    """The client's clock is 1 ms ahead: it has the reply before it was sent."""
    run = open_hosts(tmp_path, SERVER, CLIENT, offsets=(0, 10**6))
    rows = run.ask("clocks").select("rank", "moved_ns", "method", "anchors", "state").rows()
    # Both packets took 20 ns, and 500 parts per million of 52 ns are possible.
    assert rows == [(0, 0, "packets", 2, "moved"), (1, -1_000_000, "packets", 2, "moved")]
    assert find_path(run, 200) == PATH
    ranks = run.table("quality").filter(kind="rank_by_order")
    assert ranks["severity"].to_list() == ["info", "info"]
    assert ranks["text"][1].endswith("shown as rank 1")
    note = run.table("quality").filter(kind="clocks_aligned").item(0, "text")
    assert "by 2 TCP packets between hosts, ± 21 ns" in note


def test_all_ranks_on_a_host_are_moved_by_its_packets(tmp_path: Path) -> None:
    """Rank 0 is thread 100 on the server; 1 and 2 are 200 and 201 on the client, 1 ms ahead."""
    traces = [
        write(tmp_path, [op("work", at, 5, tid=tid)], f"rank{rank}.json")
        for rank, (tid, at) in enumerate([(100, 10), (200, 1010), (201, 1010)])
    ]
    server = SERVER.write(tmp_path / "server", offset=0)
    client = CLIENT.write(tmp_path / "client", offset=10**6)
    run = sightline.open(*traces, server, client)
    work = run.table("host_ops").filter(name="work").sort("rank")
    assert work.select("rank", "start_ns").rows() == [(0, 10_000), (1, 10_000), (2, 10_000)]
    assert run.ask("clocks").select("rank", "moved_ns").rows() == [
        (0, 0), (1, -1_000_000), (2, -1_000_000),
    ]  # fmt: skip
    assert find_path(run, 200) == PATH


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="babeltrace2 is not installed")
def test_headers_are_those_that_babeltrace2_prints(tmp_path: Path) -> None:
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, 7)
    for n, (header, is_v6) in enumerate(
        itertools.product([REQUEST, REPLY, (65535, 1, 0, 2**32 - 1, 0x1FF)], [False, True])
    ):
        trace.packet(10 + n, 0, "sent" if n % 3 else "received", header, is_v6=is_v6)
    folder = trace.write(tmp_path / "kernel", offset=0)
    printed = subprocess.run(["babeltrace2", folder], capture_output=True, check=True, text=True)
    lines = [line for line in printed.stdout.splitlines() if " net_" in line]
    fields = ("source_port", "dest_port", "seq", "ack_seq", "flags")
    expected = [
        tuple(int(re.search(rf"\b{name} = (\w+)", line)[1], 0) for name in fields) for line in lines
    ]
    packets = sightline.open(folder).table("packets")
    columns = ("source_port", "destination_port", "sequence", "acknowledged", "tcp_flags")
    assert packets.select(columns).rows() == expected
    assert len(expected) == 6
    assert packets["direction"].to_list() == [
        {"net_dev_queue": "sent"}.get(line.split()[3].rstrip(":"), "received") for line in lines
    ]


def test_packets_of_other_protocols_have_what_their_headers_have(tmp_path: Path) -> None:
    """ARP has no header that LTTng knows; UDP has ports."""
    ip = bytes([0x45, 0, 0, 40, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
    udp = (53).to_bytes(2) + (999).to_bytes(2) + bytes(4)
    trace = (
        KernelTrace()
        .switch(0, 0, 0, RUNNABLE, 7)
        .add(5, 0, "net_dev_queue", (1, 64), (28, 32), "eth0", (0, 8))
        .add(6, 0, "net_dev_queue", (1, 64), (36, 32), "eth0", (1, 8), ip, (2, 8), udp)
        .packet(7, 0, "sent", REQUEST)
    )
    packets = open_hosts(tmp_path, trace).table("packets")
    columns = ("bytes", "source_port", "destination_port", "sequence", "tcp_flags")
    assert packets.select(columns).rows() == [
        (28, None, None, None, None),
        (36, 53, 999, None, None),
        (40, *(REQUEST[n] for n in (0, 1, 2, 4))),
    ]


def test_the_names_of_interrupts_since_lttng_2_7_are_known(tmp_path: Path) -> None:
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, 7)
    trace.add(5, 0, "irq_softirq_entry", (NET_RX, 32)).add(9, 0, "irq_softirq_exit", (NET_RX, 32))
    found = open_hosts(tmp_path, trace).table("interrupts")
    assert found.select("kind", "name", "start_ns", "end_ns").rows() == [
        ("softirq", "NET_RX", 5, 9)
    ]
