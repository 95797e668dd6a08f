"""Analyses and rules of profiled kernels, on reports whose answer is known by construction."""

from __future__ import annotations

import polars as pl
import pytest

import sightline
from importers.test_ncu_rep import with_code
from sightline import findings, registry
from sightline.algebra.kernel_names import plain_name
from sightline.errors import MissingDataError, RequestError
from sightline.model.columns import conform
from sightline.model.run import Run, page
from sightline.report.kernels import remove_links
from sightline.report.kernels_text import print_kernels
from sightline.report.summary import summary
from synth_ncu import Kernel, report

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
RATIO = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
TIME = "gpu__time_duration.sum"
KERNEL_RULES = [n for n in registry.names("rules") if n.startswith("ncu_")]


def run_of(tmp_path, *kernels: Kernel, name="r.ncu-rep") -> Run:
    path = tmp_path / name
    path.write_bytes(report(list(kernels)))
    return sightline.open(str(path))


def lit(sm: float, memory: float, **more) -> Kernel:
    grid = more.pop("grid", (1600, 1, 1))
    base = {TIME: 1000.0, SM: sm, MEMORY: memory, "launch__waves_per_multiprocessor": 4.0}
    return Kernel(grid=grid, metrics=base | more)


def rule_names(run: Run) -> set[str]:
    return {f.rule for f in findings(run) if not f.abstained}


@pytest.mark.parametrize(
    ("sm", "memory", "waves", "verdict"),
    [
        (85.0, 70.0, 4.0, "compute"),
        (70.0, 85.0, 4.0, "memory"),
        (70.0, 65.0, 4.0, "balanced"),
        (75.0, 64.0, 4.0, "compute"),
        (30.0, 50.0, 4.0, "latency"),
        (30.0, 50.0, 0.5, "small_grid"),
        (60.0, 20.0, 0.5, "compute"),
        (81.0, 80.0, 4.0, "compute"),
    ],
)
def test_verdicts(sm, memory, waves, verdict, tmp_path):
    run = run_of(tmp_path, lit(sm, memory, launch__waves_per_multiprocessor=waves))
    assert run.ask("speed_of_light")["verdict"].to_list() == [verdict]


def test_stall_families_stay_apart(tmp_path):
    path = tmp_path / "r.ncu-rep"
    counters = {
        RATIO.format("long_scoreboard"): 6.0,
        RATIO.format("selected"): 1.0,
        "smsp__average_warp_latency_per_inst_issued.ratio": 8.0,
    }
    path.write_bytes(with_code(**counters))
    run = sightline.open(str(path))
    rows = run.ask("stalls").select("family", "reason", "value", "share_pct").rows()
    assert rows == [
        ("counters", "long_scoreboard", 6.0, 75.0),
        ("counters", "selected", 1.0, 12.5),
        ("samples", "long_scoreboard", 30.0, 100 * 30 / 33),
        ("samples", "selected", 3.0, 100 * 3 / 33),
        ("samples_not_issued", "long_scoreboard", 20.0, 100.0),
    ]
    lines = run.ask("stalls", by="line").filter(family="samples")
    assert lines.select("line", "value").rows() == [(12, 30.0), (10, 3.0)]
    by_instruction = run.ask("stalls", by="instruction").filter(family="samples")
    assert by_instruction["opcode"].to_list() == ["FADD", "LDG"]
    hot = run.ask("hot_lines").select("line", "samples", "reason", "reason_pct").rows()
    assert hot == [(12, 30, "long_scoreboard", 100.0), (10, 3, None, None)]
    with pytest.raises(RequestError, match="by 'file'"):
        run.ask("stalls", by="file")


def test_what_was_not_recorded_is_said(tmp_path):
    run = run_of(tmp_path, Kernel(metrics={TIME: 5.0}))
    for analysis in ("stalls", "instruction_mix"):
        with pytest.raises(MissingDataError, match="ncu"):
            run.ask(analysis)
    assert run.ask("speed_of_light")["verdict"].to_list() == [None]
    abstained = {f.rule for f in findings(run) if f.abstained}
    assert {"ncu-latency", "ncu-stall", "ncu-bank-conflicts"} <= abstained


