"""device-busy: what is said of a run that its kernels bind."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.run import Run
from support import exports
from support.rules import answers, assert_silent
from support.traces import call, computed, kernel, launched, opened, queued, told
from synth_nsys import Export

RULE = "device-busy"


def test_all_of_the_window(tmp_path: Path) -> None:
    (found,) = answers(opened(tmp_path, queued(("gemm", 600), ("norm", 300), ("gemm", 100))), RULE)
    assert (found.severity, found.states_limit, found.gain_ns) == ("info", True, None)
    assert "100.0 % of the window" in found.summary
    assert found.evidence[:2] == (
        "by kind: 70.0 % matrix products, 30.0 % other",
        "70.0 %  2 × gemm, 700.0 µs",
    )
    assert "gemm takes 70.0 % of the kernel time" in found.summary
    assert found.where["kernel"] == "gemm"


def test_kernels_have_their_short_names(tmp_path: Path) -> None:
    gelu = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int, float)"
    )
    (found,) = answers(opened(tmp_path, queued((gelu, 1000))), RULE)
    assert found.evidence == (
        "by kind: 100.0 % elementwise",
        "100.0 %  1 × vectorized_elementwise_kernel<GeluCUDAKernelImpl>, 1.000 ms",
    )
    assert found.where["kernel"] == gelu


def test_shares_are_those_of_the_table_that_is_named(tmp_path: Path) -> None:
    """A collective takes as long as the products beside it: half of the kernel time is theirs."""
    work = [
        *queued(("ampere_sgemm_128x64_tn", 1000)),
        launched(5, kernel("ncclDevKernel_AllReduce_Sum_f16_RING_LL", 20, 1000, stream=9)),
    ]
    run = opened(tmp_path, work)
    (found,) = answers(run, RULE)
    assert found.evidence[0] == "by kind: 50.0 % matrix products, 50.0 % communication"
    assert "takes 50.0 % of the kernel time" in found.summary
    table = dict(run.ask("kernels").select("name", "kernel_pct").rows())
    assert table[found.where["kernel"]] == 50.0


ATEN = "void at::native::"


def test_what_only_moves_data_is_fused_first(tmp_path: Path) -> None:
    """Of 1,000 µs 620 only move data; a conversion's name is not a convolution's."""
    work = queued(
        (f"{ATEN}elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda>(int)", 200),
        (f"{ATEN}vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int)", 300),
        (f"{ATEN}reduce_kernel<512, 1, at::native::MeanOps<float>>(int)", 120),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", 250),
        ("cudnn_ampere_scudnn_128x64_relu_medium_nn_v1", 100),
        ("convert_them", 30),
    )
    (found,) = answers(opened(tmp_path, work), RULE)
    assert found.evidence[0] == (
        "by kind: 30.0 % elementwise, 25.0 % matrix products, 20.0 % copies and layout, "
        "12.0 % reductions, 10.0 % convolution, 3.0 % the rest"
    )
    assert "62.0 % of the kernel time is in kernels that move data" in found.summary
    assert "fuse them first (torch.compile" in found.fix


def test_a_program_with_kernels_of_its_own_has_no_kinds(tmp_path: Path) -> None:
    (found,) = answers(opened(tmp_path, queued(("advec_cell", 600), ("gemm", 400))), RULE)
    assert found.evidence[0] == "60.0 %  1 × advec_cell, 600.0 µs"


def test_how_near_operators_are_to_their_roofs(tmp_path: Path) -> None:
    """On an A100, 31.2 GFLOP are 100 of 500 µs, and 203.9 MB are 100 of 200 µs."""
    events = [
        computed("aten::mm", 0, kernel("gemm", 100, 500), **told([2600, 3000], [3000, 2000])),
        computed("aten::relu", 20, kernel("relu", 600, 200), **told([50_975_000])),
        computed("aten::unheard_of", 40, kernel("other", 800, 200)),
    ]
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}
    (found,) = answers(opened(tmp_path, events, deviceProperties=[gpu]), RULE)
    assert found.evidence[-1] == (
        "operators of known shapes (77.8 % of the kernel time) run at 28.6 % of their roofs; "
        "80.0 % of the gap is gemm  (sightline stats gap_to_peak)"
    )


def test_79_percent(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 400), kernel("b", 610, 390)])
    assert_silent(run, RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)


COUNTERS = """\
Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,\
Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,\
Counter_Value,Start_Timestamp,End_Timestamp
1,1,Agent 1,1,7,7,64,6,gemm,64,0,0,16,0,128,SQ_WAVES,64,1000000,4000000
2,2,Agent 1,1,7,7,64,6,norm,64,0,0,16,0,128,SQ_WAVES,64,9000000,10000000
"""


def test_kernels_that_the_profiler_ran_one_at_a_time(tmp_path: Path) -> None:
    """4 of 9 ms are compute, and the gap between the two kernels is rocprofv3's own."""
    (tmp_path / "7_counter_collection.csv").write_text(COUNTERS)
    run = sightline.open(str(tmp_path / "7_counter_collection.csv"))
    found, *others = sightline.findings(run)
    assert [f.rule for f in others if not f.abstained] == []
    assert (found.rule, found.title) == (RULE, "Kernels recorded one at a time")
    assert found.evidence[1] == "75.0 %  1 × gemm, 3.000 ms"
    assert "gemm takes 75.0 % of the kernel time" in found.summary
    assert "ncu" not in found.fix


