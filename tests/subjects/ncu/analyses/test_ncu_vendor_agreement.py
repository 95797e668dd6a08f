"""Our figures against the numbers in the vendor's own rule texts inside real reports.

Agreements and differences, with their reasons: docs/accuracy-ncu.md. The wording changes with the
tool's version: a sentence of a form that is not known here is not compared, and the last test says
how many must be compared in the reports whose sentences are known.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from support.corpus import CORPUS, list_recordings, name_recording
from support.differences import compare_figures
from support.ncu_corpus import REPORTS, open_report
from support.rules import answers

pytestmark = pytest.mark.corpus
every_report = pytest.mark.parametrize(
    "path", list_recordings("ncu/**/*.ncu-rep"), ids=name_recording
)


def said(run, rule: str):
    """(kernel, title, text, focus) of each message of a rule."""
    rows = run.table("vendor_rules").filter(pl.col("rule") == rule, pl.col("text").is_not_null())
    for r in rows.iter_rows(named=True):
        yield r["kernel_id"], r["title"], r["text"], json.loads(r["focus"] or "[]")


def of(frame: pl.DataFrame, kernel: int) -> dict:
    return frame.filter(kernel_id=kernel).to_dicts()[0]


def read_figures(pattern: str, text: str) -> list[float] | None:
    """The numbers in a sentence of this form; None where it has another."""
    match = re.search(pattern, text)
    return [float(g) for g in match.groups()] if match else None


def decide(text: str) -> set[str]:
    """Our verdicts that mean what the vendor's sentence says; none where its form is not known."""
    for words, verdicts in {
        "utilizing greater than 80.0%": {"compute", "memory"},
        "grid is too small": {"small_grid"},
        "typically indicate latency issues": {"latency"},
        "are well-balanced": {"balanced"},
    }.items():
        if words in text:
            return verdicts
    return set()


def compare_verdicts(path: Path, run: Run) -> int:
    compared = 0
    light = run.ask("speed_of_light")
    for kernel, _, text, _ in said(run, "SOLBottleneck"):
        ours, theirs = of(light, kernel), decide(text)
        if not theirs:
            continue
        agree = ours["verdict"] in theirs
        compare_figures(path, f"verdict on kernel {kernel}", ours["verdict"], theirs, agree=agree)
        if "compute" in theirs:
            assert max(ours["sm_pct"], ours["memory_pct"]) >= 80
        if "analyzing DRAM" in text:
            assert ours["memory_part"] == "dram__cycles_active"
        if waves := read_figures(r"only ([\d.]+) full waves", text):
            compare_figures(path, f"waves of kernel {kernel}", round(ours["waves"], 1), waves[0])
        compared += 1
    return compared


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


def compare_shares_of_peak(path: Path, run: Run) -> int:
    compared = 0
    roofline = run.ask("roofline")
    form = r"achieved +(?:close to )?(\d+)% of .*? fp32 .*? and +(?:close to )?(\d+)% of"
    for kernel, _, text, _ in said(run, "SOLFPRoofline"):
        theirs = read_figures(form, text)
        if theirs is None:
            continue
        shares = dict(roofline.filter(kernel_id=kernel).select("precision", "of_peak_pct").rows())
        # The vendor cuts the decimals off, and rounds where it says "close to" (2020.2 to 2021.3).
        shorten = round if "close to" in text else int
        ours = [shorten(shares.get(precision, 0.0)) for precision in ("fp32", "fp64")]
        compare_figures(path, f"shares of peak of kernel {kernel}, %", ours, theirs)
        compared += 1
    return compared


