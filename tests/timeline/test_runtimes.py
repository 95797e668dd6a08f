"""runtimes.tsv: each row by its tool's own words, and as the cause and advice of a gap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.timeline.runtimes import (
    AGAIN,
    FRAME,
    KERNEL,
    LIBRARY,
    ONCE,
    RANGE,
    Runtime,
    find_runtimes,
    list_runtimes,
)
from support import exports, launch_samples
from support.rules import answers, assert_silent
from support.traces import TID, Event, host, kernel, launched, opened
from synth_nsys import Export

RULE = "jit-or-module-load-in-window"
ROWS = list_runtimes()


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r.runtime}-{r.kind}-{r.looks_at}")
def test_a_row_knows_its_tools_own_words(row: Runtime) -> None:
    """Its example is of no row above; it says what avoids the wait, and who says so."""
    (found,) = find_runtimes(pl.Series([row.example]), row.looks_at).to_list()
    assert ROWS[found] == row
    assert row.kind in (*ONCE, *AGAIN)
    assert row.looks_at in (RANGE, FRAME, LIBRARY, KERNEL)
    assert row.avoid and row.source


@pytest.mark.parametrize(
    ("looks_at", "name"),
    [
        (RANGE, "Torch-Compiled Region: 0/0"),  # compiled code that runs
        (RANGE, "XlaModule:#hlo_module=jit_step,program_id=7#"),  # so does this
        (RANGE, "recompile_shaders"),
        (FRAME, "main"),
        (FRAME, "jl_apply_generic"),
        (LIBRARY, "libjulia-internal.so.1.12.6"),
        (LIBRARY, "libcublasLt.so.12"),
        (KERNEL, "void at::native::vectorized_elementwise_kernel<4>"),
    ],
)
def test_what_is_no_compiler_has_no_row(looks_at: str, name: str) -> None:
    assert find_runtimes(pl.Series([name]), looks_at).to_list() == [None]


def gap(folder: Path, *inside: Event, after: str = "b") -> Run:
    """Idle in [110, 910): then a kernel of that name, for the first time."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            *inside,
            launched(900, kernel(after, 910, 100)),
            launched(920, kernel("a", 1010, 100)),
            launched(940, kernel("a", 1110, 100)),
        ],
    )


def one(run: Run, rule: str = RULE) -> Finding:
    (found,) = answers(run, rule)
    return found


@pytest.mark.parametrize("row", [r for r in ROWS if r.looks_at == RANGE and r.kind in ONCE],
                         ids=lambda r: f"{r.runtime}-{r.kind}")  # fmt: skip
def test_a_range_names_the_cause_and_the_advice(tmp_path: Path, row: Runtime) -> None:
    found = one(gap(tmp_path, host("user_annotation", row.example, 120, 760)))
    assert found.title == f"The host {row.deed}, once"
    assert (found.fix, found.cost_ns, found.gain_ns) == (row.avoid, 800_000, 760_000)
    assert found.where["once"] is True
    assert found.where["runtimes"] == [row.runtime]


@pytest.mark.parametrize("row", [r for r in ROWS if r.looks_at == KERNEL], ids=lambda r: r.runtime)
def test_the_first_launch_of_a_compilers_kernel(tmp_path: Path, row: Runtime) -> None:
    """Nothing is recorded in the gap, and its kernel is of those that are compiled when called.

    What is taken out is the gap, up to the launch at 900.
    """
    found = one(gap(tmp_path, after=row.example))
    assert found.title == f"The host {row.deed}, once"
    assert (found.fix, found.cost_ns, found.gain_ns) == (row.avoid, 800_000, 790_000)


def test_a_compilers_kernel_for_the_second_time(tmp_path: Path) -> None:
    again = kernel("triton_poi_fused_copy_0", 10, 100)
    run = opened(
        tmp_path,
        [
            launched(0, again),
            launched(900, {**again, "ts": 910}),
            launched(920, kernel("a", 1010, 100)),
            launched(940, kernel("a", 1110, 100)),
        ],
    )
    assert_silent(run, RULE)


def sampled(folder: Path, there: list[int], frames: list[Any]) -> Run:
    """Idle in [510, 910): nodes of twenty samples of the launching thread in there."""
    samples = [(515 + 19 * i, TID, node) for i, node in enumerate(there)]
    events = [
        *launched(0, kernel("a", 10, 500)),
        *launched(900, kernel("a", 910, 10)),
        *launched(915, kernel("c", 920, 80)),
    ]
    folder.mkdir(exist_ok=True)
    nodes = [(-1, 0), *((0, at) for at in range(1, len(frames)))]
    return launch_samples.opened(folder, samples, events, frames, nodes)


MAIN = ["native", "main", None, "/usr/bin/program"]


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.looks_at in (FRAME, LIBRARY) and r.kind in ONCE],
    ids=lambda r: f"{r.runtime}-{r.kind}-{r.looks_at}",
)  # fmt: skip
def test_samples_name_what_no_range_does(tmp_path: Path, row: Runtime) -> None:
    frame = (
        ["native", row.example, None, "/lib/libx.so"]
        if row.looks_at == FRAME
        else ["native", "inside", None, f"/lib/{row.example}"]
    )
    found = one(sampled(tmp_path, [1] * 11 + [0] * 9, [MAIN, frame]))
    assert found.title == f"The host {row.deed}, once"
    assert (found.fix, found.cost_ns, found.gain_ns) == (row.avoid, 400_000, 390_000)


