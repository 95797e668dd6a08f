"""host-calls: what API calls alone prove, where no GPU work was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from support import exports
from support.rules import answers, assert_silent
from synth_nsys import Export, gtid

RULE = "host-calls"
US = 1_000


def calling(folder: Path, *turn: tuple[str, int], turns: int = 50, pause: int = 100) -> Run:
    """Turns of calls (name, length in µs), with a pause of the program's own behind each turn."""
    export, at = Export(), 0
    for _ in range(turns):
        for name, length in turn:
            export.api(name, at * US, (at + length) * US, 0)
            at += length
        at += pause
    return exports.opened(folder, export)


def by_cause(run: Run) -> dict[str, Finding]:
    return {f.where["cause"]: f for f in answers(run, RULE)}


def test_allocations_blocking_copies_and_launches_in_a_loop(tmp_path: Path) -> None:
    """50 turns of 400 µs, the last pause of 100 not among them: a window of 19,900 µs.

    One call of each name stays: of 50 × 80 µs of allocations and frees 80.
    """
    turn = (("cudaMalloc", 60), ("cudaLaunchKernel", 20), ("cudaMemcpy", 200), ("cudaFree", 20))
    found = by_cause(calling(tmp_path, *turn))
    assert {c: (f.cost_ns, f.gain_ns) for c, f in found.items()} == {
        "allocate": (4_000 * US, 3_920 * US),
        "copy": (10_000 * US, 9_800 * US),
        "launch": (1_000 * US, 980 * US),
    }
    assert "50.3 % of the time" in found["copy"].summary
    assert any("was not recorded" in line for line in found["copy"].evidence)
    assert "cudaMallocAsync" in (found["allocate"].fix or "")
    assert all(f.confidence == "low" and "nsys profile" in (f.fix or "") for f in found.values())


def test_waits_for_the_device(tmp_path: Path) -> None:
    found = by_cause(calling(tmp_path, ("cudaLaunchKernel", 1), ("cudaDeviceSynchronize", 99)))
    assert list(found) == ["wait"]
    assert (found["wait"].cost_ns, found["wait"].gain) == (4_950 * US, None)
    assert "out of the loop" in (found["wait"].fix or "")


def test_long_waits_are_for_work(tmp_path: Path) -> None:
    found = by_cause(calling(tmp_path, ("cudaLaunchKernel", 1), ("cuEventSynchronize", 200_000)))
    assert found["wait"].cost_ns == 50 * 200_000 * US
    assert found["wait"].title == "The host waits for the GPU's work"
    assert "out of the loop" not in (found["wait"].fix or "")


def test_a_long_time_without_calls(tmp_path: Path) -> None:
    """200 calls of 5 µs, 100 µs apart, and 100 ms of the program's own in the middle."""
    export = Export()
    for i in range(200):
        at = (105 * i + (100_000 if i >= 100 else 0)) * US
        export.api("cudaStreamQuery", at, at + 5 * US, 0)
    found = by_cause(exports.opened(tmp_path, export))
    assert list(found) == ["silence"]
    assert (found["silence"].cost_ns, found["silence"].gain) == (100_100 * US, None)


@pytest.mark.parametrize(
    ("call", "length", "title", "fix"),
    [
        ("read", 90_000, "The host reads or writes files", "map the file"),
        ("nanosleep", 90_000, "The host makes no GPU call for long", "names the functions"),
        # Less than half of it says little about it.
        ("read", 40_000, "The host makes no GPU call for long", "names the functions"),
    ],
)
def test_the_systems_call_in_a_long_time_without_calls(
    tmp_path: Path, call: str, length: int, title: str, fix: str
) -> None:
    """Between the two calls of the GPU's lie 100.1 ms, from 10,495 µs on."""
    export = Export()
    for i in range(200):
        at = (105 * i + (100_000 if i >= 100 else 0)) * US
        export.api("cudaStreamQuery", at, at + 5 * US, 0)
    export.add(
        "OSRT_API",
        start=12_000 * US,
        end=(12_000 + length) * US,
        globalTid=gtid(7, 7),
        nameId=export.text(call),
        returnValue=0,
    )
    found = by_cause(exports.opened(tmp_path, export))["silence"]
    assert (found.title, found.cost_ns) == (title, 100_100 * US)
    assert fix in (found.fix or "")
    assert (f": it is in {call}." in found.summary) == (length > 50_000)
    assert any(f"1 × {call}" in line for line in found.evidence) == (length > 50_000)


def test_set_up_is_no_loop(tmp_path: Path) -> None:
    """One allocation of 200 ms, and launches that take 1 % of the time."""
    export = Export()
    export.api("cudaMalloc", 0, 200_000 * US, 0)
    for i in range(200):
        at = (200_000 + 500 * i) * US
        export.api("cudaLaunchKernel", at, at + 5 * US, 0)
    assert_silent(exports.opened(tmp_path, export), RULE)


def test_asynchronous_copies_and_a_handful_of_calls(tmp_path: Path) -> None:
    assert_silent(calling(tmp_path / "a", ("cudaMemcpyAsync", 200), ("cudaEventQuery", 1)), RULE)
    assert_silent(calling(tmp_path / "b", ("cudaMemcpy", 200), turns=9), RULE)


def test_with_gpu_work_others_say_more(tmp_path: Path) -> None:
    export = Export()
    for i in range(100):
        export.api("cudaMemcpy", 1_000 * i, 1_000 * i + 900, i)
        export.copy(2, 1_000 * i + 100, 1_000 * i + 800, i, 64, 2, 0)
    assert_silent(exports.opened(tmp_path, export), RULE)


@pytest.mark.corpus
def test_of_a_real_recording(corpus: Path) -> None:
    """34,304 launches, 14,968 blocking copies in 3.196 s, 602 pairs of malloc and free."""
    name = "nsys/ARTurleite6__CParTP/db64f23a/profile_output.nsys-rep"
    found = [f for f in sightline.findings(sightline.open(str(corpus / name))) if not f.abstained]
    assert [(f.rule, f.where["cause"]) for f in found] == [
        (RULE, "copy"), (RULE, "allocate"), (RULE, "launch"),
    ]  # fmt: skip
    assert "14,968 × cudaMemcpy, 3.196 s" in found[0].evidence


@pytest.mark.parametrize(("samples", "is_told"), [(30, True), (5, False)])
def test_the_function_that_is_sampled_in_a_long_time_without_calls(
    tmp_path: Path, samples: int, *, is_told: bool
) -> None:
    """Of the samples in the 100.1 ms two of three are in a reference on the CPU."""
    export = Export()
    for i in range(200):
        at = (105 * i + (100_000 if i >= 100 else 0)) * US
        export.api("cudaStreamQuery", at, at + 5 * US, 0)
    for i in range(samples):
        export.add(
            "SAMPLING_CALLCHAINS",
            id=i,
            symbol=export.text("check" if i % 3 else "main"),
            module=export.text("app"),
            stackDepth=0,
        )
        export.add(
            "COMPOSITE_EVENTS",
            id=i,
            start=(12_000 + 1_000 * i) * US,
            threadState=1,
            globalTid=gtid(7, 7),
        )
    found = by_cause(exports.opened(tmp_path, export))["silence"]
    assert found.summary.endswith(": it runs check.") is is_told
    told = f"66.7 % of the {samples} CPU samples of its thread there are in check"
    assert (found.evidence[0] == told) is is_told
    assert ("shorten check" in (found.fix or "")) is is_told
