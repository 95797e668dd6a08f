"""Our figures against the numbers in the vendor's own rule texts inside real reports.

Agreements and differences, with their reasons: docs/accuracy-ncu.md.
"""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

import sightline
from conftest import CORPUS

pytestmark = pytest.mark.corpus
REPORTS = sorted((CORPUS / "ncu").rglob("*.ncu-rep"))
every_report = pytest.mark.parametrize("path", REPORTS, ids=lambda p: p.stem)


def said(run, rule: str):
    """(kernel, title, text, focus) of each message of a rule."""
    rows = run.table("vendor_rules").filter(pl.col("rule") == rule, pl.col("text").is_not_null())
    for r in rows.iter_rows(named=True):
        yield r["kernel_id"], r["title"], r["text"], json.loads(r["focus"] or "[]")


def of(frame: pl.DataFrame, kernel: int) -> dict:
    return frame.filter(kernel_id=kernel).to_dicts()[0]


def figures(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match, text
    return [float(g) for g in match.groups()]


@every_report
def test_speed_of_light_verdicts(path):
    run = sightline.open(str(path))
    light = run.ask("speed_of_light")
    for kernel, title, text, _ in said(run, "SOLBottleneck"):
        ours = of(light, kernel)
        if title == "High Throughput":
            assert max(ours["sm_pct"], ours["memory_pct"]) >= 80
            if "analyzing DRAM" in text:
                assert ours["memory_part"] == "dram__cycles_active"
            assert ours["verdict"] in ("compute", "memory")
        elif title == "Small Grid":
            waves = figures(r"only ([\d.]+) full waves", text)[0]
            assert round(ours["waves"], 1) == waves
            assert ours["verdict"] == "small_grid"
        else:
            assert (title, ours["verdict"]) == ("Balanced Throughput", "balanced")


@every_report
def test_speed_of_light_is_the_highest_of_its_parts(path):
    """A second way to the same figure: the parts that the profiler lists."""
    run = sightline.open(str(path))
    metrics = run.table("kernel_metrics")
    totals = {
        (k, m): v
        for k, m, v in metrics.filter(pl.col("instance_id").is_null())
        .select("kernel_id", "metric", "value")
        .rows()
    }
    listed = metrics.filter(pl.col("metric").str.starts_with("breakdown:"))
    for kernel, metric, parts in listed.select("kernel_id", "metric", "text").rows():
        whole = totals[kernel, metric.removeprefix("breakdown:")]
        assert max(totals[kernel, p] for p in parts.split(",")) == pytest.approx(whole, rel=1e-12)


@every_report
def test_share_of_peak(path):
    run = sightline.open(str(path))
    roofline = run.ask("roofline")
    for kernel, _, text, _ in said(run, "SOLFPRoofline"):
        single, double = figures(r"achieved (\d+)% of .*? fp32 .*? and (\d+)% of", text)
        shares = dict(roofline.filter(kernel_id=kernel).select("precision", "of_peak_pct").rows())
        # The vendor cuts the decimals off.
        assert int(shares.get("fp32", 0.0)) == single
        assert int(shares.get("fp64", 0.0)) == double


@every_report
def test_occupancy(path):
    run = sightline.open(str(path))
    occupancy = run.ask("occupancy")
    for kernel, _, text, _ in said(run, "Occupancy"):
        ours = of(occupancy, kernel)
        if "theoretical (" in text:
            theoretical, achieved = figures(
                r"theoretical \(([\d.]+)%\) and measured achieved occupancy \(([\d.]+)%\)", text
            )
            assert round(ours["achieved_pct"], 1) == achieved
        else:
            theoretical = figures(r"occupancy \(([\d.]+)%\) is limited", text)[0]
            named = {"registers": "registers", "shared memory": "shared_mem"}
            assert {v for k, v in named.items() if k in text} == set(ours["limiter"].split(", "))
        assert round(ours["theoretical_pct"], 1) == theoretical


@every_report
def test_stall_shares(path):
    run = sightline.open(str(path))
    for kernel, title, text, _ in said(run, "CPIStall"):
        if "This represents" not in text:
            continue
        cycles, share, between = figures(
            r"spends ([\d.]+) cycles .*? about ([\d.]+)% of the total average of ([\d.]+) cycles",
            text,
        )
        ours = run.ask("stalls").filter(kernel_id=kernel, family="counters")
        top = ours.filter(~pl.col("reason").is_in(["selected", "not_selected"])).to_dicts()[0]
        assert top["reason"] == title
        assert round(top["value"], 1) == cycles
        assert round(top["share_pct"], 1) == share
        assert round(top["value"] / top["share_pct"] * 100, 1) == between


@every_report
def test_excess_sectors(path):
    run = sightline.open(str(path))
    metrics = run.table("kernel_metrics")
    for rule, metric in (
        ("UncoalescedGlobalAccess", "memory_l2_theoretical_sectors_global"),
        ("UncoalescedSharedAccess", "memory_l1_wavefronts_shared"),
    ):
        for kernel, _, text, _ in said(run, rule):
            if "at PC" in text:
                ideal, actual = figures(r"expected (\d+) sectors, got (\d+)", text)
                address = int(re.search(r"0x([0-9a-f]+)@", text)[1], 16)
                at = metrics.filter(kernel_id=kernel, instance_id=address)
                values = dict(at.select("metric", "value").rows())
                assert (values[f"{metric}_ideal"], values[metric]) == (ideal, actual)
                continue
            excess, share, total = figures(
                r"total of (\d+) excessive \w+ \((\d+)% of the total (\d+)", text
            )
            ours = (
                run.ask("memory_hierarchy")
                .filter(
                    pl.col("kernel_id") == kernel,
                    pl.col("quantity").str.contains("beyond the ideal"),
                    pl.col("level") == ("l2" if "global" in metric else "shared"),
                )["value"]
                .item()
            )
            assert ours == pytest.approx(100 * excess / total)
            assert round(ours) == share


@every_report
def test_sectors_per_request(path):
    run = sightline.open(str(path))
    for kernel, title, text, _ in said(run, "MemoryCacheAccessPattern"):
        if title != "L1TEX Global Load Access Pattern":
            continue
        sectors = figures(r"results in ([\d.]+) sectors per request", text)[0]
        ours = run.ask("memory_hierarchy").filter(
            kernel_id=kernel, quantity="sectors per request, global loads"
        )
        assert round(ours["value"].item(), 1) == sectors


@every_report
def test_findings_where_the_vendor_speaks(path):
    """Each of these vendor rules that warns has a rule of ours that warns of the same kernel."""
    from sightline import findings

    run = sightline.open(str(path))
    ours = {
        (f.rule, k) for f in findings(run) if not f.abstained for k in f.where.get("kernel_ids", ())
    }
    twins = {
        "CPIStall": "ncu-stall",
        "IssueSlotUtilization": "ncu-issue-slots",
        "ThreadDivergence": "ncu-divergence",
    }
    for rule, twin in twins.items():
        for kernel in {k for k, *_ in said(run, rule)}:
            assert (twin, kernel) in ours
    for kernel, title, *_ in said(run, "SOLBottleneck"):
        if title == "Small Grid":
            assert ("ncu-small-grid", kernel) in ours


def test_tensor_work_by_shape_meets_the_pipe(corpus):
    """Matrix instructions × their shape over time × peak, against cycles of the tensor pipe."""
    run = sightline.open(str(next((corpus / "ncu").rglob("cutlassTiles.ncu-rep"))))
    row = run.ask("tensor_use").to_dicts()[0]
    assert row["precision"] == "fp16"
    assert row["of_peak_pct"] == pytest.approx(row["pipe_pct"], rel=1e-6)
    work = run.ask("roofline").to_dicts()[0]
    assert work["flop"] == 434_669_871_104 * 2 * 16 * 8 * 16
    assert work["dram_bytes_per_s"] / work["dram_peak_bytes_per_s"] == pytest.approx(
        of(run.ask("speed_of_light"), 0)["dram_pct"] / 100, rel=1e-6
    )


def test_double_precision_work_is_that_of_the_source(corpus):
    """daxpy on 16384 × 256 elements is one fused multiply-add each."""
    run = sightline.open(str(next((corpus / "ncu").rglob("manual_nvtx.ncu-rep"))))
    row = run.ask("roofline").filter(kernel_id=1).to_dicts()[0]
    assert (row["precision"], row["flop"]) == ("fp64", 2 * 16_384 * 256)
    pipe = run.table("kernel_metrics").filter(
        kernel_id=1, metric="sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed"
    )
    assert row["of_peak_pct"] == pytest.approx(pipe["value"].item(), rel=1e-3)