def test_memory_hierarchy(tmp_path):
    metrics = {
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 320.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 10.0,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 30.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 40.0,
        "memory_l2_theoretical_sectors_global": 100.0,
        "memory_l2_theoretical_sectors_global_ideal": 60.0,
        "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum": 75.0,
        "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum": 25.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 50.0,
    }
    run = run_of(tmp_path, lit(30.0, 50.0, **metrics))
    found = {
        (r["level"], r["quantity"]): r["value"] for r in run.ask("memory_hierarchy").to_dicts()
    }
    assert found["l1", "sectors per request, global loads"] == 32
    assert found["shared", "bank conflicts, loads"] == 75
    assert found["l2", "sectors beyond the ideal, global accesses"] == 40
    assert found["l2", "misses that go to sysmem"] == 75
    by_rule = {f.rule: f for f in findings(run) if not f.abstained}
    conflict = by_rule["ncu-bank-conflicts"]
    # Local: 75 % of the shared wavefronts, in a unit that is busy half of the time.
    assert conflict.where["estimate"] == "local"
    assert conflict.where["estimate_pct"] == pytest.approx(37.5)
    assert conflict.gain_ns == 375
    assert {"ncu-uncoalesced-global", "ncu-host-memory", "ncu-latency"} <= set(by_rule)


@pytest.mark.parametrize(
    ("kernel", "rule", "gain_pct"),
    [
        (lit(30.0, 20.0, grid=(20, 1, 1)), "ncu-small-grid", 75.0),  # 20 of 80 SMs
        (lit(30.0, 20.0), "ncu-latency", 70.0),
        (
            lit(70.0, 20.0, **{"smsp__issue_active.avg.per_cycle_active": 0.4}),
            "ncu-issue-slots",
            30.0,
        ),
        (
            lit(50.0, 20.0, **{"smsp__thread_inst_executed_per_inst_executed.ratio": 16.0}),
            "ncu-divergence",
            25.0,
        ),
        (
            lit(
                30.0,
                20.0,
                **{
                    RATIO.format("barrier"): 4.0,
                    "smsp__average_warp_latency_per_inst_issued.ratio": 10.0,
                    "smsp__issue_active.avg.per_cycle_active": 0.3,
                },
            ),
            "ncu-stall",
            40.0,
        ),
        (
            lit(
                30.0,
                20.0,
                **{
                    "sm__cycles_active.avg": 50.0,
                    "sm__cycles_active.max": 100.0,
                    "sm__cycles_elapsed.max": 100.0,
                },
            ),
            "ncu-imbalance",
            25.0,
        ),
        (
            lit(
                30.0,
                20.0,
                **{
                    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 50.0,
                    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 50.0,
                    "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": 80.0,
                },
            ),
            "ncu-no-fma",
            40.0,
        ),
    ],
)
def test_estimates(kernel, rule, gain_pct, tmp_path):
    found = {f.rule: f for f in findings(run_of(tmp_path, kernel)) if not f.abstained}
    assert found[rule].where["estimate_pct"] == pytest.approx(gain_pct)
    assert found[rule].gain_ns == round(10 * gain_pct)


def test_partly_used_sectors_count_where_they_hurt_most(tmp_path):
    """8 of 32 bytes: 75 % of L1 at 20 %, of half of L2 at 90 %, of a quarter of DRAM at 80 %."""
    metrics = {
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 8.0,
        "smsp__sass_average_data_bytes_per_sector_mem_local_op_ld.ratio": 0.0,
        "l1tex__t_sector_hit_rate.pct": 50.0,
        "lts__t_sector_hit_rate.pct": 50.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 20.0,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": 90.0,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 80.0,
    }
    run = run_of(tmp_path, lit(30.0, 50.0, **metrics))
    (found,) = [f for f in findings(run) if f.rule == "ncu-access-pattern"]
    assert found.where["estimate_pct"] == pytest.approx(75 * 0.5 * 0.9)
    assert "L2" in found.summary


def test_a_busy_kernel_draws_no_alarm(tmp_path):
    kernel = lit(
        92.0,
        40.0,
        **{
            "smsp__issue_active.avg.per_cycle_active": 0.9,
            "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
            "sm__warps_active.avg.pct_of_peak_sustained_active": 99.0,
            "launch__registers_per_thread": 32.0,
            "launch__block_size": 256.0,
            "launch__shared_mem_per_block_driver": 1024.0,
        },
    )
    assert rule_names(run_of(tmp_path, kernel)) == set()


@pytest.mark.parametrize("name", KERNEL_RULES)
def test_a_rule_carries_its_page(name):
    module = registry.load("rules", name)
    text = page(module)
    assert module.RULE.name == name.replace("_", "-")
    for heading in (
        "Symptom",
        "Why it hurts",
        "Evidence",
        "Threshold",
        "Fix",
        "False positives",
        "References",
    ):
        assert f"\n{heading}\n" in text