def compare_occupancy(path: Path, run: Run) -> int:
    compared = 0
    occupancy = run.ask("occupancy")
    messages = [m for rule in ("Occupancy", "TheoreticalOccupancy", "AchievedOccupancy")
                for m in said(run, rule)]  # fmt: skip
    for kernel, _, text, _ in messages:
        ours = of(occupancy, kernel)
        both = r"theoretical \(([\d.]+)%\) and measured achieved occupancy \(([\d.]+)%\)"
        if theirs := read_figures(both, text):
            rounded = [round(ours[key], 1) for key in ("theoretical_pct", "achieved_pct")]
            compare_figures(path, f"occupancy of kernel {kernel}, %", rounded, theirs)
            compared += 1
        if limited := read_figures(r"theoretical occupancy \(([\d.]+)%\) is limited", text):
            names = {"registers": "registers", "shared memory": "shared_mem",
                     "number of blocks": "blocks", "number of warps": "warps"}  # fmt: skip
            named = (round(ours["theoretical_pct"], 1), sorted(ours["limiter"].split(", ")))
            theirs = (limited[0], sorted(v for k, v in names.items() if k in text))
            compare_figures(path, f"limit of kernel {kernel}", named, theirs)
            compared += 1
    return compared


def compare_stalls(path: Path, run: Run) -> int:
    compared = 0
    form = r"spends ([\d.]+) cycles .*? about ([\d.]+)% of the total average of ([\d.]+) cycles"
    named: dict[int, list[str]] = {}
    for kernel, title, text, _ in said(run, "CPIStall"):
        theirs = read_figures(form, text)
        if theirs is None:
            continue
        ours = run.ask("stalls").filter(kernel_id=kernel, family="counters")
        row = ours.filter(reason=title).to_dicts()[0]
        between = row["value"] / row["share_pct"] * 100
        rounded = [round(number, 1) for number in (row["value"], row["share_pct"], between)]
        compare_figures(path, f"stalls of kernel {kernel} by {title}", rounded, theirs)
        named.setdefault(kernel, []).append(title)
        compared += 1
    # It speaks of all reasons above a share: they are our first ones.
    for kernel, titles in named.items():
        ours = run.ask("stalls").filter(kernel_id=kernel, family="counters")
        ours = ours.filter(~pl.col("reason").is_in(["selected", "not_selected"]))
        first = ours.get_column("reason").to_list()[: len(titles)]
        figure = f"largest stalls of kernel {kernel}"
        compare_figures(path, figure, sorted(first), sorted(titles))
    return compared


# Words of a sentence about one address, and the metrics that it compares there: version 2020.2
# has transactions where later ones have sectors.
AT_ONE_PLACE = {
    ("UncoalescedGlobalAccess", "sectors"): (
        "memory_l2_theoretical_sectors_global_ideal", "memory_l2_theoretical_sectors_global"),
    ("UncoalescedGlobalAccess", "transactions"): (
        "memory_ideal_l2_transactions_global", "memory_l2_transactions_global"),
    ("UncoalescedSharedAccess", "wavefronts"): (
        "memory_l1_wavefronts_shared_ideal", "memory_l1_wavefronts_shared"),
    ("UncoalescedSharedAccess", "transactions"): (
        "memory_ideal_shared_transactions", "memory_shared_transactions"),
}  # fmt: skip


def compare_excess(path: Path, run: Run) -> int:
    compared = 0
    metrics = run.table("kernel_metrics")
    for rule, level in (("UncoalescedGlobalAccess", "l2"), ("UncoalescedSharedAccess", "shared")):
        for kernel, _, text, _ in said(run, rule):
            place = re.search(r"expected (\d+) (\w+), got (\d+).*?0x([0-9a-f]+)@", text)
            if place and (rule, place[2]) in AT_ONE_PLACE:
                at = metrics.filter(kernel_id=kernel, instance_id=int(place[4], 16))
                values = dict(at.select("metric", "value").rows())
                ours = [values[metric] for metric in AT_ONE_PLACE[rule, place[2]]]
                theirs = [float(place[1]), float(place[3])]
                compare_figures(path, f"{place[2]} of kernel {kernel} at {place[4]}", ours, theirs)
                compared += 1
            whole = read_figures(r"total of (\d+) excessive \w+ \((\d+)% of the total (\d+)", text)
            if whole is None:
                continue
            excess, share, total = whole
            ours = (
                run.ask("memory_hierarchy")
                .filter(
                    pl.col("kernel_id") == kernel,
                    pl.col("quantity").str.contains("beyond the ideal"),
                    pl.col("level") == level,
                )["value"]
                .item()
            )
            agree = ours == pytest.approx(100 * excess / total) and round(ours) == share
            figure = f"{level} beyond the ideal, kernel {kernel}, %"
            compare_figures(path, figure, ours, 100 * excess / total, agree=agree)
            compared += 1
    return compared


