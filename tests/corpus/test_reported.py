"""Public bug reports, rebuilt as small files: what the first screen must say of each, and must not.

`../shared/reported/cases.md` names the report that stands behind each, and what is right.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from support.command import sightline


class Case(NamedTuple):
    """An input, the exit code, what must stand on the screen, and what must not (patterns)."""

    name: str
    code: int
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


_NO_TORCH = r"ProfilerActivity"
CASES = (
    Case("b01_inf.json", 0, (r"11 GPU operations",)),
    Case("b03_info_end.json", 0, (r"10 GPU operations",), (r"ends in the middle", r"stop\(\)")),
    Case("b03_info_start.json", 0, (r"10 GPU operations",)),
    Case("b04_legacy_badquote.json", 0, (r"5 GPU operations",), (_NO_TORCH,)),
    Case("b04_legacy_fixed.json", 0, (r"5 GPU operations",), (_NO_TORCH,)),
    Case(
        "b06_overlap.json", 0, (r"window 362\.0 µs", r"compute +100\.0 %"), (r"cannot be trusted",)
    ),
    Case("b07_be.json", 0, (r"6 CPU ranges",), (_NO_TORCH,)),
    Case(
        "b10_jax_perfetto.json", 0, (r"2\.505 ms", r"995\.0 µs", r"window 4\.850 ms"), (_NO_TORCH,)
    ),
    Case("b11_rocprof_v1.json", 0, (r"2 GPU operations",)),
    Case("b12_uftrace.json", 0, (r"uftrace", r"linux:schedule"), (_NO_TORCH,)),
    Case("b15_out_of_range.json", 0, (r"though calls that launch them were",), (_NO_TORCH,)),
    Case("b16_sglang_tp2.json", 0, (r"2 recordings", r"launch-bound"), (r"driver lock",)),
    Case("b17_first_kernels_lost.json", 0, (r"40 of 100 kernel launches",)),
    Case("b17_middle_kernels_lost.json", 0, (r"40 of 100 kernel launches",), (r"host-late",)),
    Case(
        "b18_ts0.json", 0, (r"window 1\.570 ms", r"no clock can have"), (r"1778660000", r"-3\.7 %")
    ),
    Case("b18b_second_half_zero.json", 0, (r"window 770\.0 µs",), (r"1778660000",)),
    Case("bj1_far_past.json", 0, (r"window 1\.570 ms",), (r"1778660000",)),
    Case("bb0_rocm_overflow.json", 0, (r"window 9\.980 ms", r"cannot be trusted"), (r"99\.6 %",)),
    Case("b1b_negative.json", 0, (r"17 GPU operations", r"3 events that end before")),
    Case("b20_snap_p2.pickle", 0, (r"209\.7 MB",)),
    Case("b20_snap_p4.pickle", 0, (r"209\.7 MB",)),
    Case("b20_snap_p5.pickle", 0, (r"209\.7 MB",)),
    Case("b22_snapshot.db", 2),
    Case("b25_snap_no_history.pickle", 0, (r"83\.89 MB",)),
    Case("b30_nvtx_plain.sqlite", 0, (r"20 GPU operations",)),
    Case("b30_nvtx_v2.sqlite", 0, (r"20 GPU operations", r"step")),
    Case("b31_kernel_v3.sqlite", 0, (r"20 GPU operations", r"1\.000 ms")),
    Case("b32_no_strings.sqlite", 0, (r"unnamed kernel",)),
    Case(
        "b32_two_kernels_no_strings.sqlite",
        0,
        (r"unnamed kernel 11",),
        (r"100\.0 % of all kernel time",),
    ),
    Case("b33_no_kernel_table.sqlite", 0, (r"though calls that launch",), (r"--trace=cuda",)),
    Case("b34_no_correlation.sqlite", 0, (r"20 GPU operations", r"GPU idle: unknown")),
    Case("b35_empty_kernel.sqlite", 0, (r"no GPU operations were recorded",)),
    Case("b40_rocprofv2_19of21.csv", 0, (r"19 values",)),
    Case("b40_ok_21of21.csv", 0, (r"10 GPU operations",), (r"values, its header",)),
    Case("b42_rocprofv3_empty", 2, (r"mem_cu_results\.pftrace\s+is\s+empty",)),
    Case("b84_empty_metadata", 2, (r"metadata is empty",), (r"\.hatchet",)),
    Case("b43_rocprof_pmc.csv", 0, (r"6 profiled kernel launches",), (r"left out",)),
    Case("b43_pmc_with_times.csv", 0, (r"3\.000 ms",)),
    Case("b44_rocprofv3_counters", 0, (r"4 GPU operations",)),
    Case("b50_gb10_noheader.csv", 2),
    Case("b50_gb10.csv", 0, (r"658 J",)),
    Case("b52_dcgm_mig.prom", 0, (r"1 × NVIDIA H100 NVL",), (r"L>>>",)),
    Case("b53_dcgmi_dmon.txt", 0, (r"284 W",)),
    Case("b60_pyspy_old_units.speedscope.json", 0, (r"60\.0 %",)),
    Case("b60_pyspy_subproc.speedscope.json", 0),
    Case("b61_pyspy_raw_concat.txt", 0, (r"115 samples",)),
    Case("b63_two_threads.speedscope.json", 0),
    Case("b71_fr_nccl2", 0, (r"different collectives",)),
    Case("b81_zephyr_wrap", 0, (r"1 end of rows", r"clock ran\s+backwards")),
    Case("b90_vllm_server.log", 0, (r"KV cache is full", r"--max-num-seqs")),
    Case("b91_vllm_metrics.prom", 0, (r"le=0\.5", r"le=10\.0"), (r"GPU of unknown name",)),
    Case("b92_key_averages.txt", 0, (r"_C::onednn_mm",)),
    Case("b93_nccl_debug.log", 0, (r"TCP sockets", r"bootstrap")),
    Case("ba0_leading_comma.json", 0, (r"10 GPU operations", r"500\.0 µs")),
    Case("ba2_wacky.json", 0, (r"2 CPU ranges",), (_NO_TORCH,)),
    Case("ba3_gpu_only.json", 0, (r"10 GPU operations", r"no CPU activity")),
    Case("bc1_overlap.pftrace", 0, (r"5 CPU ranges", r"Event2 +annotation +1 +150 ns")),
    Case("bd0_ncu_details.csv", 0, (r"gemm +1 +1\.500 ms +12 +—",), (r"latency bound",)),
    Case("bd1_ncu_semicolon.csv", 2, (r"no known format",)),
    Case("bf0_privateuse1.json", 0, (r"10 GPU operations",)),
    Case("bg0_complete.json", 0, (r"100 GPU operations",), (r"kernel launches have no",)),
    Case("bg0_lost.json", 0, (r"40 of 100 kernel launches",)),
    *(Case(f"bh0_vtune_{c}.csv", 0, (r"12\.35 s",)) for c in ("tab", "comma", "semicolon")),
    Case("bh1_unitrace_cut.json", 0, (r"9 GPU operations", r"ends in the middle"), (_NO_TORCH,)),
    Case("bi0_vllm_phases.json", 0, (r"decode +3", r"prefill +2")),
    Case("bj0_huge_cpu_op.json", 0, (r"window 1\.570 ms",)),
    Case("bl0_dispatch_mode_twice.json", 0, (r"20 GPU operations",)),
    Case("bl1_child_ends_late.json", 0, (r"fwd makes 20 of 20 launches",)),
    Case("bl1_control_nested.json", 0, (r"20 GPU operations",)),
    Case("bl1_overlapping_steps.json", 0, (r"20 GPU operations",)),
    Case("ba1_seconds.json", 0, (r"compile",), (_NO_TORCH,)),
    Case("be0_sglang", 0, (r"4 recordings",)),
    Case("be1_vllm", 0, (r"2 recordings", r"server's\s+front end")),
    Case("be2_twice", 2, (r"rank 0 was\s+recorded twice", r"--before"), (r"4 × GPU",)),
    *(Case(f"bf1_{v}.txt", 0, (r"9[12] %",)) for v in ("dcgmi_nw", "v2", "v3", "v4", "v5")),
    Case("bk0_fr_missing_rank", 0, (r"Rank 1 left no dump",)),
    Case("bk1_fr_empty_file", 0, (r"Rank 3 left no dump",)),
    Case("bm0_windows_backslash.json", 0, (), (r"unreadable",)),
    Case("bm2_windows_many.json", 0, (), (r"unreadable",)),
)


def _is_hex_dump(path: Path) -> bool:
    """Whether xxd wrote over a file, as it does where it is given two names."""
    return path.is_file() and path.read_bytes().startswith(b"00000000: ")


@pytest.mark.corpus
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_screen_says(corpus: Path, case: Case) -> None:
    path = corpus.parent / "reported" / "inputs" / case.name
    if not path.exists():
        pytest.skip("the rebuilt reports are not there")
    if _is_hex_dump(path / "metadata"):
        pytest.skip("its metadata was overwritten by a hex dump: copy the input anew")
    outcome = sightline("report", "--no-html", path)
    said = outcome.said
    assert outcome.code == case.code, said
    for pattern in case.has:
        assert re.search(pattern, said), pattern
    for pattern in case.lacks:
        assert not re.search(pattern, said), pattern


@pytest.mark.corpus
def test_a_part_of_a_snapshot_has_no_more_than_it_held(corpus: Path, tmp_path: Path) -> None:
    path = corpus.parent / "reported" / "inputs" / "b20_snap_p5.pickle"
    if not path.exists():
        pytest.skip("the rebuilt reports are not there")
    cut = tmp_path / "cut.sightline"
    assert sightline("import", path, "--between", "0ms..0.5ms", "-o", cut).code == 0
    said = sightline("memory", cut).out
    assert "peak 52.43 MB in 5 blocks" in said
    assert not re.search(r"-\d|[2-9]\d\d\.\d %", said)
    assert sightline("memory", "--window", "0ms..0.5ms", path).code == 2


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["bl1_overlapping_steps.json", "bl1_control_nested.json"])
def test_a_range_that_begins_before_its_step_keeps_its_work(corpus: Path, name: str) -> None:
    path = corpus.parent / "reported" / "inputs" / name
    if not path.exists():
        pytest.skip("the rebuilt reports are not there")
    said = sightline("stats", "annotations", path).out
    assert re.search(r"fwd +- +- +\d +5 +750\.0 µs +10 +500\.0 µs", said), said


@pytest.mark.corpus
def test_every_input_is_a_case(corpus: Path) -> None:
    folder = corpus.parent / "reported" / "inputs"
    if not folder.exists():
        pytest.skip("the rebuilt reports are not there")
    assert {path.name for path in folder.iterdir()} == {case.name for case in CASES}
