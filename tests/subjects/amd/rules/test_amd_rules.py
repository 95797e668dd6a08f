"""Rules about kernels that rocprof-compute measured: one kernel of 10 µs on an MI300X each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core import registry
from sightline.core.model.run import Run
from support.rules import assert_abstains, assert_silent, assert_speaks
from support.workloads import ALL_CYCLES, counted

# 100 bytes a ns of 5,324.8 are 1.88 %; requests are of 64 bytes unless counted as others.
NO_TRAFFIC = {
    "TCC_EA0_RDREQ_sum": 0, "TCC_EA0_RDREQ_32B_sum": 0, "TCC_BUBBLE_sum": 0,
    "TCC_EA0_WRREQ_sum": 0, "TCC_EA0_WRREQ_64B_sum": 0,
}  # fmt: skip
IDLE = {
    "SQ_ACTIVE_INST_VALU": ALL_CYCLES // 5, "SQ_VALU_MFMA_BUSY_CYCLES": 0,
    "SQ_THREAD_CYCLES_VALU": 64 * ALL_CYCLES // 5,
}  # fmt: skip


def read_share(pct: float) -> dict[str, int]:
    """Reads of so much of the memory's bandwidth in 10 µs."""
    return NO_TRAFFIC | {"TCC_EA0_RDREQ_sum": round(pct / 100 * 5_324.8 * 10_000 / 64)}


def test_memory_limit(tmp_path: Path) -> None:
    run = counted(tmp_path, **read_share(85))
    assert_speaks(
        run,
        "amd-memory-limit",
        cost_ns=0,
        gain_ns=0,
        evidence=["85.0 % of its peak"],
        fix="move less data",
        states_limit=True,
    )
    assert_silent(counted(tmp_path / "less", **read_share(79.9)), "amd-memory-limit")


def test_compute_limit(tmp_path: Path) -> None:
    busy = {"SQ_ACTIVE_INST_VALU": round(0.9 * ALL_CYCLES)}
    assert_speaks(
        counted(tmp_path, **IDLE | busy),
        "amd-compute-limit",
        cost_ns=0,
        gain_ns=0,
        evidence=["VALU Utilization is 90.0 %"],
        fix="matrix cores",
    )
    assert_silent(counted(tmp_path / "idle", **IDLE), "amd-compute-limit")


def test_latency(tmp_path: Path) -> None:
    """Neither side is at 60 %: what is left up to the limit is 58 % of 10 µs."""
    run = counted(tmp_path, **IDLE | read_share(42))
    assert_speaks(
        run,
        "amd-latency",
        cost_ns=5800,
        gain_ns=5800,
        evidence=["VALU Utilization 20.0 %", "42.0 %", "latency bound"],
        fix="more data in one launch",
    )
    # 512 registers of a SIMD hold two waves of 200: a quarter of the eight that it has room for.
    few = counted(tmp_path / "few", **IDLE | read_share(42) | {"Arch_VGPR": 200})
    assert_speaks(few, "amd-latency", cost_ns=5800, gain_ns=5800, evidence=[], fix="more waves")
    assert_silent(counted(tmp_path / "memory", **IDLE | read_share(61)), "amd-latency")


