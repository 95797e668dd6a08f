"""What becomes of findings on the way to the list."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.core import registry
from sightline.core.model.declare import Finding, Price, make_price
from sightline.diagnosis.price import price_findings
from sightline.diagnosis.ranking import NARROW, REST, rank_findings

QUIET = pl.DataFrame(
    {"check": ["importer"], "effect": ["ok"], "concerns": ["all"], "count": [0], "text": ["fine"]}
)


def finding(rule: str, gain: int | None, severity: str = "warning", **more) -> Finding:
    gain_ns = make_price(gain, "ns")
    sure = {"confidence": "high", **more}
    return Finding(rule, rule, severity, "said", gain=gain_ns, **sure)


def ranked(found: list[Finding], gate: pl.DataFrame, operations: int = 1_000) -> list[Finding]:
    rules = {module.RULE.name: module.RULE for _, module in registry.load_members("rules")}
    priced = price_findings(found, rules, gate, operations=operations, window_ns=1_000)
    return rank_findings(priced, rules, window_ns=1_000)


def test_largest_gain_first_notes_and_abstentions_last():
    found = [
        finding("a", 5),
        finding("b", 9),
        finding("c", 99, "info"),
        finding("d", None, "info", abstained=True, reason="not recorded"),
    ]
    assert [f.rule for f in ranked(found, QUIET)] == ["b", "a", "c", "d"]


@pytest.mark.parametrize(
    ("general", "narrow", "first"),
    [(300, 100, "sync-in-step"), (500, 100, "launch-bound"), (90, 100, "sync-in-step")],
)
def test_a_narrow_finding_comes_before_a_general_one(general: int, narrow: int, first: str) -> None:
    """Unless that launches come late gains four times what ending the waits would."""
    found = [finding("launch-bound", general, "critical"), finding("sync-in-step", narrow)]
    assert ranked(found, QUIET)[0].rule == first


@pytest.mark.parametrize(("general", "first"), [(110, "launch-bound"), (90, "dataloader-starved")])
def test_waiting_for_data_is_no_part_of_late_launches(general: int, first: str) -> None:
    found = [finding("launch-bound", general), finding("dataloader-starved", 100)]
    assert ranked(found, QUIET)[0].rule == first


@pytest.mark.parametrize(("wait", "first"), [(120, "host-late"), (130, "sync-in-step")])
def test_who_names_what_a_wait_is_mostly_followed_by_comes_before_it(wait: int, first: str) -> None:
    """130 of 137 ms behind a wait were one call of the host's, which a narrow finding names."""
    found = [
        finding("sync-in-step", wait, where={REST: True}),
        finding("host-late", 100, where={NARROW: True}),
    ]
    assert ranked(found, QUIET)[0].rule == first


def test_what_was_asked_for_comes_first() -> None:
    found = [finding("sync-in-step", 900), finding("sampled-stalls", 5, is_asked=True)]
    assert [f.rule for f in ranked(found, QUIET)] == ["sampled-stalls", "sync-in-step"]


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


def test_what_one_long_launch_shows_no_loss_elsewhere_makes_less_sure() -> None:
    gate = QUIET.with_columns(effect=pl.lit("lowers"), text=pl.lit("12 records were dropped"))
    where = {"kernel": "scan"}
    (long,) = ranked([finding("b", 20_000_000, where=where, confidence="medium")], gate)
    (short,) = ranked([finding("b", 20_000, where=where, confidence="medium")], gate)
    assert (long.confidence, short.confidence) == ("medium", "low")
    assert long.limits == short.limits == ("12 records were dropped",)


def test_a_loss_lowers_confidence_and_is_named():
    gate = QUIET.with_columns(effect=pl.lit("lowers"), text=pl.lit("12 records were dropped"))
    (graded,) = ranked([finding("a", 5)], gate)
    assert graded.confidence == "medium"
    assert graded.limits == ("12 records were dropped",)


