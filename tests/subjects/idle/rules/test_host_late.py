"""host-late: the launching thread is busy with something else, once in a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from sightline.diagnosis.one_offs import ONCE
from sightline.subjects.idle.rules._thinking import shorten_signature
from support import exports, launch_samples
from support.launch_samples import LOADING, MAIN
from support.rules import answers, assert_silent, assert_speaks
from support.traces import TID, Event, call, copy, kernel, launched, op, opened, opened_ranks, step
from synth_nsys import Export, gtid


def paused(folder: Path, idle: int, *host: Event) -> Run:
    """A window of 1,000 µs, idle for `idle` after its first 500 for a call that comes late."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 500)),
            *host,
            launched(500 + idle, kernel("b", 510 + idle, 10)),
            launched(515 + idle, kernel("c", 520 + idle, 480 - idle)),
        ],
    )


def test_a_pause_that_the_host_spent_in_json(tmp_path: Path) -> None:
    """Idle in [510, 910). Between calls pass 895, 10 and 10 µs; of the 895 the usual 10 are left,
    so that kernel b waits only for kernel a, and follows it after 1 µs.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 500)),
            op("json.dumps", 500, 390),
            launched(900, kernel("b", 910, 10)),
            launched(915, kernel("c", 920, 40)),
            launched(930, kernel("d", 960, 50)),
        ],
    )
    found = assert_speaks(
        run,
        "host-late",
        cost_ns=400_000,
        gain_ns=399_000,
        evidence=["1 gap of 400.0 µs", "json.dumps"],
        fix="see what json.dumps does before it launches",
    )
    assert found.where["op"] == "json.dumps"
    assert found.where["time_ranges"] == [[510_000, 910_000]]


def test_a_pause_that_the_device_does_not_feel_stays(tmp_path: Path) -> None:
    """Idle in [110, 910). The second pause, from 985 to 1500, lies beside kernel b; what it delays
    is the last kernel, on another stream. That one could come 880 µs earlier, as all calls do; no
    more than the idle time is gained.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(900, kernel("b", 910, 1_000)),
            *(launched(920 + 20 * i, kernel("c", 1_910 + 10 * i, 10)) for i in range(4)),
            launched(1_500, kernel("d", 1_510, 600, stream=8)),
        ],
    )
    assert_speaks(
        run,
        "host-late",
        cost_ns=800_000,
        gain_ns=800_000,
        evidence=["1 gap of 800.0 µs"],
        fix="host_op",
    )


def test_nothing_is_known_of_the_host(tmp_path: Path) -> None:
    found = assert_speaks(
        paused(tmp_path, 100),
        "host-late",
        cost_ns=100_000,
        gain_ns=99_000,
        evidence=["1 gap of 100.0 µs", "no recorded range"],
        fix="host_op",
    )
    assert found.where["op"] is None


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(paused(tmp_path / "a", 49), "host-late")
    assert_speaks(
        paused(tmp_path / "b", 50),
        "host-late",
        cost_ns=50_000,
        gain_ns=49_000,
        evidence=["1 gap of 50.00 µs"],
        fix="host_op",
    )


def test_a_few_long_pauses_are_no_pace_of_launching(tmp_path: Path) -> None:
    """40 short kernels, launched one by one, and three pauses of 100 ms between them."""
    events, at = [], 0
    for i in range(40):
        events.append(launched(at, kernel("k", at + 9, 10)))
        at += 100_000 if i in (10, 20, 30) else 50
    run = opened(tmp_path, events)
    assert_silent(run, "launch-bound")
    # Idle: three times 99,990 µs and 36 times 40. Of each pause the usual 45 µs stay.
    assert_speaks(
        run,
        "host-late",
        cost_ns=3 * 99_990_000 + 36 * 40_000,
        gain_ns=3 * 99_950_000,
        evidence=["39 gaps", "no recorded range"],
        fix="host_op",
    )


