"""CPUs by thread and socket: `perf stat`'s lines, likwid's formulas, and what is not counted."""

from __future__ import annotations

import math
import os
import random
import shutil
import time
from collections import namedtuple
from pathlib import Path

import pytest

from record.monitor.machine import FakeClock, play
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.push import list_lines
from sightline.record.monitor.readings import HOST, Entity, Reading
from sightline.record.monitor.rounds import Round
from sightline.record.monitor.sources import _perf_stat as perf
from sightline.record.monitor.sources import cpu, list_sources, open_sources

NODE = Entity(HOST)
DOUBLES = (
    "fp_arith_inst_retired.128b_packed_double", "fp_arith_inst_retired.scalar_double",
    "fp_arith_inst_retired.256b_packed_double", "fp_arith_inst_retired.512b_packed_double",
)  # fmt: skip
# Its words, of 6.1.187 on a virtual machine and of a user without rights.
NOT_SUPPORTED = "<not supported>;;instructions;0;100.00;;\n"
NO_PMU = """event syntax error: 'uncore_imc/cas_count_read/'
                     \\___ Cannot find PMU `uncore_imc'. Missing kernel support?
Run 'perf list' for a list of valid events
"""
NO_RIGHTS = """Error:
Access to performance monitoring and observability operations is limited.
Consider adjusting /proc/sys/kernel/perf_event_paranoid setting to open
"""


def test_flop_rates_are_likwids():
    """By its formulas, as they stand in skylakeX/FLOPS_DP.txt and MEM.txt of likwid 5.2.2."""
    rng = random.Random(1)
    for _ in range(50):
        PMC0, PMC1, PMC2, PMC3 = (rng.randrange(10**12) for _ in range(4))
        MBOX0C0, MBOX0C1 = rng.randrange(10**12), rng.randrange(10**12)
        length = rng.uniform(0.1, 20)
        counts = dict(zip(DOUBLES, (PMC0, PMC1, PMC2, PMC3), strict=True))
        counts |= {"uncore_imc/cas_count_read/": MBOX0C0, "uncore_imc/cas_count_write/": MBOX0C1}
        lines = [perf.Reading(length, 0, event, float(n)) for event, n in counts.items()]
        values = perf.sum_rates(perf.plan_counts(lambda event: ""), lines, length)[0]
        likwid = 1.0e-06 * (PMC0 * 2.0 + PMC1 + PMC2 * 4.0 + PMC3 * 8.0) / length
        assert values[perf.DOUBLE] == pytest.approx(1e6 * likwid)
        likwid = 1.0e-06 * (MBOX0C0 + MBOX0C1) * 64.0 / length
        assert values[perf.MEMORY] == pytest.approx(1e6 * likwid)
        assert perf.ANY not in values  # without single precision nobody knows


def test_what_perf_says_is_explained():
    assert perf.explain("instructions", NOT_SUPPORTED, failed=False) == (
        "this machine does not count instructions: virtual machines mostly have no counters"
    )
    assert "knows no uncore_imc/cas_count_read/" in perf.explain(
        "uncore_imc/cas_count_read/", NO_PMU, failed=True
    )
    assert "CAP_PERFMON" in perf.explain("cycles", NO_RIGHTS, failed=True)
    assert perf.explain("cycles", "bad\x1b[31m thing\n", failed=True).startswith("perf fails: bad")
    assert perf.explain("cycles", "1234;;cycles;10;100.00;;\n", failed=False) == ""


def test_each_processor_has_its_events():
    def skylake(event: str) -> str:
        return "" if event.startswith(("fp_arith", "uncore_imc", "instr", "cycles")) else "none"

    def broadwell(event: str) -> str:
        return "none" if "512b" in event else skylake(event)

    def zen3(event: str) -> str:
        known = ("fp_ret_sse_avx_ops.all", "dram_channel", "instr", "cycles")
        return "" if event.startswith(known) else "none"

    def weigh(ask) -> dict[str, float]:
        return {c.metric: sum(w for _, w in c.events) for c in perf.plan_counts(ask).counts}

    assert weigh(skylake)[perf.DOUBLE] == 1 + 2 + 4 + 8
    assert weigh(broadwell)[perf.DOUBLE] == 1 + 2 + 4
    assert weigh(zen3)[perf.MEMORY] == 8 * 64
    assert perf.plan_counts(skylake).missing == {}
    both = "this processor counts both precisions together"
    assert perf.plan_counts(zen3).missing == {perf.DOUBLE: both, perf.SINGLE: both}
    nothing = perf.plan_counts(lambda event: "no counters")
    assert nothing.counts == ()
    assert nothing.missing == dict.fromkeys(perf.METRICS, "no counters")