def compare_sectors_per_request(path: Path, run: Run) -> int:
    compared = 0
    for kernel, title, text, _ in said(run, "MemoryCacheAccessPattern"):
        sectors = read_figures(r"results in ([\d.]+) sectors per request", text)
        if title != "L1TEX Global Load Access Pattern" or sectors is None:
            continue
        ours = run.ask("memory_hierarchy").filter(
            kernel_id=kernel, quantity="sectors per request, global loads"
        )
        figure = f"sectors per request of kernel {kernel}"
        compare_figures(path, figure, round(ours["value"].item(), 1), sectors[0])
        compared += 1
    return compared


COMPARISONS = (
    compare_verdicts,
    compare_shares_of_peak,
    compare_occupancy,
    compare_stalls,
    compare_excess,
    compare_sectors_per_request,
)


@every_report
@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda function: function.__name__)
def test_the_vendors_sentences(path, compare):
    compare(path, sightline.open(str(path)))


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("cutlassTiles", [1, 1, 1, 1, 2, 1]),
        ("esmm_output", [4, 4, 0, 0, 0, 0]),
        ("manual_nvtx", [3, 0, 3, 0, 0, 0]),
        ("prof1", [0, 0, 0, 4, 40, 0]),
        ("heat_sim", [41, 41, 52, 42, 0, 0]),
        ("monte_carlo", [2, 2, 0, 0, 20, 0]),
        ("nukexc", [1, 0, 2, 0, 0, 0]),
    ],
)
def test_sentences_of_known_reports_are_compared(name, compared):
    path = CORPUS / REPORTS[name]
    run = sightline.open(str(path))
    assert [compare(path, run) for compare in COMPARISONS] == compared


@every_report
def test_findings_where_the_vendor_speaks(path):
    """Each of these vendor rules that warns has a rule of ours that warns of the same kernel.

    But of a kernel at its limit: there, that warps wait is no news. What is said of the run may be
    fewer, as a cause takes in its symptoms.
    """
    run = sightline.open(str(path))
    peaks = run.ask("speed_of_light").select("kernel_id", "sm_pct", "memory_pct").rows()
    bound = {kernel for kernel, *pct in peaks if max(p or 0.0 for p in pct) >= 80}
    twins = {
        "CPIStall": "ncu-stall",
        "IssueSlotUtilization": "ncu-issue-slots",
        "ThreadDivergence": "ncu-divergence",
        "SOLBottleneck": "ncu-small-grid",
    }
    for rule, twin in twins.items():
        theirs = {k for k, title, *_ in said(run, rule) if twin != "ncu-small-grid"
                  or title == "Small Grid"}  # fmt: skip
        ours = {k for f in answers(run, twin) for k in f.where["kernel_ids"]} if theirs else set()
        assert theirs - bound <= ours, twin


def test_tensor_work_by_shape_meets_the_pipe():
    """Matrix instructions × their shape over time × peak, against cycles of the tensor pipe."""
    run = open_report("cutlassTiles")
    row = run.ask("tensor_use").to_dicts()[0]
    assert row["precision"] == "fp16"
    assert row["of_peak_pct"] == pytest.approx(row["pipe_pct"], rel=1e-6)
    work = run.ask("roofline").to_dicts()[0]
    assert work["flop"] == 434_669_871_104 * 2 * 16 * 8 * 16
    assert work["dram_bytes_per_s"] / work["dram_peak_bytes_per_s"] == pytest.approx(
        of(run.ask("speed_of_light"), 0)["dram_pct"] / 100, rel=1e-6
    )


def test_double_precision_work_is_that_of_the_source():
    """daxpy on 16384 × 256 elements is one fused multiply-add each."""
    run = open_report("manual_nvtx")
    row = run.ask("roofline").filter(kernel_id=1).to_dicts()[0]
    assert (row["precision"], row["flop"]) == ("fp64", 2 * 16_384 * 256)
    pipe = run.table("kernel_metrics").filter(
        kernel_id=1, metric="sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_elapsed"
    )
    assert row["of_peak_pct"] == pytest.approx(pipe["value"].item(), rel=1e-3)
