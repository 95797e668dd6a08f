"""Rules that seldom have their evidence: where each speaks, is silent, and says what to record."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline import findings
from support import traces
from synth import kineto
from synth.families import FAMILIES
from synth_nsys import Export, gtid

UVM_HTOD, UVM_DTOH, MANAGED, DEVICE = 11, 12, 4, 2
PAGE = 2 << 20
MS = 1_000_000


def by_rule(run):
    return {f.rule: f for f in findings(run)}


def nsys(export: Export, folder: Path):
    return sightline.open(str(export.write(folder / "run.sqlite")))


# --- unified memory ----------------------------------------------------------------------------


def moved(pages: list[int], *, cause: int = 2) -> Export:
    """Kernels of 4 ms, before each of which pages move for 2 ms in all: to the device and back."""
    export, at = Export("3.25.0"), 0
    for number, page in enumerate(pages):
        for kind in (UVM_HTOD, UVM_DTOH):
            export.copy(
                kind,
                at,
                at + MS,
                0,
                PAGE,
                MANAGED,
                DEVICE,
                virtualAddress=page * PAGE,
                migrationCause=cause,
            )
            at += MS
        export.api("cudaLaunchKernel", at - 9_000, at - 4_000, number + 1)
        export.kernel("stencil", at, at + 4 * MS, number + 1)
        at += 4 * MS
    return export


def test_pages_that_move_again_and_again(tmp_path):
    found = by_rule(nsys(moved([1] * 8), tmp_path))["unified-memory-thrashing"]
    assert found.cost_ns == found.gain_ns == 16 * MS  # a third of 48 ms
    assert found.severity == "critical"
    assert "again and again" in found.summary
    # Of 16 moves all but the first of each direction had been made before.
    assert "14 of 16 moves are of pages that had moved the same way before" in found.evidence
    assert "16 by page fault" in found.evidence


def test_pages_that_move_once(tmp_path):
    found = by_rule(nsys(moved(list(range(8))), tmp_path))["unified-memory-thrashing"]
    assert "on demand" in found.summary
    assert "0 of 16 moves are of pages that had moved the same way before" in found.evidence


def test_pages_that_never_move(tmp_path):
    quiet = Export("3.25.0")
    quiet.api("cudaLaunchKernel", 0, 5_000, 1)
    quiet.kernel("stencil", 9_000, 4 * MS, 1)
    assert "unified-memory-thrashing" not in by_rule(nsys(quiet, tmp_path))
    quiet.add(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        start=9_500,
        end=9_900,
        globalPid=7 << 24,
        deviceId=0,
        address=PAGE,
        numberOfPageFaults=3,
        faultAccessType=1,
    )
    found = by_rule(nsys(quiet, tmp_path))["unified-memory-thrashing"]
    assert found.abstained
    assert "--trace=cuda" in found.reason


# --- devices -----------------------------------------------------------------------------------


def on_devices(places: list[tuple[int, int]]) -> Export:
    """A process per (pid, device): ten kernels of 2 ms, at the same time as the others'."""
    export = Export("3.25.0")
    for device in range(2):
        export.add("TARGET_INFO_GPU", id=device, name="NVIDIA H100", smCount=132)
    for pid, device in places:
        for i in range(10):
            at, number = 10_000 + 2 * MS * i, 100 * pid + i
            export.api("cudaLaunchKernel", at - 9_000, at - 4_000, number, pid, pid)
            export.kernel("gemm", at, at + 2 * MS, number, pid, device)
    return export


def test_two_processes_on_one_device_and_another_empty(tmp_path):
    found = by_rule(nsys(on_devices([(7, 0), (8, 0)]), tmp_path))["wrong-device-idle"]
    # Both at once for all of 20 ms: spread, the same work takes half.
    assert found.cost_ns == 10 * MS
    assert found.severity == "critical"
    assert "device 1 has nothing to do" in found.summary
    assert "device 0: 2 processes" in found.evidence


def test_one_process_on_one_of_two_devices_is_its_own_affair(tmp_path):
    """The other device may be another rank's, with a recording of its own."""
    assert "wrong-device-idle" not in by_rule(nsys(on_devices([(7, 0)]), tmp_path))


def test_every_device_in_use_is_nothing(tmp_path):
    assert "wrong-device-idle" not in by_rule(nsys(on_devices([(7, 0), (8, 1)]), tmp_path))


def test_ranks_that_name_the_same_device_may_be_on_other_machines(tmp_path):
    program = FAMILIES["straggler-rank"].build(0, 1, False)
    for rank in program.ranks[1:]:
        for op in rank.ops:
            op.device = 0
    for rank in program.ranks:
        rank.devices[:] = [0, 1, 2]
    kineto.write(program, tmp_path, dialect="2025")
    found = by_rule(sightline.open(str(tmp_path)))["wrong-device-idle"]
    assert found.abstained
    assert "--keep-identity" in found.reason


# --- clocks ------------------------------------------------------------------------------------


def test_without_clocks_nothing_is_said_of_them(tmp_path):
    found = by_rule(traces.opened(tmp_path, [traces.kernel("k", 0, 100)]))
    assert found["clock-throttled"].abstained
    assert "no clocks were recorded" in found["clock-throttled"].reason
    assert not {"power-capped", "thermal"} & set(found)


