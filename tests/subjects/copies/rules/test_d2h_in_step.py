"""d2h-in-step: large copies to the host, with nothing beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support import exports
from support.copies import exposed_for, hidden_for, transfer
from support.exports import DTOH, HTOD, ON_DEVICE, PINNED
from support.rules import answers, assert_silent, assert_speaks
from support.traces import call, copy, kernel, launched, opened
from synth_nsys import Export

RULE, NAME = "d2h-in-step", "Memcpy DtoH (Device -> Pinned)"


def test_400_of_1000_us(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memcpy DtoH device → pinned, 1.000 MB in 400.0 µs (2.5 GB/s)", "100"],
        fix="copy less to the host, and later",
        severity="critical",
        confidence="high",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path / "a", 49, NAME), RULE)
    assert_speaks(
        exposed_for(tmp_path / "b", 50, NAME),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="copy less to the host, and later",
        severity="warning",
    )


def test_hidden_behind_a_kernel(tmp_path: Path) -> None:
    assert_silent(hidden_for(tmp_path, 400, NAME), RULE)


def test_the_idle_time_behind_the_hosts_wait_counts_too(tmp_path: Path) -> None:
    """Copy [110, 310); the host waits for it until 320, and kernel b starts at 340.

    Exposed for 200 µs, idle for 30 behind it. Without copy and wait kernel b follows kernel a after
    1 µs, at 111 instead of 340.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, transfer(NAME, 110, 200), api="cudaMemcpyAsync"),
            call("cudaStreamSynchronize", 30, 290),
            launched(330, kernel("b", 340, 100)),
        ],
    )
    assert_speaks(run, RULE, cost_ns=230_000, gain_ns=229_000, evidence=["200.0 µs"], fix="later")


def test_values_of_up_to_64_kib_are_left_to_sync_in_step(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path, 400, NAME, 65_536), RULE)


def streamed(folder: Path, streams: int, memory: int, engines: int | None = None) -> Run:
    """Ten times 40 µs to the device and 50 µs back, one after the other, with no pause."""
    export = Export()
    if engines is not None:
        export.add("TARGET_INFO_GPU", id=0, name="a GPU", smCount=34, asyncEngines=engines)
    for i in range(10):
        at, stream = 100_000 * i, 7 + i % streams
        export.api("cudaMemcpyAsync", 1_000 * i, 1_000 * i + 100, 3 * i)
        export.copy(HTOD, at, at + 40_000, 3 * i, 1 << 20, memory, ON_DEVICE, stream=stream)
        export.api("cudaLaunchKernel", 1_000 * i + 200, 1_000 * i + 300, 3 * i + 1)
        export.kernel("add", at + 40_000, at + 45_000, 3 * i + 1, stream=stream)
        export.api("cudaMemcpyAsync", 1_000 * i + 400, 1_000 * i + 500, 3 * i + 2)
        export.copy(
            DTOH, at + 45_000, at + 95_000, 3 * i + 2, 1 << 20, ON_DEVICE, memory, stream=stream
        )
    return exports.opened(folder, export)


def test_on_several_streams_and_pinned_the_link_is_the_limit(tmp_path: Path) -> None:
    """The link is busy for 900 of 995 µs, and never in both directions at once."""
    run = streamed(tmp_path, 4, PINNED)
    (found,) = answers(run, "d2h-in-step")
    text = "\n".join(found.evidence)
    assert "they are pinned, on 4 streams; copies keep the link busy for 90.5 %" in text
    assert "both directions run at once for 0 ns" in text
    assert "let the two directions run at once" in (found.fix or "")
    assert "cannot overlap" not in text and "pin" not in (found.fix or "")
    # 500 µs come back whatever is done; of the 400 µs that go there all but the first 40 hide.
    assert found.gain_ns == 360_000
    assert not answers(run, "h2d-bound")


@pytest.mark.parametrize(("engines", "gain_ns"), [(1, 95_000), (2, 360_000)])
def test_with_one_copy_engine_only_kernels_hide(tmp_path: Path, engines: int, gain_ns: int) -> None:
    """Of 995 µs the link is busy for 900 in either direction: 95 µs are beside it."""
    run = streamed(tmp_path, 4, PINNED, engines)
    (found,) = answers(run, "d2h-in-step")
    text, fix = "\n".join(found.evidence), found.fix or ""
    assert found.gain_ns == gain_ns
    assert ("the GPU has one copy engine" in text) is (engines == 1)
    assert ("let the two directions run at once" in fix) is (engines == 2)
    assert ("overlap all kernels with the copies" in fix) is (engines == 1)
    assert not answers(run, "h2d-bound")


def test_on_one_stream_they_cannot_overlap(tmp_path: Path) -> None:
    (found,) = answers(streamed(tmp_path, 1, PINNED), "d2h-in-step")
    assert any("and so cannot overlap them" in line for line in found.evidence)
    assert "second stream" in (found.fix or "") and "pin" not in (found.fix or "")


@pytest.mark.parametrize(
    ("back", "is_trip"), [(20_400_000, True), (10_000_000, False)], ids=["a border", "other data"]
)
def test_data_that_come_back_for_the_next_kernel(
    tmp_path: Path, back: int, *, is_trip: bool
) -> None:
    """20 MB to the host in [110, 510), back in [600, 800): 690 µs there and back."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("rows", 10, 100)),
            launched(20, copy("Memcpy DtoH (Device -> Pageable)", 110, 400, 20_000_000)),
            launched(590, copy("Memcpy HtoD (Pageable -> Device)", 600, 200, back)),
            launched(595, kernel("columns", 800, 100)),
        ],
    )
    (found,) = answers(run, RULE)
    assert ("keep it on the GPU" in (found.fix or "")) == is_trip
    line = "1 copy of 20.00 MB comes back as 20.40 MB before the next kernel: 690.0 µs"
    assert any(line in text for text in found.evidence) == is_trip