def test_names_of_events_are_perfs_own():
    """Each stands in the tables of processors that the installed perf was built with."""
    program = shutil.which("perf")
    if program is None:
        pytest.skip("perf is not installed")
    with Path(program).open("rb") as file:
        known = file.read(64 << 20).lower()
    if b"fp_arith_inst_retired" not in known:
        pytest.skip("this perf is a wrapper, or has no tables of x86")
    later = ("umc_cas_cmd",)  # of Linux 6.10
    kernel = ("uncore_imc/", "instructions", "cycles")  # sysfs has them, or each processor
    names = {event for count in perf.CHOICES for event, _ in count.events}
    asked = {name for name in names if not name.startswith((*later, *kernel))}
    assert len(asked) == 17
    assert [name for name in sorted(asked) if name.encode() not in known] == []


@pytest.mark.parametrize(
    "line",
    ["", "1.0;CPU0;nan;;cycles", "1.0;CPU0;-1;;cycles", "1.0;CPU0;inf;;cycles", "x;CPU0;1;;cycles",
     "1.0;CPU;1;;cycles", "1.0;S0;2;1;;cycles", "1.0;CPU0;1;parsec;cycles", "1e99;CPU0;1;;cycles",
     "1.0;CPU99999999999;1;;cycles", "1.0;CPU²;1;;cycles"],
)  # fmt: skip
def test_lines_that_are_none(line):
    found = perf.read_line(line)
    assert found is None or math.isnan(found.value)


