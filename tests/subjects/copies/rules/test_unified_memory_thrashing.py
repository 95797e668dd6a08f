"""unified-memory-thrashing: pages move between host and device while the program runs."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from sightline.diagnosis.one_offs import ONCE
from support.rules import assert_abstains, assert_silent, assert_speaks
from synth_nsys import Export

RULE = "unified-memory-thrashing"
UVM_HTOD, UVM_DTOH, MANAGED, DEVICE = 11, 12, 4, 2
BY_FAULT, BY_PREFETCH = 2, 1
PAGE, MS = 2 << 20, 1_000_000


def nsys(export: Export, folder: Path) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))


def moved(pages: list[int | None], *, cause: int | None = BY_FAULT, work: int = 4 * MS) -> Export:
    """Kernels, before each of which a page moves to the device and back, 1 ms each way."""
    export, at = Export("3.25.0"), 0
    for number, page in enumerate(pages):
        for kind in (UVM_HTOD, UVM_DTOH):
            known = {} if page is None else {"virtualAddress": page * PAGE}
            known |= {} if cause is None else {"migrationCause": cause}
            export.copy(kind, at, at + MS, 0, PAGE, MANAGED, DEVICE, **known)
            at += MS
        export.api("cudaLaunchKernel", at - 9_000, at - 4_000, number + 1)
        export.kernel("stencil", at, at + work, number + 1)
        at += work
    return export


def test_one_page_moves_again_and_again(tmp_path: Path) -> None:
    """16 of 48 ms. Of 16 moves all but the first of each direction had been made before."""
    found = assert_speaks(
        nsys(moved([1] * 8), tmp_path),
        RULE,
        cost_ns=16 * MS,
        gain_ns=16 * MS,
        evidence=["8 × UVM HtoD, 16.78 MB in 8.000 ms", "14 of 16 moves", "16 by page fault"],
        fix="cudaMemPrefetchAsync",
        severity="critical",
    )
    assert "again and again" in found.summary


def test_eight_pages_move_once(tmp_path: Path) -> None:
    found = assert_speaks(
        nsys(moved(list(range(8))), tmp_path),
        RULE,
        cost_ns=16 * MS,
        gain_ns=16 * MS,
        evidence=["0 of 16 moves"],
        fix="cudaMemPrefetchAsync",
    )
    assert "on demand" in found.summary


def test_a_kernel_waits_for_its_pages(tmp_path: Path) -> None:
    """20 pages of 10 µs in a kernel of 1 ms, 40 µs apart: it waits from fault to fault, 50 each."""
    export = Export("3.25.0")
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("add", 10_000, 10_000 + MS, 1)
    for page in range(20):
        at = 50_000 + page * 50_000
        known = {"virtualAddress": page * PAGE, "migrationCause": BY_FAULT}
        export.copy(UVM_HTOD, at, at + 10_000, 0, PAGE, MANAGED, DEVICE, **known)
    found = assert_speaks(
        nsys(export, tmp_path),
        RULE,
        cost_ns=1_000_000,
        gain_ns=1_000_000,
        evidence=["800.0 µs more in which kernels wait for the next page"],
        fix="cudaMemPrefetchAsync",
    )
    assert found.gain_ns <= MS


def read_back(folder: Path, work: int, behind: int | None = None) -> Run:
    """Ten pages that the host faults in, 0.2 ms each, with so much of its own work between them."""
    export = Export("3.25.0")
    export.api("cudaLaunchKernel", 0, 5_000, 1)
    export.kernel("add", 10_000, 10_000 + MS, 1)
    at = 1_200_000
    for page in range(10):
        known = {"virtualAddress": page * PAGE, "migrationCause": BY_FAULT}
        export.copy(UVM_DTOH, at, at + 200_000, 0, PAGE, MANAGED, DEVICE, **known)
        at += 200_000 + work
    if behind is not None:
        export.api("cudaLaunchKernel", at, at + 5_000, 2)
        export.kernel("add", at + 10_000, at + 10_000 + behind, 2)
    return nsys(export, folder)


def test_pages_that_the_host_reads_back(tmp_path: Path) -> None:
    """10 faults of 50 µs are more than half of 0.19 + 9 x 0.05 ms: it waits."""
    run = read_back(tmp_path, 50_000)
    found = assert_speaks(
        run,
        RULE,
        cost_ns=2 * MS,
        gain_ns=2 * MS,
        evidence=["while the host reads pages back one by one"],
        fix="cudaMemPrefetchAsync",
    )
    assert found.gain_ns == 2 * MS
    idle = next(f for f in sightline.findings(run) if f.rule == "gpu-idle")
    assert "works through unified memory that comes back" in idle.summary
    assert idle.gain_ns is None


def test_the_hosts_own_work_on_pages(tmp_path: Path) -> None:
    """0.19 + 9 x 0.8 ms, of which 10 faults take at most 0.5: the pages are not what it costs."""
    run = read_back(tmp_path, 800_000)
    assert_silent(run, RULE)
    idle = next(f for f in sightline.findings(run) if f.rule == "gpu-idle")
    assert idle.title == "The host works through unified memory"
    assert idle.cost_ns == idle.gain_ns == 190_000 + 9 * 800_000
    assert "10 page faults take at most 500.0 µs of it" in idle.evidence[0]
    assert "do that work on the GPU" in idle.fix
    assert idle.where[ONCE] == "after the last kernel"


def test_a_kernel_behind_the_hosts_work(tmp_path: Path) -> None:
    idle = next(
        f
        for f in sightline.findings(read_back(tmp_path, 800_000, behind=MS))
        if f.title == "The host works through unified memory"
    )
    assert ONCE not in idle.where


def test_pages_without_addresses(tmp_path: Path) -> None:
    assert_speaks(
        nsys(moved([None] * 8, cause=None), tmp_path),
        RULE,
        cost_ns=16 * MS,
        gain_ns=16 * MS,
        evidence=["not known: which pages moved again"],
        fix="cudaMemPrefetchAsync",
    )


def test_pages_that_the_program_prefetches(tmp_path: Path) -> None:
    assert_silent(nsys(moved([1] * 8, cause=BY_PREFETCH), tmp_path), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """2 ms of 42 are 4.8 %; of 40 they are 5 %."""
    assert_silent(nsys(moved([1], work=40 * MS), tmp_path / "a"), RULE)
    assert_speaks(
        nsys(moved([1], work=38 * MS), tmp_path / "b"),
        RULE,
        cost_ns=2 * MS,
        gain_ns=2 * MS,
        evidence=["0 of 2 moves"],
        fix="cudaMemPrefetchAsync",
    )


def test_page_faults_without_migrations(tmp_path: Path) -> None:
    quiet = Export("3.25.0")
    quiet.api("cudaLaunchKernel", 0, 5_000, 1)
    quiet.kernel("stencil", 9_000, 4 * MS, 1)
    assert_silent(nsys(quiet, tmp_path / "a"), RULE)
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
    assert_abstains(nsys(quiet, tmp_path / "b"), RULE, "--trace=cuda")
