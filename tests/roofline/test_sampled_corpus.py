"""Bounds by samples alone against what the same real reports counted."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.core.model.run import Run
from support.ncu_corpus import open_report

pytestmark = pytest.mark.corpus

ISSUE = "smsp__issue_active.avg.per_cycle_active"
EXECUTED, ACTIVE = "smsp__inst_executed.sum", "sm__cycles_active.avg"
REPORTS = {"cutlassTiles": 1, "prof1": 4, "manual_nvtx": 3}  # kernels with samples


def list_totals(run: Run) -> dict[int, dict[str, float]]:
    """The counted totals of each kernel by metric."""
    whole = pl.col("instance_id").is_null() & pl.col("instance_name").is_null()
    found: dict[int, dict[str, float]] = {}
    for kernel_id, metric, value in (
        run.table("kernel_metrics").filter(whole).select("kernel_id", "metric", "value").iter_rows()
    ):
        found.setdefault(kernel_id, {})[metric] = value
    return found


@pytest.mark.parametrize("name", REPORTS)
def test_counted_issue_slots_lie_within(name: str) -> None:
    run = open_report(name)
    (sms,) = run.table("devices").get_column("sm_count")
    totals = list_totals(run)
    found = run.ask("sampled_roofline").unique("kernel_id")
    assert found.height == REPORTS[name]
    for row in found.iter_rows(named=True):
        counted = totals[row["kernel_id"]]
        used = counted.get(ISSUE) or counted[EXECUTED] / (4 * sms * counted[ACTIVE])
        assert row["issue_low_pct"] <= 100 * used <= row["issue_high_pct"], row["name"]


@pytest.mark.parametrize("name", REPORTS)
def test_counted_arithmetic_lies_within(name: str) -> None:
    run = open_report(name)
    counted = run.ask("roofline").filter(pl.col("flop") > 0)
    both = run.ask("sampled_roofline").join(counted, on=["kernel_id", "precision"])
    assert both.height == counted.height
    for row in both.iter_rows(named=True):
        assert row["of_peak_low_pct"] <= row["of_peak_pct"] <= row["of_peak_high_pct"]
        assert row["flop_per_s_low"] <= row["flop_per_s"] <= row["flop_per_s_high"]


@pytest.mark.parametrize("name", REPORTS)
def test_a_warp_that_issued_is_met_at_the_next_instruction(name: str) -> None:
    """Executions of an instruction meet the samples one further, taken branches or not."""
    run = open_report(name)
    executed = run.table("kernel_metrics").filter(
        (pl.col("metric") == "inst_executed") & pl.col("instance_id").is_not_null()
    )
    places = run.table("instructions").join(
        executed.select("kernel_id", "value", address="instance_id"), on=["kernel_id", "address"]
    )
    met = (
        run.table("pc_samples")
        .filter(pl.col("reason") == "selected")
        .select("kernel_id", "offset", "samples")
    )
    apart = {}
    for shift in (0, 16):
        both = met.with_columns(pl.col("offset") - shift).join(
            places, on=["kernel_id", "offset"], how="full", coalesce=True
        )
        share = [
            pl.col(c).fill_null(0) / pl.col(c).sum().over("kernel_id") for c in ("samples", "value")
        ]
        apart[shift] = both.select((share[0] - share[1]).abs().sum()).item()
    assert apart[16] < 0.92 * apart[0]
    # The first instruction of every warp is met at the second; at the first none ever is.
    assert met.filter(pl.col("offset") == 0).is_empty()


def test_sizes_are_those_that_the_report_counted() -> None:
    """The report's counts by operation with modifiers, and our decoding of the same binary."""
    run = open_report("cutlassTiles")
    counted = run.table("kernel_metrics").filter(
        (pl.col("metric") == "sass__inst_executed_per_opcode_with_modifier_all")
        & pl.col("instance_name").is_not_null()
    )
    whole = counted.get_column("value").sum()
    issued = run.table("pc_samples").filter(stall_class="issuing")
    plain = pl.col("issued_operation").str.strip_prefix("@")
    for ours, theirs in (
        ("HMMA.16816.F16", r"^HMMA\.16816\.F16$"),
        ("LDGSTS.64", r"^LDGSTS\..*\.64$"),
        ("LDGSTS.128", r"^LDGSTS\..*\.128$"),
        ("LDS", r"^LDS$"),
    ):
        told = counted.filter(pl.col("instance_name").str.contains(theirs)).get_column("value")
        found = issued.filter(plain == ours).get_column("samples").sum()
        share = found / issued.get_column("samples").sum()
        assert share == pytest.approx(told.sum() / whole, abs=0.001)