def test_lds_conflicts(tmp_path: Path) -> None:
    """A quarter of LDS' cycles, which are half of all: 12.5 % of 10 µs."""
    conflicts = {"SQ_LDS_IDX_ACTIVE": ALL_CYCLES // 2, "SQ_LDS_BANK_CONFLICT": ALL_CYCLES // 8}
    assert_speaks(
        counted(tmp_path, **conflicts),
        "amd-lds-conflicts",
        cost_ns=1250,
        gain_ns=1250,
        evidence=["25.0 % of the cycles of LDS"],
        fix="swizzle",
        severity="warning",
    )
    few = conflicts | {"SQ_LDS_BANK_CONFLICT": ALL_CYCLES // 24}
    assert_silent(counted(tmp_path / "few", **few), "amd-lds-conflicts")


def test_l2_misses(tmp_path: Path) -> None:
    requests = {"TCC_HIT_sum": 30, "TCC_MISS_sum": 70}
    assert_speaks(
        counted(tmp_path, **requests | read_share(65)),
        "amd-l2-misses",
        cost_ns=0,
        gain_ns=0,
        evidence=["30.0 % of requests hit", "65.0 %"],
        fix="smaller tiles",
    )
    assert_silent(counted(tmp_path / "a", **requests | read_share(50)), "amd-l2-misses")
    hits = {"TCC_HIT_sum": 50, "TCC_MISS_sum": 50}
    assert_silent(counted(tmp_path / "b", **hits | read_share(65)), "amd-l2-misses")


def test_divergence(tmp_path: Path) -> None:
    """16 of 64 lanes in a unit that is in use for a fifth of the time: 0.75 × 0.2 of 10 µs."""
    lanes = IDLE | {"SQ_THREAD_CYCLES_VALU": 16 * ALL_CYCLES // 5}
    assert_speaks(
        counted(tmp_path, **lanes),
        "amd-divergence",
        cost_ns=1500,
        gain_ns=1500,
        evidence=["16.0 of 64 lanes"],
        fix="same path",
    )
    enough = {"SQ_THREAD_CYCLES_VALU": 48 * ALL_CYCLES // 5}
    assert_silent(counted(tmp_path / "enough", **IDLE | enough), "amd-divergence")


def test_scratch(tmp_path: Path) -> None:
    assert_speaks(
        counted(tmp_path, Scratch_Per_Workitem=1888),
        "amd-scratch",
        cost_ns=0,
        gain_ns=0,
        evidence=["1.888 kB of scratch beside 32 vector registers"],
        fix="__launch_bounds__",
        severity="info",
    )
    assert_silent(counted(tmp_path / "none"), "amd-scratch")


def test_matrix_cores_idle(tmp_path: Path) -> None:
    product = IDLE | {
        "SQ_ACTIVE_INST_VALU": round(0.7 * ALL_CYCLES),
        "SQ_INSTS_VALU": 100,
        "SQ_INSTS_VALU_FMA_F32": 60,
    }
    rule = "amd-matrix-cores-idle"
    assert_speaks(
        counted(tmp_path, **product),
        rule,
        cost_ns=0,
        gain_ns=0,
        evidence=["60.0 % of vector instructions are multiply-adds"],
        fix="hipBLASLt",
    )
    assert_silent(counted(tmp_path / "a", **product | {"SQ_INSTS_VALU_FMA_F32": 40}), rule)
    assert_silent(counted(tmp_path / "b", **product | {"SQ_VALU_MFMA_BUSY_CYCLES": 9}), rule)
    assert_silent(counted(tmp_path / "c", **product | IDLE), rule)


@pytest.mark.parametrize(
    ("needs", "waves", "words"),
    [
        ({"Arch_VGPR": 200}, 8, "vector registers"),  # 512 of a SIMD hold two waves of 200
        ({"Arch_VGPR": 100, "Accum_VGPR": 100}, 8, "vector registers"),
        ({"LDS_Per_Workgroup": 20_000}, 12, "LDS"),  # 65,536 bytes hold three groups of 20,480
    ],
)
def test_occupancy_limit(tmp_path: Path, needs: dict[str, Any], waves: int, words: str) -> None:
    """A kernel that uses a fifth of anything: all of the missing waves count."""
    run = counted(tmp_path, **IDLE | NO_TRAFFIC | needs)
    gain = round(10_000 * min(1 - waves / 32, 0.8))
    assert_speaks(
        run,
        "amd-occupancy-limit",
        cost_ns=gain,
        gain_ns=gain,
        evidence=[f"{waves} of 32 waves fit", f"limited by {words}"],
        fix="per work-",
    )


def test_low_occupancy_of_a_busy_kernel_or_a_small_grid_is_no_problem(tmp_path: Path) -> None:
    low = NO_TRAFFIC | IDLE | {"Arch_VGPR": 200}
    busy = low | {"SQ_ACTIVE_INST_VALU": round(0.7 * ALL_CYCLES)}
    assert_silent(counted(tmp_path / "busy", **busy), "amd-occupancy-limit")
    small = low | {"Grid_Size": 304 * 2 * 256}
    assert_silent(counted(tmp_path / "small", **small), "amd-occupancy-limit")


def test_small_grid(tmp_path: Path) -> None:
    """76 work-groups leave three quarters of 304 compute units idle."""
    run = counted(tmp_path, Grid_Size=76 * 256)
    assert_speaks(
        run,
        "amd-small-grid",
        cost_ns=7500,
        gain_ns=7500,
        evidence=["76 work-groups for 304 compute units"],
        fix="split-K",
    )
    assert_silent(counted(tmp_path / "full", Grid_Size=304 * 256), "amd-small-grid")


@pytest.mark.parametrize(
    "rule",
    [
        "amd-memory-limit", "amd-compute-limit", "amd-lds-conflicts", "amd-l2-misses",
        "amd-divergence", "amd-matrix-cores-idle",
    ],
)  # fmt: skip
def test_what_was_not_counted_is_not_judged(tmp_path: Path, rule: str) -> None:
    assert_abstains(counted(tmp_path), rule, "rocprof-compute profile")


def test_nvidias_rules_say_nothing_of_amds_kernels(tmp_path: Path) -> None:
    run: Run = counted(tmp_path, **IDLE | read_share(85))
    rules = [n for n in registry.list_names("rules") if n.startswith("ncu_")]
    assert [f for name in rules for f in registry.load("rules", name).check(run)] == []
    for finding in run.findings():
        assert "ncu" not in f"{finding.fix} {finding.verify} {finding.reason}"


@pytest.mark.corpus
def test_every_real_workload_is_judged(corpus: Path) -> None:
    """A copy is bound by memory's latency, needs no registers and diverges nowhere."""
    folder = corpus / "rocprof_compute/ROCm__rocm-systems/vcopy/MI200"
    run = sightline.open(str(folder))
    assert [f.rule for f in run.findings() if not f.abstained] == ["amd-latency"]
    assert set(run.ask("speed_of_light").get_column("verdict")) == {"latency"}