def test_a_native_programs_transpose_is_its_purpose(tmp_path: Path) -> None:
    """A program's own kernel of that name is not told to be fused away."""
    head = "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp"
    rows = ["KERNEL_DISPATCH,Agent 1,1,5,1,transpose(float*),1000,900000", ""]
    (tmp_path / "x_kernel_trace.csv").write_text("\n".join([head, *rows]))
    (found,) = answers(sightline.open(str(tmp_path / "x_kernel_trace.csv")), RULE)
    assert "transpose takes 100.0 % of the kernel time" in found.summary
    assert "fuse" not in found.fix


def test_registers_that_leave_little_room(tmp_path: Path) -> None:
    """188 registers × 192 threads: one block of 6 of an SM's 48 warps (RTX 3050)."""
    shape = {"grid": [84, 1, 1], "block": [192, 1, 1], "registers per thread": 188}
    gpu = {"id": 0, "name": "NVIDIA GeForce RTX 3050 Laptop GPU", "numSms": 16}
    gpu |= {"computeMajor": 8, "computeMinor": 6}
    work = launched(0, kernel("fit_lines", 10, 1_000, **shape))
    (found,) = answers(opened(tmp_path, work, deviceProperties=[gpu]), RULE)
    assert (
        "188 registers a thread leave room for 1 block of 6 warps on a multiprocessor: 12.5 % of "
        "its warps"
    ) in found.evidence
    assert "__launch_bounds__" in found.fix
    few = launched(0, kernel("fit_lines", 10, 1_000, **shape | {"registers per thread": 40}))
    (found,) = answers(opened(tmp_path, few, "few.json", deviceProperties=[gpu]), RULE)
    assert "room" not in found.fix


def test_what_is_faster_than_a_first_version_of_a_well_known_algorithm(tmp_path: Path) -> None:
    """A product that the program wrote itself, and a library's, which nobody rewrites."""

    def advise(name: str, folder: Path) -> str:
        export = Export()
        export.add("TARGET_INFO_GPU", id=0, name="NVIDIA RTX A5000", smCount=64)
        for n in range(2):
            at = n * 1_000_000
            export.api("cudaLaunchKernel", at, at + 5_000, n + 1)
            export.kernel(name, at + 10_000, at + 1_009_000, n + 1, gridX=4096, blockX=256)
        (found,) = answers(exports.opened(folder, export), RULE)
        return found.fix or ""

    assert advise("matrixMultiply(float*, float*)", tmp_path / "own").startswith("cuBLAS")
    assert advise("update_cells(float*)", tmp_path / "other").startswith("profile it")
    assert "cuBLAS" not in advise("ampere_sgemm_128x64_tn", tmp_path / "library")


def test_four_blocks_are_said_before_the_algorithm(tmp_path: Path) -> None:
    """Where few-blocks is not sure of its gain, this speaks first."""
    shape = {"grid": [4, 1, 1], "block": [256, 1, 1]}
    gpu = {"id": 0, "name": "NVIDIA GeForce RTX 3050 Ti Laptop GPU", "numSms": 20}
    work = launched(0, kernel("matVecKernel", 10, 1_000, **shape))
    (found,) = answers(opened(tmp_path, work, deviceProperties=[gpu]), RULE)
    assert "16 of 20 multiprocessors have no block of it" in found.evidence
    assert found.fix is not None
    assert found.fix.startswith("divide its work into more blocks")


def test_a_graph_that_is_one_operation_is_no_kernel_to_profile(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("CUDA graph 1", 400 * i, 390) for i in range(10)])
    (found,) = answers(run, RULE)
    assert "--cuda-graph-trace=node" in (found.fix or "")
    assert "ncu" not in (found.fix or "")
    assert_silent(run, "dominating-kernel")


def sorting(folder: Path, length: int, *, data: int = 512 << 20, blocks: int = 65_536) -> Run:
    """An upload on a GTX 1050 (84.1 GB/s), and twelve launches of `exchange` of so many µs."""
    us, e = 1_000, Export()
    name = "NVIDIA GeForce GTX 1050"
    e.add("TARGET_INFO_GPU", id=0, name=name, memoryBandwidth=84_096_000_000, smCount=6)
    e.api("cudaMemcpy", 0, 50_000 * us, 1)
    e.copy(1, 10 * us, 50_000 * us, 1, data, 0, 2)
    at = 50_010
    for i in range(12):
        e.api("cudaLaunchKernel", (at + 5 * i - 200) * us, (at + 5 * i - 197) * us, 2 + i)
    for i in range(12):
        begin = at + length * i
        shape = {"gridX": blocks, "blockX": 1_024}
        e.kernel("exchange(int*)", begin * us, (begin + length) * us, 2 + i, **shape)
    return exports.opened(folder, e)


def test_launches_that_each_pass_over_the_data(tmp_path: Path) -> None:
    """2.147 GB at 84.1 GB/s are 25.5 ms, and each launch takes 60."""
    (found,) = answers(sorting(tmp_path, 60_000, data=2 << 30, blocks=262_144), RULE)
    assert (
        "each of its 12 launches takes 2.3 times what the memory needs for the 2.147 GB that were "
        "copied (84 GB/s): probably one pass over them at the memory's rate"
    ) in found.evidence
    assert found.fix.startswith("fewer passes over the data")


@pytest.mark.parametrize(
    "case",
    [
        {"length": 90_000},  # 3.5 times
        {"length": 20_000},  # 0.8 times
        {"length": 60_000, "blocks": 8_192},  # 256 bytes for each thread: they loop
    ],
)
def test_other_launches_are_no_passes(tmp_path: Path, case: dict[str, int]) -> None:
    (found,) = answers(sorting(tmp_path, **{"data": 2 << 30, "blocks": 262_144, **case}), RULE)
    assert not any("one pass over them" in line for line in found.evidence)