def test_half_of_the_samples_are_not_most(tmp_path: Path) -> None:
    julia = ["native", "inside", None, "/lib/libjulia-codegen.so.1.12"]
    assert_silent(sampled(tmp_path, [1] * 10 + [0] * 10, [MAIN, julia]), RULE)


def test_what_a_compiler_calls_is_its_own_work(tmp_path: Path) -> None:
    """Julia's compiler allocates, and so collects garbage; nvFuser calls NVRTC."""
    frames = [
        ["native", "jl_compile_method_internal", None, "/lib/libjulia-internal.so"],
        ["native", "gc_mark_loop_serial_", None, "/lib/libjulia-internal.so"],
    ]
    found = one(sampled(tmp_path / "a", [1] * 20, frames))
    assert found.title == "The host compiles (Julia), once"
    fuser = host("user_annotation", "FusionKernelRuntime::compileFusionParallel", 120, 760)
    nvrtc = host("user_annotation", "executor_utils::Nvrtc::CompileProgram", 130, 740)
    assert one(gap(tmp_path / "b", fuser, nvrtc)).title == "The host compiles (nvFuser), once"


def test_an_autotuner_inside_its_compiler_is_named(tmp_path: Path) -> None:
    found = one(
        gap(
            tmp_path,
            host("user_annotation", "XlaCompile:#module=jit_step#", 115, 780),
            host("user_annotation", "XlaPass:#name=gemm-fusion-autotuner,module=jit#", 120, 760),
        )
    )
    assert found.title == "The host tunes kernels (XLA), once"
    assert "autotune" in (found.fix or "")


def test_garbage_is_collected_again_and_again(tmp_path: Path) -> None:
    """It is not a compilation: the launching thread is late, and the collector has its name."""
    frames = [MAIN, ["native", "gc_mark_loop_serial_", None, "/lib/libjulia-internal.so"]]
    run = sampled(tmp_path, [1] * 15 + [0] * 5, frames)
    assert_silent(run, RULE)
    found = one(run, "host-late")
    assert found.title == "The host collects garbage in Julia"
    assert "allocate less in the loop" in (found.fix or "")


@pytest.mark.parametrize("name", ["PMPI_Waitall", "mpi_alltoall_", "ucp_worker_progress"])
def test_who_polls_for_messages_waits_for_other_ranks(tmp_path: Path, name: str) -> None:
    frames = [MAIN, ["native", name, None, "/opt/mpi/lib/libucp.so"]]
    found = one(sampled(tmp_path, [1] * 15 + [0] * 5, frames), "host-late")
    assert found.title == "The host waits for other ranks in MPI"
    assert "sightline ranks" in (found.fix or "")
    assert found.cause == "by its CPU samples the thread was in MPI"


def test_what_is_in_no_row_gets_neutral_words(tmp_path: Path) -> None:
    run = gap(tmp_path, host("user_annotation", "MyOwnJit::build", 120, 760))
    assert_silent(run, RULE)
    assert "MyOwnJit::build" in (one(run, "host-late").fix or "")


def test_a_helper_waits_for_the_thread_that_launches_most(tmp_path: Path) -> None:
    """One of its 12 launches ends a gap in which the other thread compiles."""
    export = Export()
    for i in range(11):
        start = 10_000 * i if i < 3 else 2_000_000 + 10_000 * i
        export.api("cudaLaunchKernel", start, start + 1_000, i)
        export.kernel("k", start + 2_000, start + 9_000, i)
    export.range("XlaCompile:#module=jit_step#", 40_000, 1_900_000)
    export.api("cudaLaunchKernel", 1_950_000, 1_951_000, 20, tid=8)
    export.kernel("k", 1_952_000, 1_960_000, 20)
    found = one(exports.opened(tmp_path, export))
    assert found.title == "The host compiles (XLA), once"
    assert found.cost_ns is not None and found.cost_ns > 1_800_000


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("nsys/apax-hub__apax/report1.nsys-rep", "The host compiles (XLA), once"),
        ("nsys/D-W-Chiang__JACC.jl/1e8_cg_trace.nsys-rep", "The host compiles (Julia), once"),
        (
            "kineto/Aldo-Zhang__CS521-mp2-private/induction_trace.json",
            "The host compiles (torch.compile), once",
        ),
        ("nsys/NVIDIA__Fuser/report3.sqlite", "The host compiles (nvFuser), once"),
    ],
)
def test_of_real_recordings(corpus: Path, name: str, title: str) -> None:
    first = next(f for f in sightline.findings(sightline.open(str(corpus / name))))
    # Where it comes before steps that repeat, or hardly anything else, it is what start-up is.
    said = (
        first.title
        if first.rule not in ("start-up", "hardly-any-work")
        else "\n".join(first.evidence)
    )
    assert title in said
