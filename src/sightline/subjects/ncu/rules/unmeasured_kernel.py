"""Kernels that take part of the profiled time were not measured enough to be judged.

Symptom
    Of kernels that take a twentieth of all profiled time the report has the duration and little
    else; or of those that take more than half of it.

Why it hurts
    All that can be said is about the others.

Evidence
    The kernels' share of the profiled time; of the two throughputs of Speed of Light none was
    collected for them, or one alone that is under a tenth of its peak (ours). Where their
    arithmetic was counted, what that is of the GPU's peak: far from it, memory accesses or waiting
    take the time.

    Where no kernel's duration or throughput was collected at all, that is said of all of them; and
    where they were asked for and no value arrived, that collecting them failed.

Threshold
    A twentieth of the profiled time (ours: less is a note in any other rule, too). Half of it
    leads: it outweighs all others together.

Fix
    Profile that kernel with all sections: ncu --set full -k regex:NAME -c 1.

False positives
    A kernel that is meant to be large, and that nobody wants to change.

References
    Nsight Compute documentation: Sets and Sections, GPU Speed Of Light Throughput. CUDA C++ Best
    Practices Guide, "Thread and Block Heuristics". NVIDIA,
    "ERR_NVGPUCTRPERM: Permission issue with Performance Counters".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import (
    format_count,
    format_flop_rate,
    format_note,
    format_ns,
    format_pct,
    format_several,
)
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.profiled import THEORETICAL_PCT
from sightline.roofline.amd_kernels import load_amd_kernels
from sightline.roofline.chart import shorten_name
from sightline.roofline.facts import Facts, load_facts
from sightline.roofline.flops import METRICS as FLOP_METRICS
from sightline.roofline.flops import count_work
from sightline.roofline.launch import METRICS as LAUNCH_METRICS
from sightline.roofline.launch import read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy
from sightline.roofline.peaks import compare_to_peak
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule("unmeasured-kernel", "Metrics missing")
MOST, LEAST = 0.5, 0.05
_TIME = "gpu__time_duration."
# What a kernel is called that makes the data which others work on.
_SETS_UP = (
    r"(?i)init|fill|setup|set_|generat|rand|memset|^set"
    r"|(?:^|_)(?:build|create|construct|alloc|upload|prepare|make)"
)
FEW = 0.1  # of the peak (ours: what a kernel bound by arithmetic reaches six times, LATENCY_PCT)


def check(run: Run) -> Iterator[Finding]:
    """What lacks most of the time, and what no value arrived of: nothing else weighs as much."""
    if not run.rows("profiled_kernels") or run.rows("device_ops"):
        return
    # Metrics of Intel's have other names, which no rule reads: that is not the recording's fault.
    if run.table("devices").get_column("vendor").drop_nulls().unique().to_list() == ["intel"]:
        return
    times: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    measured = set()
    metrics = [SM_PCT, MEMORY_PCT, *FLOP_METRICS, *LAUNCH_METRICS]
    nvidia = [f for f in load_facts(run, metrics) if not f.is_amd]
    yield from _report_failed(nvidia)
    for facts in [*nvidia, *(k.facts for k in load_amd_kernels(run))]:
        name = facts.row["name"] or facts.row["kind"]
        times[name] += float(facts.row["duration_ns"] or 0)
        counts[name] += 1
        if _is_measured(facts):
            measured.add(name)
    whole = sum(times.values())
    missing = sorted(set(times) - measured, key=lambda kernel: -times[kernel])
    lost = sum(times[name] for name in missing)
    # Where only stalls were sampled nobody wanted counters.
    if nvidia and not whole and not measured and not run.rows("pc_samples"):
        empty = _list_empty(run)
        yield _report_empty(counts, empty) if empty else _report_counted(counts)
    if not missing or not whole or lost < LEAST * whole:
        return
    name, is_most = missing[0], times[missing[0]] >= MOST * whole
    longest = max(
        (f for f in nvidia if (f.row["name"] or f.row["kind"]) == name),
        key=lambda f: f.ns or 0,
        default=None,
    )
    which, half = shorten_name(name), None if longest is None else _name_half(longest)
    fit, smaller = ([], "") if longest is None else _judge_launch(longest)
    yield build_finding(
        RULE,
        f"{format_pct(100 * times[name] / whole)} of the profiled time is one kernel, and the "
        "report lacks the metrics that explain it."
        if is_most
        else f"{format_pct(100 * lost / whole)} of the profiled time is of "
        f"{format_several(len(missing), 'kernel')} without the metrics that would explain it.",
        Evidence(
            (
                f"{which}: {format_several(counts[name], 'launch', 'launches')}, "
                f"{format_ns(times[name])}, {format_pct(100 * times[name] / whole)} of that time",
                "neither the compute nor the memory throughput was collected"
                if half is None
                else half,
                *([] if longest is None else _describe_arithmetic(longest)),
                *fit,
            ),
            where={"kernel": name},
        ),
        Advice(
            fix=f"{smaller}ncu --set full -k regex:{which} -c 1 ...",
            verify="sightline findings AFTER",
        ),
        # What one throughput shows not to be the limit is that of what another one would explain.
        price=(make_price(round(times[name]), "ns", 100 * times[name] / whole), None)
        if is_most and half is not None
        else (None, None),
        title=f"{RULE.title} for the largest kernel: {which}" if is_most else RULE.title,
        severity="info",
        confidence="high",
        states_limit=lost >= MOST * whole,
    )


def _is_measured(facts: Facts) -> bool:
    """Whether what binds the kernel was looked for: both throughputs, or one that may be it."""
    sm, memory = facts.get(SM_PCT), facts.get(MEMORY_PCT)
    if facts.is_amd or (sm is not None and memory is not None):
        return sm is not None or memory is not None
    return max(sm or 0.0, memory or 0.0) >= 100 * FEW


def _name_half(facts: Facts) -> str | None:
    """What the throughput tells that was collected, where the other one was not."""
    sm, memory = facts.get(SM_PCT), facts.get(MEMORY_PCT)
    if sm is None and memory is None:
        return None
    if sm is not None:
        return (
            f"the SMs are at {format_pct(sm)} of their peak: it does not compute; the memory "
            "throughput was not collected"
        )
    return (
        f"memory is at {format_pct(memory or 0.0)} of its peak; the SMs' throughput was not "
        "collected"
    )


def _judge_launch(facts: Facts) -> tuple[list[str], str]:
    """What the launch alone tells of the kernel, and what to do about it first."""
    known = read_limits_and_launch(facts)
    if known is None:
        return [], ""
    fit = compute_occupancy(*known)
    if fit.pct >= THEORETICAL_PCT or not fit.active_blocks:
        return [], ""
    threads = format_count(known[1].threads)
    line = (
        f"by its launch alone {fit.describe()}: {format_several(fit.active_blocks, 'block')} of "
        f"{threads} threads, limited by {fit.name_limiters()}"
    )
    if "warps" not in fit.limiters:
        return [line], ""
    # NVIDIA's guide begins with 128 to 256 threads: they divide the warps of an SM.
    return [line], f"blocks of 256 threads, of which more fit at once than of {threads}; "


def _list_empty(run: Run) -> list[str]:
    """Metrics that were asked for and have no value, where how long kernels took is one of them."""
    metrics = run.table("kernel_metrics").filter(pl.col("instance_id").is_null())
    asked = metrics.group_by("metric").agg(pl.col("value").is_null().all())
    names = asked.filter(pl.col("value") & pl.col("metric").str.contains(r"^[a-z0-9]+__.*\."))
    found: list[str] = names.get_column("metric").sort().to_list()
    return found if any(name.startswith(_TIME) for name in found) else []


def _report_empty(counts: dict[str, int], empty: list[str]) -> Finding:
    """Where metrics were asked for, and none has a value: what else stands there is no measure."""
    return build_finding(
        RULE,
        f"{format_note(len(empty), 'metrics were asked for and have no value')}, how long kernels "
        "took among them: collecting them failed, and nothing can be said of the kernels.",
        Evidence(
            [
                f"{format_several(sum(counts.values()), 'launch', 'launches')} of "
                f"{format_several(len(counts), 'kernel')}; without a value: "
                f"{', '.join(empty[:3])}"
            ],
        ),
        Advice(
            fix="look at what ncu printed, then record again one launch with nothing else on the "
            "GPU:  ncu --set full -c 1 ...  as root, or with counters allowed to all "
            "(ERR_NVGPUCTRPERM: NVreg_RestrictProfilingToAdminUsers=0); a kernel that fails or is "
            "stopped has no values, either",
            verify="sightline findings AFTER",
        ),
        title="Nothing was measured",
        severity="warning",
        confidence="high",
        states_limit=True,
    )


def _report_counted(counts: dict[str, int]) -> Finding:
    """Where only some counters were asked for: not even what takes the time is known."""
    return build_finding(
        RULE,
        "Of no kernel it is known how long it took, or how close it came to what the GPU can do: "
        "only some counters were collected, which do not say what binds a kernel.",
        Evidence(
            [
                f"{format_several(sum(counts.values()), 'launch', 'launches')} of "
                f"{format_several(len(counts), 'kernel')}, without durations and throughputs",
                "what the program itself measures under ncu holds the replays of each kernel",
            ],
        ),
        Advice(
            fix="ncu --set full ...  (or at least  --section SpeedOfLight), for one launch of each "
            "kernel:  -k regex:NAME -c 1",
            verify="sightline findings AFTER",
        ),
        title="Kernels counted, not timed",
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _report_failed(kernels: list[Facts]) -> Iterator[Finding]:
    """Kernels of which not even arrived how long they took, beside others that were measured."""
    failed = [f for f in kernels if not f.ns and f.get(SM_PCT, MEMORY_PCT) is None]
    if not failed or len(failed) == len(kernels):
        return
    leads = not (_is_known(failed, kernels) or _is_beside_others(failed, kernels))
    names = list(dict.fromkeys(shorten_name(f.row["name"] or f.row["kind"]) for f in failed))
    which = (
        names[0] if len(names) == 1 else f"{names[0]} and {format_several(len(names) - 1, 'other')}"
    )
    yield build_finding(
        RULE,
        f"Of {which} the report has neither how long it took nor what it reached: collecting that "
        "failed, or was cut off. All else that is said is of the other "
        f"{'kernels' if leads else 'launches'}.",
        Evidence(
            [
                f"{format_several(len(failed), 'launch', 'launches')} of {len(kernels)} without "
                "values"
            ],
            where={"kernel": failed[0].row["name"] or failed[0].row["kind"]},
        ),
        Advice(
            fix=f"profile it again, alone:  ncu --set full -k regex:{names[0]} -c 1 ...  with no "
            "other user of the GPU and fewer sections if it fails again; look at what ncu printed",
            verify="sightline findings AFTER",
        ),
        title=f"{which} was not measured",
        severity="warning" if leads else "info",
        confidence="high",
        states_limit=leads,
        is_asked=leads,
    )


def _is_beside_others(failed: list[Facts], kernels: list[Facts]) -> bool:
    """Whether a kernel of the program's own was measured that does more than set up its data."""
    names = {facts.row["name"] for facts in failed}
    others = (f.row["name"] or "" for f in kernels if f.ns and f.row["name"] not in names)
    return any(find_library(n) is None and not re.search(_SETS_UP, shorten_name(n)) for n in others)


def _is_known(failed: list[Facts], kernels: list[Facts]) -> bool:
    """Whether other launches of these kernels were measured, and these would hardly count."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for facts in kernels:
        if facts.ns:
            times[facts.row["name"]].append(facts.ns)
    usual = [times[facts.row["name"]] for facts in failed]
    if not all(usual):
        return False
    lost = sum(sum(each) / len(each) for each in usual)
    return lost < LEAST * sum(map(sum, times.values()))


def _describe_arithmetic(facts: Facts) -> Iterator[str]:
    """What a kernel computes beside its GPU's peak, where that was counted and is far below."""
    for work in count_work(facts):
        share = compare_to_peak(facts, work.precision)
        if share is not None and work.per_s and share < FEW:
            yield (
                f"it computes {format_flop_rate(work.per_s)} in {work.precision}, "
                f"{format_pct(100 * share)} of the GPU's peak: memory accesses or waiting take "
                "its time, and no arithmetic"
            )