@pytest.mark.parametrize(
    "rule",
    [
        *("preempted-launch-thread", "cpu-oversubscribed", "blocked-on-io", "futex-contention"),
        *("host-waiting", "host-preempted", "host-loading", "host-page-faults", "host-growing"),
    ],
)
def test_what_the_system_did_on_a_late_rank_is_merged_into_it(rule):
    late = finding("straggler-rank", 50, where={"late_ranks": [1], "ranks": [1]})
    (merged,) = ranked([late, finding(rule, 40, where={"ranks": [1]})], QUIET)
    assert (merged.rule, merged.gain_ns) == ("straggler-rank", 50)
    assert any(rule in line for line in merged.evidence)


def test_what_a_late_rank_is_late_with_is_merged_into_it():
    late = finding("straggler-rank", 50, where={"late_ranks": [1], "ranks": [1]})
    why = finding("host-late", 40, where={"ranks": [1]}, fix="log less", cause="logging")
    other = finding("host-late", 40, where={"ranks": [0, 1]})
    (merged,) = ranked([late, why], QUIET)
    assert merged.rule == "straggler-rank"
    assert merged.fix == "on rank 1: log less"
    assert any("host-late there" in line for line in merged.evidence)
    assert len(ranked([late, other], QUIET)) == 2


def test_what_the_run_is_bound_by_comes_first_unless_something_gains_much():
    busy = finding("device-busy", 0, severity="info", states_limit=True)
    small, large = finding("host-late", 99), finding("host-late", 100)
    assert ranked([small, busy], QUIET)[0].rule == "device-busy"
    assert ranked([large, busy], QUIET)[0].rule == "host-late"


def test_what_gains_nothing_stands_below_what_gains_a_little():
    remark = finding("exposed-communication", 0, severity="warning")
    note = finding("host-late", 1, severity="info")
    assert [f.rule for f in ranked([remark, note], QUIET)] == ["host-late", "exposed-communication"]


def test_a_gain_is_a_share_of_the_longest_window_and_never_above_the_cost():
    """Windows of 1,000 ns on two devices: 250 ns less are 25 % of each, and so of both."""
    (found,) = ranked([finding("host-late", 300, cost=Price(250, "ns", 12.5))], QUIET)
    assert (found.gain_ns, found.gain_pct) == (250, 25.0)
    assert (found.cost_ns, found.cost_pct) == (500, 25.0)
    # What a kernel profiler timed is no window: 100 of 500 ns profiled.
    (found,) = ranked([finding("ncu-stall", 100, cost=Price(200, "ns", 40.0))], QUIET)
    assert (found.gain_ns, found.gain_pct) == (100, 20.0)


def test_what_is_merged_into_a_finding_raises_its_cost_to_the_gain():
    late = finding(
        "straggler-rank",
        50,
        cost=Price(50, "ns", 10.0),
        where={"late_ranks": [1], "ranks": [1]},
    )
    why = finding("host-late", 80, cost=Price(80, "ns", 16.0), where={"ranks": [1]})
    (merged,) = ranked([late, why], QUIET)
    assert (merged.cost_ns, merged.cost_pct, merged.gain_ns) == (80, 16.0, 80)


def test_a_handful_of_operations_shows_no_pattern():
    (found,) = ranked([finding("launch-bound", 500)], QUIET, operations=9)
    assert found.severity == "info"
    (found,) = ranked([finding("launch-bound", 500)], QUIET, operations=10)
    assert found.severity == "warning"


def test_no_cost_is_a_share_of_more_than_all() -> None:
    """What a host does beside a short window is told in time alone."""
    cost = Price(12_000, "ns", 1_200.0)
    (shown,) = ranked([finding("host-sampling", 0, cost=cost)], QUIET)
    assert (shown.cost_ns, shown.cost_pct) == (12_000, None)


def test_a_cost_beyond_where_it_is_seen_is_explained() -> None:
    cost = Price(900, "ns", 90.0)
    (shown,) = ranked([finding("sync-in-step", 900, cost=cost, direct_ns=300)], QUIET)
    assert shown.evidence == (
        "300 ns of its cost is lost there; the other 600 ns would disappear with it",
    )