def test_a_stall_that_comes_back_every_third_step(tmp_path: Path) -> None:
    """Nine steps of 1,000 µs: the host collects garbage for 700 µs in the 2nd, 5th and 8th."""
    events: list[Event | list[Event]] = []
    for number in range(9):
        begin = 1000 * number
        late = 700 if number % 3 == 1 else 0
        events += [
            step(number, begin, 1000),
            launched(begin + 5 + late, kernel("a", begin + 15 + late, 200)),
            launched(begin + 15 + late, kernel("b", begin + 216 + late, 799 - late)),
        ]
        if late:
            events.append(op("gc", begin + 5, 690))
    (found,) = answers(opened(tmp_path, events), "host-late")
    assert "most of it comes in every 3rd step" in found.evidence


def test_a_call_that_launches_nothing(tmp_path: Path) -> None:
    """Idle in [520, 910): the thread is in cudaStreamCreate for 370 µs of it, which go, and of
    the 10 µs before the next launch the usual 5 are left. The launch and its latency stay."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 500)),
            launched(495, kernel("b", 511, 9)),
            call("cudaStreamCreate", 510, 380),
            *(launched(900 + 10 * i, kernel("c", 910 + 50 * i, 50)) for i in range(10)),
        ],
    )
    (found,) = answers(run, "host-late")
    assert (found.cost_ns, found.gain_ns) == (390_000, 375_000)
    assert "the host was mostly in  cudaStreamCreate" in found.evidence


def test_ranks_that_hardly_lose_anything_are_not_named(tmp_path: Path) -> None:
    """Rank 1 is idle for 400 µs, rank 0 for 19 (4.75 % of that), and then for 20."""

    def late(idle: int) -> list[list[Event]]:
        return [
            launched(0, kernel("a", 10, 500)),
            launched(500 + idle, kernel("b", 510 + idle, 10)),
            launched(515 + idle, kernel("c", 520 + idle, 480 - idle)),
            launched(530 + idle, kernel("d", 1000, 10)),
        ]

    (found,) = answers(opened_ranks(tmp_path / "a", late(19), late(400)), "host-late")
    assert found.where["ranks"] == [1]
    (found,) = answers(opened_ranks(tmp_path / "b", late(20), late(400)), "host-late")
    assert found.where["ranks"] == [0, 1]


def test_cpu_samples_name_what_no_range_does(tmp_path: Path) -> None:
    """Idle in [510, 910): of 20 samples of the launching thread in there 15 are in load_batch and 5
    in main; those before, and those of another thread, do not count.
    """
    there = [(515 + 19 * i, TID, LOADING if i % 4 else MAIN) for i in range(20)]
    elsewhere = [(100 + i, TID, MAIN) for i in range(30)]
    another = [(515 + i, TID + 1, MAIN) for i in range(30)]
    run = launch_samples.opened(
        tmp_path,
        sorted([*elsewhere, *there, *another]),
        [
            *launched(0, kernel("a", 10, 500)),
            *launched(900, kernel("b", 910, 10)),
            *launched(915, kernel("c", 920, 80)),
        ],
    )
    found = assert_speaks(
        run,
        "host-late",
        cost_ns=400_000,
        gain_ns=399_000,
        evidence=["of 20 CPU samples of that thread there  75.0 % in load_batch, 25.0 % in main"],
        fix="host_op",
    )
    assert not any("no recorded range" in line for line in found.evidence)


FRAMES: list[Any] = [
    ["native", "main", None, "/home/a/sim"],
    ["native", "Points::clear(int)", None, "/home/a/sim"],
    ["native", "std::vector<int>::resize(unsigned long)", None, "/home/a/sim"],
    ["native", "report(std::string const&)", None, "/home/a/sim"],
    ["native", "__printf_fp", None, "/usr/lib/libc.so.6"],
]
# main; main > clear; main > clear > resize; main > report > printf
NODES = [(-1, 0), (0, 1), (1, 2), (0, 3), (3, 4)]
CLEARS, RESIZES, PRINTS = 1, 2, 4


def test_each_function_that_holds_launches_up_is_told(tmp_path: Path) -> None:
    """Eleven pauses of 100 µs in clear, which resizes, and one of 1,000 in report, which prints."""
    events: list[list[Event]] = [launched(0, kernel("a", 10, 30))]
    samples, at = [], 40
    for turn in range(12):
        idle = 1_000 if turn == 3 else 100
        node = PRINTS if turn == 3 else RESIZES
        samples += [(at + 10 + 8 * i, TID, node) for i in range(idle // 10)]
        samples += [(at + 2, TID, 0 if turn == 3 else CLEARS)]
        at += idle
        events += [launched(at - 10 + 2 * i, kernel("a", at + 30 * i, 30)) for i in range(5)]
        at += 150
    run = launch_samples.opened(
        tmp_path, sorted(samples), [e for each in events for e in each], FRAMES, NODES
    )
    every = sightline.findings(run)
    by_title = {f.title: f for f in every}
    clear = by_title["The host is in Points::clear between launches"]
    report = by_title["The host is in report between launches"]
    assert (clear.cost_ns, report.cost_ns) == (1_100_000, 1_000_000)
    assert ONCE not in clear.where
    assert report.where[ONCE] == "one pause"
    assert "do it on the GPU" in every[0].fix
    assert every[0].title == clear.title


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Points::clear()", "Points::clear"),
        ("A<B, 7>::show(std::string const&, int) const", "A<B, 7>::show"),
        ("(anonymous namespace)::go(int)", "(anonymous namespace)::go"),
        ("run<std::function<void (int)> >(int)", "run<std::function<void (int)> >"),
        ("rand::random_range::hbd00c8cb99adf1d2", "rand::random_range"),
        ("load_batch", "load_batch"),
    ],
)
def test_names_without_parameters(name: str, short: str) -> None:
    assert shorten_signature(name) == short


def test_without_samples_the_calls_around_say_where(tmp_path: Path) -> None:
    """Idle in [510, 910): the last call has ended at 520."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 500)),
            call("cudaDeviceGetAttribute", 515, 5),
            launched(900, kernel("b", 910, 10)),
            launched(915, kernel("c", 920, 80)),
        ],
    )
    found = next(f for f in run.findings() if f.rule == "host-late")
    assert (
        "most of it lies between the end of  cudaDeviceGetAttribute  and the next  "
        "cudaLaunchKernel: in the program's own code"
    ) in found.evidence