@pytest.mark.parametrize(
    ("ncu", "timeline"),
    [
        (
            "void gemm<(int)32, (bool)1>(int, const float *)",
            "void gemm<32, true>(int, float const*)",
        ),
        ("<unnamed>::k(float *)", "(anonymous namespace)::k(float*)"),
        ("void a::b<float, (unsigned int)4>(T1)", "void a::b<float, 4u>(float)"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ],
)
def test_names_meet_across_tools(ncu, timeline):
    assert plain_name(ncu) == plain_name(timeline)


def test_different_instances_stay_apart():
    assert plain_name("void gemm<(int)32>(int)") != plain_name("void gemm<64>(int)")


def timeline(run: Run, ops: list[tuple[str, int, int]]) -> Run:
    """The run, with these kernels (name, blocks, ns) on a timeline, one after the other."""
    table = registry.load("model.tables", "device_ops").TABLE
    rows, at = [], 0
    for n, (name, blocks, ns) in enumerate(ops):
        rows.append({
            "device_op_id": n, "rank": 0, "recording_id": 0, "device_id": 0, "kind": "kernel",
            "name": name, "start_ns": at, "end_ns": at + ns, "grid_x": blocks, "grid_y": 1,
            "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1,
        })  # fmt: skip
        at += ns + 10
    frame = conform(pl.DataFrame(rows), table.columns)
    tables = {n: run.table(n) for n in run.present()} | {"device_ops": frame}

    class Joined(Run):
        def scan(self, name):
            return tables[name].lazy() if name in tables else Run.scan(run, name)

        def rows(self, name):
            return tables[name].height if name in tables else 0

    return Joined(run.parts)


def test_profiled_kernels_meet_the_program(tmp_path):
    far, near = lit(20.0, 10.0), lit(91.0, 10.0, grid=(320, 1, 1))
    run = timeline(
        run_of(
            tmp_path, far, near, near, Kernel(name="void gone<(int)1>(int)", metrics={TIME: 1.0})
        ),
        [
            ("scale(float*)", 1600, 400),
            ("scale(float*)", 320, 5000),
            ("scale(float*)", 320, 3000),
            ("scale(float*)", 1600, 600),
            ("other", 1, 50),
        ],
    )
    rows = (
        run.ask("kernel_join")
        .select(
            "name",
            "grid",
            "match",
            "launches",
            "profiled",
            "paired",
            "program_ns",
            "limit_pct",
            "distance_ns",
        )
        .rows()
    )
    assert (
        rows
        == [
            # Its near ones take eight times as long, yet less is to be won there.
            ("scale(float*)", "1600×1×1", "both", 2, 1, 1, 1000, 20.0, 800),
            ("scale(float*)", "320×1×1", "both", 2, 2, 2, 8000, pytest.approx(91.0), 720),
            ("other", "1×1×1", "timeline only", 1, None, 0, 50, None, None),
            ("void gone<(int)1>(int)", "160×1×1", "report only", None, 1, None, None, None, None),
        ]
        or rows[0][8] == rows[1][8] == 800
    )
    assert sum(r[6] or 0 for r in rows) == 9050


def test_rules_count_time_in_the_program(tmp_path):
    run = timeline(run_of(tmp_path, lit(20.0, 10.0)), [("scale(float*)", 1600, 50_000)])
    latency = next(f for f in findings(run) if f.rule == "ncu-latency")
    assert latency.gain_ns == 40_000


def test_a_vendors_message_ends_with_a_sentence(tmp_path):
    from synth_ncu.report import rule

    first = "Every scheduler issues only every 2.7 cycles. " + "This leaves units idle. " * 4
    said = rule("Slots", "Slots", "SchedulerStats", first + "Cut " * 60 + ".", type=2)
    kernel = Kernel(name="long_" * 30, metrics={TIME: 1e9}, rules=(said,))
    text = " ".join("\n".join(print_kernels(summary(run_of(tmp_path, kernel)))).split())
    assert "every 2.7 cycles. This leaves units idle." in text
    assert "Cut" not in text


def test_the_terminal_report_fits_and_names_the_vendor(tmp_path):
    from synth_ncu.report import rule

    said = rule(
        "SOLBottleneck", "Bottleneck", "SpeedOfLight", "Look at @section:LaunchStats:Launch@ now"
    )
    kernel = Kernel(
        name="void " + "long_" * 30 + "(int)",
        metrics={TIME: 1e9, SM: 5.0, MEMORY: 6.0},
        rules=(said,),
    )
    text = "\n".join(print_kernels(summary(run_of(tmp_path, kernel))))
    assert max(map(len, text.splitlines())) <= 80
    assert "NVIDIA Nsight Compute 2024.1.0.0 itself says" in text
    assert remove_links("see @url:Guide:https://x.y@ and @section:A:B@") == "see Guide and B"