def make_perf(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A perf that has all of a Skylake's events, and prints these lines where it counts."""
    (folder / "lines").write_text(text)
    program = folder / "perf"
    program.write_text(
        "#!/bin/sh\ncase \"$*\" in\n"
        f"*\" -I \"*) cat {folder}/lines >&2; exec sleep 60;;\n"
        "*fp_ret*|*umc_cas*|*dram_channel*) echo \"event syntax error\" >&2; exit 129;;\n"
        "*) echo '1;;x;1;100.00' >&2;;\nesac\n"
    )  # fmt: skip
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def write_lines(end: float, threads: int = 4, lost: tuple[int, str] | None = None) -> str:
    """10 s of a node with two sockets: thread n does n + 1 of each kind of operation a second."""
    events = [event for count in perf.CHOICES[:3:2] for event, _ in count.events]
    rows = [(n, event, 10.0 * (n + 1) * 1e9, "") for event in events for n in range(threads)]
    rows += [(n, "instructions", 2e10, "") for n in range(threads)]
    rows += [(n, "cycles", 1e10, "") for n in range(threads)]
    # As the kernel scales it: 2 and 4 GiB/s of reads.
    rows += [(n, "uncore_imc/cas_count_read/", 10 * 1024.0 * (n + 2), "MiB") for n in (0, 2)]
    rows += [(n, "uncore_imc/cas_count_write/", 0.0, "MiB") for n in (0, 2)]
    return "".join(
        f"{end:17.9f};CPU{n};{'<not counted>' if (n, event) == lost else value};{unit};{event};"
        "10000000000;100.00;;\n"
        for n, event, value, unit in rows
    )


def make_sockets(root: Path, threads: int = 4) -> Path:
    for n in range(threads):
        place = root / f"devices/system/cpu/cpu{n}/topology/physical_package_id"
        place.parent.mkdir(parents=True)
        place.write_text(f"{n // 2}\n")
    return root


def read_values(source: cpu.CpuSource, wanted: str) -> dict[Entity, dict[str, float]]:
    """Until something of this metric was printed; values of one round."""
    deadline = time.monotonic() + 30
    for now in play([source], FakeClock(10_000)):
        if any(wanted in reading.values for reading in now.readings):
            return {reading.entity: reading.values for reading in now.readings}
        assert time.monotonic() < deadline
        time.sleep(0.01)
    raise AssertionError


def test_threads_sockets_and_the_node(tmp_path, monkeypatch):
    make_perf(tmp_path, monkeypatch, "perf's own words\n" + write_lines(10.0))
    source = cpu.open_source(root=make_sockets(tmp_path / "sys"))
    found = read_values(source, perf.ANY)
    source.close()
    # Of each kind one: scalar 1, packed 2, 4, 8; of single precision 1, 4, 8, 16.
    for n in range(4):
        values = found[cpu.name_thread(n)]
        assert values[perf.DOUBLE] == pytest.approx(15e9 * (n + 1))
        assert values[perf.SINGLE] == pytest.approx(29e9 * (n + 1))
        assert values[perf.ANY] == pytest.approx(44e9 * (n + 1))
        assert values["instructions per cycle"] == 2
        assert perf.MEMORY not in values  # it is a socket's
    assert found[cpu.name_socket(0)][perf.ANY] == pytest.approx(44e9 * 3)
    assert found[cpu.name_socket(1)][perf.ANY] == pytest.approx(44e9 * 7)
    assert found[cpu.name_socket(0)][perf.MEMORY] == pytest.approx(2 * 1024.0**3)
    assert found[cpu.name_socket(1)][perf.MEMORY] == pytest.approx(4 * 1024.0**3)
    assert found[NODE][perf.MEMORY] == pytest.approx(6 * 1024.0**3)
    assert found[NODE][perf.ANY] == pytest.approx(44e9 * 10)


@pytest.mark.parametrize(
    ("lost", "gone"),
    [((2, "uncore_imc/cas_count_read/"), perf.MEMORY), ((3, DOUBLES[0]), perf.DOUBLE)],
)
def test_a_part_that_was_not_counted_makes_no_sum(tmp_path, monkeypatch, lost, gone):
    """Half of a node's memory is not its memory bandwidth."""
    make_perf(tmp_path, monkeypatch, write_lines(10.0, lost=lost))
    source = cpu.open_source(root=make_sockets(tmp_path / "sys"))
    found = read_values(source, "instructions per cycle")
    source.close()
    assert gone not in found[NODE]
    assert gone not in found[cpu.name_socket(1)]
    assert gone in found[cpu.name_socket(0)]


def test_load_of_threads_and_sockets(tmp_path):
    Times = namedtuple("Times", "user nice system idle iowait irq softirq steal")
    rounds = iter([
        [Times(0, 0, 0, 0, 0, 0, 0, 0)] * 4,
        [Times(busy, 0, 0, 100 - busy - 5, 5, 0, 0, 0) for busy in (90, 30, 0, 10)],
        [Times(busy, 0, 0, 100 - busy, 0, 0, 0, 0) for busy in (91, 31, 1, 11)],  # it went back
    ])  # fmt: skip
    plan = perf.plan_counts(lambda event: "no counters")
    sockets = perf.read_sockets(make_sockets(tmp_path))
    source = cpu.CpuSource(plan, None, sockets, lambda: next(rounds))
    first, second, third = (source.read(1, n * 10**9) for n in range(3))
    assert [r.values for r in first.readings] == [{}]
    assert first.readings[0].missing == plan.missing
    found = {r.entity: r.values for r in second.readings}
    assert [found[cpu.name_thread(n)]["CPU utilization"] for n in range(4)] == [90, 30, 0, 10]
    assert found[cpu.name_socket(0)]["CPU utilization"] == 60
    assert found[cpu.name_socket(1)]["CPU utilization"] == 5
    assert set(third.readings[0].values) <= {"CPU utilization"}


def test_a_real_perf_names_what_this_machine_does_not_give(tmp_path):
    """Where there are no counters, nothing is 0; where there are, something is measured."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    source = cpu.open_source()
    now = source.read(1, 1)
    source.close()
    node = next(reading for reading in now.readings if reading.entity == NODE)
    counted = {count.metric for count in source._plan.counts}
    for metric in (perf.DOUBLE, perf.MEMORY):
        assert metric in counted or node.missing[metric]
        assert node.values.get(metric) is None


def test_it_is_read_where_it_is_named():
    assert "cpu" in list_sources()
    assert "cpu" not in [place.name for place in open_sources()]


def test_what_is_pushed_has_clustercockpits_scopes():
    """Power of packages was pushed as the node's, by the name of a GPU's (acc_power)."""
    latest = Latest()
    latest.put(Round(1, 1, [
        Reading(cpu.name_thread(3), 1, {perf.ANY: 44e9, "CPU utilization": 90.0}),
        Reading(cpu.name_socket(1), 1, {perf.MEMORY: 4e9}),
        Reading(NODE, 1, {perf.DOUBLE: 15e9}),
        Reading(Entity(HOST, None, "package-1"), 1, {"power": 200.0, "energy": 5.0}),
        Reading(Entity(HOST, None, "package-1 dram"), 1, {"power": 30.0}),
        Reading(Entity(HOST, None, "package-1 core"), 1, {"power": 150.0}),
        Reading(Entity(HOST, None, "psys"), 1, {"power": 400.0}),
    ]))  # fmt: skip
    assert set(list_lines(latest, "n1", 7)) == {
        "flops_any,hostname=n1,type=hwthread,type-id=3,unit=GF/s value=44.0 7",
        "cpu_user,hostname=n1,type=hwthread,type-id=3,unit=% value=90.0 7",
        "mem_bw,hostname=n1,type=socket,type-id=1,unit=GB/s value=4.0 7",
        "flops_dp,hostname=n1,type=node,unit=GF/s value=15.0 7",
        "cpu_power,hostname=n1,type=socket,type-id=1,unit=W value=200.0 7",
        "mem_power,hostname=n1,type=socket,type-id=1,unit=W value=30.0 7",
    }