def test_what_a_capture_takes_in_the_same_gap_is_another_problem(tmp_path: Path) -> None:
    """Idle in [510, 1510): 390 µs until the capture begins, 210 of it, 400 until the launch.

    The host thinks for 415 and 390 µs around it, of which the usual 5 stay the second time, since
    the device is busy until 10 µs after the first; the 195 µs in the capture are no part of it.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 480)),
            launched(480, kernel("a", 490, 20)),
            call("cudaStreamBeginCapture", 900, 5),
            call("cudaStreamEndCapture", 1_100, 10),
            launched(1_500, kernel("b", 1_510, 10)),
            *(launched(1_510 + 10 * i, kernel("c", 1_520 + 60 * i, 60)) for i in range(8)),
        ],
    )
    (found,) = answers(run, "host-late")
    assert (found.cost_ns, found.gain_ns) == (800_000, 800_000)


def test_a_native_program_that_works_on_its_own_is_told_so(tmp_path: Path) -> None:
    """Between a synchronization and the next launch 40 of 50 ms pass without a call."""
    export = Export()
    for number, at in enumerate([0, 1_000_000, 2_000_000, 44_000_000, 45_000_000], start=1):
        export.api("cudaLaunchKernel", at, at + 5_000, number)
        export.kernel("check", at + 10_000, at + 900_000, number)
        export.api("cudaDeviceSynchronize", at + 6_000, at + 902_000, number + 10)
    run = sightline.open(str(export.write(tmp_path / "a.sqlite")))
    (found,) = answers(run, "host-late")
    assert found.title == "The host works on its own between GPU calls"
    assert "in the program's own code, without a call to the GPU" in found.summary
    assert found.cost_ns == pytest.approx(44_010_000 - 2_900_000, rel=1e-3)
    assert "if it only checks" in found.fix
    assert "--cpu-stacks perf_event" in found.fix


@pytest.mark.parametrize(("name", "is_told"), [("cudaMallocManaged", True), ("cudaMalloc", False)])
def test_pages_that_host_and_device_share(tmp_path: Path, name: str, is_told: bool) -> None:
    """Two kernels with 9 ms of the host's own work between them, in a program of C++."""
    events = [
        call(name, 0, 20),
        launched(100, kernel("a", 110, 100)),
        call("cudaDeviceSynchronize", 120, 95),
        launched(9_300, kernel("b", 9_310, 100)),
    ]
    (found,) = answers(opened(tmp_path, events), "host-late")
    assert ("1 buffer of managed memory" in str(found.evidence)) is is_told