def test_the_devices_own_highest_clock_is_the_reference(tmp_path):
    """A clock that is low from the first sample on is seen only against the device's own."""
    export = Export("3.25.0")
    export.add(
        "TARGET_INFO_GPU_METRICS", typeId=0, metricId=5, metricName="GPC Clock Frequency [MHz]"
    )
    export.add("GPU_METRICS", timestamp=0, typeId=0, metricId=5, value=990)
    for i in range(10):
        at = 10_000 + 2 * MS * i
        export.api("cudaLaunchKernel", 1_000 * i, 1_000 * i + 500, i + 1)
        export.kernel("gemm", at, at + 2 * MS, i + 1)
    assert not {"clock-throttled"} & set(by_rule(nsys(export, tmp_path)))
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", smCount=132, clockRate=1_980_000_000)
    found = by_rule(nsys(export, tmp_path))["clock-throttled"]
    assert found.cost_ns == 10 * MS  # half of each kernel, at half of the clock
    assert found.gain_ns == pytest.approx(10 * MS, rel=1e-3)
    assert any("990 MHz on average, against 1980 MHz" in line for line in found.evidence)
    assert any("not recorded" in line for line in found.evidence)


# --- queues and compilers ----------------------------------------------------------------------


def test_a_full_queue_of_one_stream_is_a_remark(tmp_path):
    """2,000 kernels on one stream: the device limits, and nothing is lost."""
    from synth import names
    from synth.program import Simulator

    sim = Simulator()
    for _ in range(2_000):
        sim.main().launch(names.GEMM, 30_000)
    kineto.write(sim.finish("burst", ""), tmp_path, dialect="2025")
    found = by_rule(sightline.open(str(tmp_path)))["queue-full"]
    assert (found.severity, found.gain_ns) == ("info", 0)
    assert "nothing is lost" in found.summary


def test_the_drivers_compiler_is_no_cost_of_the_profiler(tmp_path):
    """Nsight Systems: OVERHEAD rows of type 2, in two late gaps, while the device is idle."""
    export = Export("3.25.0")
    at = 0
    for i in range(6):
        export.api("cudaLaunchKernel", at, at + 5_000, i + 1)
        export.kernel(f"k{i}", at + 9_000, at + MS, i + 1)
        at += MS
        if i in (2, 4):
            export.add(
                "CUPTI_ACTIVITY_KIND_OVERHEAD",
                start=at + 1_000,
                end=at + MS,
                globalTid=gtid(7, 7),
                correlationId=0,
                overheadType=2,
            )
            at += MS
    found = by_rule(nsys(export, tmp_path))
    assert "profiler-overhead" not in found
    # No steps are marked, so it may be the first compilation: of two graphs, two gaps.
    assert "recompilation" not in found
    assert found["jit-or-module-load-in-window"].gain_ns == pytest.approx(2 * MS, rel=0.02)


# --- bandwidth ---------------------------------------------------------------------------------


def test_bandwidth_without_sizes_or_without_other_ranks_is_not_judged(tmp_path):
    program = FAMILIES["exposed-communication"].build(0, 1, True)
    kineto.write(program, tmp_path / "all", dialect="2025")
    assert "collective-below-bandwidth" not in by_rule(sightline.open(str(tmp_path / "all")))
    one = next((tmp_path / "all").glob("rank0*"))
    found = by_rule(sightline.open(str(one)))["collective-below-bandwidth"]
    assert "all ranks" in found.reason
    plain = [
        e
        for i in range(20)
        for e in (
            traces.launch(100 * i, 4, i + 1),
            traces.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100 * i + 6, 80, i + 1),
        )
    ]
    found = by_rule(traces.opened(tmp_path / "plain", plain))["collective-below-bandwidth"]
    assert "sizes and groups" in found.reason


def test_kineto_names_the_drivers_compiler_otherwise(tmp_path):
    """The same in PyTorch's profiler: category overhead, "Driver Compiler"; with steps."""
    events, at = [], 0
    for i in range(6):
        begin = at
        events += [traces.launch(at, 5, i + 1), traces.kernel(f"k{i}", at + 9, 991, i + 1)]
        at += 1000
        if i in (2, 4):
            events.append(traces.host("overhead", "Driver Compiler", at + 1, 999))
            at += 1000
        events.append(traces.step(i, begin, at - begin))
    found = by_rule(traces.opened(tmp_path, events))
    assert "profiler-overhead" not in found
    assert found["recompilation"].where["cause"] == "compilation"
    assert found["recompilation"].gain_ns == pytest.approx(2 * MS, rel=0.02)


# --- the pace of launches ----------------------------------------------------------------------


def test_a_few_long_pauses_are_no_pace_of_launching(tmp_path):
    """40 short kernels, launched one by one, and three pauses of 100 ms between them."""
    events, at = [], 0
    for i in range(40):
        events += [traces.launch(at, 5, i + 1), traces.kernel("k", at + 9, 10, i + 1)]
        at += 100_000 if i in (10, 20, 30) else 50
    found = by_rule(traces.opened(tmp_path, events))
    assert "launch-bound" not in found
    assert found["host-late"].gain_ns == pytest.approx(300 * MS, rel=0.02)
    # Nothing was recorded of what the host did, and the finding says so.
    assert "the host was mostly in no range that was recorded" in found["host-late"].evidence


def test_host_time_is_that_of_the_window(tmp_path):
    """A call before the first kernel, in an operator that reaches into the window."""
    events = [traces.op("aten::addmm", 0, 500_010), traces.call("cudaFree", 1, 500_000)]
    for i in range(100):
        at = 500_003 + 50 * i
        events += [traces.launch(at, 5, i + 1), traces.kernel("k", at + 9, 10, i + 1)]
    lines = by_rule(traces.opened(tmp_path, events))["launch-bound"].evidence
    assert lines[0].startswith("host time in  cudaLaunchKernel")
    assert not any("cudaFree" in line for line in lines)
