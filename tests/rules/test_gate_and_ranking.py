"""The data-quality gate, and what becomes of findings on the way to the list."""

from __future__ import annotations

import polars as pl

from sightline import registry
from sightline.model.declare import Finding
from sightline.rules.ranking import rank_findings
from support import traces
from support.simulated import simulated

QUIET = pl.DataFrame(
    {"check": ["importer"], "effect": ["ok"], "concerns": ["all"], "count": [0], "text": ["fine"]}
)


def finding(rule: str, gain: int | None, severity: str = "warning", **more) -> Finding:
    return Finding(rule, rule, severity, "said", gain_ns=gain, confidence="high", **more)


def ranked(found: list[Finding], gate: pl.DataFrame) -> list[Finding]:
    return rank_findings(found, [module.RULE for _, module in registry.members("rules")], gate)


def effects(run) -> dict[str, str]:
    return dict(run.ask("quality_gate").select("check", "effect").rows())


def test_largest_gain_first_notes_and_abstentions_last():
    found = [
        finding("a", 5),
        finding("b", 9),
        finding("c", 99, "info"),
        finding("d", None, "info", abstained=True, reason="not recorded"),
    ]
    assert [f.rule for f in ranked(found, QUIET)] == ["b", "a", "c", "d"]


def test_the_window_comes_before_profiled_kernels():
    found = [
        finding("ncu-latency", 900),
        finding("sync-in-step", 3),
        finding("ncu-tail-effect", 901),
    ]
    assert [f.rule for f in ranked(found, QUIET)] == [
        "sync-in-step",
        "ncu-tail-effect",
        "ncu-latency",
    ]


def test_a_loss_lowers_confidence_and_is_named():
    gate = QUIET.with_columns(effect=pl.lit("lowers"), text=pl.lit("12 records were dropped"))
    (graded,) = ranked([finding("a", 5)], gate)
    assert graded.confidence == "medium"
    assert graded.limits == ("12 records were dropped",)


def test_what_a_late_rank_is_late_with_is_merged_into_it():
    late = finding("straggler-rank", 50, where={"late_ranks": [1], "ranks": [1]})
    why = finding("host-late", 40, where={"ranks": [1]}, fix="log less", cause="logging")
    other = finding("host-late", 40, where={"ranks": [0, 1]})
    (merged,) = ranked([late, why], QUIET)
    assert merged.rule == "straggler-rank"
    assert merged.fix == "on these ranks: log less"
    assert any("host-late there" in line for line in merged.evidence)
    assert len(ranked([late, other], QUIET)) == 2


def test_a_clean_recording_passes_the_gate():
    assert set(effects(simulated("healthy").run).values()) == {"ok"}


def test_what_the_gate_sees(tmp_path):
    whole = [traces.kernel("k", 10 * i, 0) for i in range(20)]
    seen = effects(traces.opened(tmp_path / "a", whole))
    assert seen["zero durations"] == "lowers"
    assert seen["host"] == "blocks"
    early = [
        e
        for i in range(20)
        for e in (traces.launch(10 * i + 5, 2, i), traces.kernel("k", 10 * i, 3, i))
    ]
    seen = effects(traces.opened(tmp_path / "b", [*early, traces.step(1, 0, 300)]))
    assert seen["clocks"] == "lowers"
    assert seen["steps"] == "lowers"


def test_every_gap_belongs_to_one_rule_and_every_copy_to_one():
    for scenario in ("random_program", "h2d_bound", "straggler"):
        run = simulated(scenario).run
        gaps = run.ask("idle_rules")
        assert gaps.get_column("duration_ns").sum() == run.ask("breakdown")["idle_ns"].sum()
        copies = run.ask("copy_exposure").get_column("total_ns").sum()
        assert copies == run.ask("breakdown").get_column("exposed_copy_ns").sum()
        comm = run.ask("comm_exposure")
        parts = ["pipeline_ns", "small_ns", "slow_ns", "transfer_ns", "waiting_ns"]
        whole = run.ask("breakdown").get_column("exposed_comm_ns")
        assert comm.select(pl.sum_horizontal(parts)).to_series().to_list() == whole.to_list()