def test_a_range_that_all_variants_share(tmp_path: Path) -> None:
    """Two of three `Steps` launch nothing: whose they are stands in the range around them."""
    export = Export()
    for n, (variant, launches) in enumerate((("gpu", True), ("cpu_a", False), ("cpu_b", False))):
        at = 20_000_000 * n
        export.range(variant, at, at + 15_000_000)
        export.range("Steps", at + 1_000, at + 14_000_000)
        if launches:
            for i in range(10):
                start = at + 10_000 + 1_000_000 * i
                export.api("cudaLaunchKernel", start, start + 5_000, i)
                export.kernel("k", start + 9_000, start + 900_000, i)
        export.api("cudaLaunchKernel", at + 16_000_000, at + 16_005_000, 90 + n)
        export.kernel("k", at + 16_009_000, at + 16_900_000, 90 + n)
    (found,) = answers(exports.opened(tmp_path, export), "host-late")
    lines = "\n".join(found.evidence)
    assert "these lie in  cpu_a 19.11 ms, cpu_b 19.11 ms" in lines
    assert "2 of 3 × Steps launch nothing on the GPU: the host does the work there" in lines
    assert (found.fix or "").startswith("let the GPU do what the host does in these 2")


@pytest.mark.parametrize(("name", "loads"), [("at::native::add_kernel", True), ("add", False)])
def test_a_wait_with_a_limit_before_each_batch(tmp_path: Path, name: str, loads: bool) -> None:
    """A thread of PyTorch's loader hands over the batches that it pinned; others' waits are not."""
    export = Export()
    for i in range(8):
        at = 10_000_000 * i
        export.add("OSRT_API", start=at, end=at + 8_000_000, eventClass=27, globalTid=gtid(7, 7),
                   nameId=export.text("sem_timedwait"), returnValue=0, nestingLevel=0)  # fmt: skip
        export.api("cudaMemcpyAsync", at + 8_010_000, at + 8_015_000, 2 * i)
        export.copy(1, at + 8_020_000, at + 8_520_000, 2 * i, 1 << 24, 1, 2)
        export.api("cudaLaunchKernel", at + 8_020_000, at + 8_025_000, 2 * i + 1)
        export.kernel(name, at + 8_520_000, at + 9_900_000, 2 * i + 1)
    (found,) = answers(exports.opened(tmp_path, export), "host-late")
    assert (found.title == "Waiting for the DataLoader") == loads
    assert ("num_workers" in (found.fix or "")) == loads


def test_allocations_in_stream_order_after_each_synchronization(tmp_path: Path) -> None:
    export = Export()
    for i in range(8):
        at = 5_000_000 * i
        export.api("cudaMallocAsync", at, at + 2_000_000, 0)
        export.api("cudaLaunchKernel", at + 2_010_000, at + 2_015_000, i + 1)
        export.kernel("k", at + 2_020_000, at + 4_900_000, i + 1)
        export.api("cudaStreamSynchronize", at + 2_020_000, at + 4_910_000, 0)
    (found,) = answers(exports.opened(tmp_path, export), "host-late")
    assert "cudaMemPoolAttrReleaseThreshold" in (found.fix or "")


@pytest.mark.parametrize(
    ("size", "is_input"), [(154_000_000, True), (4_000, False)], ids=["a batch", "an index"]
)
def test_a_pause_that_ends_with_the_next_batch(
    tmp_path: Path, size: int, *, is_input: bool
) -> None:
    """What the host did for 960 µs is not recorded; what it sends then is."""
    run = opened(
        tmp_path,
        [
            kernel("earlier", 0, 30),
            launched(1_000, copy("Memcpy HtoD (Pageable -> Device)", 1_010, 400, size)),
            launched(1_420, kernel("a", 1_430, 100)),
            launched(1_440, kernel("b", 1_530, 100)),
        ],
    )
    (found,) = answers(run, "host-late")
    assert (found.title == "The GPU waits for its next input") == is_input
    assert ("num_workers" in (found.fix or "")) == is_input
    assert any("154.0 MB the first" in line for line in found.evidence) == is_input
    assert found.gain_ns and found.gain_ns > 700_000  # all but a usual time between calls
