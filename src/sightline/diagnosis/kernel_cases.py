"""The profiled kernels of a run as rules look at them: their metrics, time and hottest line."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import polars as pl

from sightline.core.algebra.kernel_names import normalize_kernel_name
from sightline.core.model.run import Run
from sightline.core.model.source_lines import read_source_lines
from sightline.diagnosis.kernel_bounds import METRICS, Case, HotLine
from sightline.errors import MissingDataError
from sightline.roofline.amd_kernels import AmdKernel, load_amd_kernels
from sightline.roofline.facts import Facts, load_facts

_FULL = "--set full"


def load_cases(
    run: Run,
    metrics: Iterable[str],
    record: str,
    more: Iterable[str] = (),
    opcodes: Collection[str] = (),
) -> list[Case]:
    """NVIDIA's profiled kernels with these metrics, and `more` where they were measured.

    None where the run has no such kernels. Their hottest line is the one that executes most of
    these operations, where `opcodes` names some.

    Raises MissingDataError, with what to record, where no kernel has any of the metrics.
    """
    if not run.rows("profiled_kernels"):
        return []
    if run.rows("pc_samples") and not run.rows("kernel_metrics"):
        return []  # sampled while the program ran: nobody wanted counters
    asked = list(metrics)
    every = [f for f in load_facts(run, [*asked, *more, *METRICS]) if not f.is_amd]
    if not every:
        return []
    if not any(f.get(*asked) is not None for f in every):
        raise MissingDataError(
            "the kernels could not be checked",
            why="the report lacks the metrics",
            hint=f"Record with  ncu {record}" + ("  (or --set full)." if record != _FULL else ""),
        )
    return _make_cases(run, every, opcodes)


def require_sm_count(every: list[Case]) -> None:
    """Raises MissingDataError where nobody says how many SMs any of the devices has."""
    if every and not any(case.facts.device.get("sm_count") for case in every):
        raise MissingDataError(
            "the grid could not be compared with the GPU",
            why="the report does not say how many SMs it has, and its name is in no table",
            hint="Give the whole report, or record with  ncu --section LaunchStats.",
        )


def load_amd_cases(run: Run, *figures: str) -> list[tuple[Case, AmdKernel]]:
    """Kernels that AMD's profiler measured; none where the run has no such kernels.

    Raises MissingDataError, with what to record, where no kernel has one of the figures.
    """
    kernels = load_amd_kernels(run) if run.rows("profiled_kernels") else []
    if not kernels:
        return []
    if figures and not any(f in k.light for k in kernels for f in figures):
        raise MissingDataError(
            "the kernels could not be checked",
            why="the workload lacks the counters",
            hint="Record all of them:  rocprof-compute profile -n NAME -- PROGRAM",
        )
    return list(zip(_make_cases(run, [k.facts for k in kernels]), kernels, strict=True))


def _make_cases(run: Run, every: list[Facts], opcodes: Collection[str] = ()) -> list[Case]:
    times = _sum_program_times(run)
    lines = _find_hot_lines(run) | (_find_lines_of(run, opcodes) if opcodes else {})
    return [
        Case(
            f,
            times.get(_key_of(f), float(f.row["duration_ns"] or 0)),
            lines.get(f.row["kernel_id"]),
        )
        for f in every
    ]


def _find_hot_lines(run: Run) -> dict[int, HotLine]:
    """Of each kernel the line with most samples, one whose text is there before any other.

    Lines without text are mostly those of headers, whose functions the compiler inlined.
    """
    if not run.rows("pc_samples"):
        return {}
    lines: dict[int, HotLine] = {}
    hot = run.ask("hot_lines").filter(pl.col("line").is_not_null())
    for row in hot.iter_rows(named=True):
        best = lines.get(row["kernel_id"])
        if best is None or (row["source_text"] and best.text is None):
            lines[row["kernel_id"]] = HotLine(
                row["file"] or "", row["line"], row["share_pct"], row["source_text"] or None
            )
    return lines


def _find_lines_of(run: Run, opcodes: Collection[str]) -> dict[int, HotLine]:
    """Of each kernel the line that executes most of these operations."""
    executed = run.scan("kernel_metrics").filter(
        (pl.col("metric") == "inst_executed") & pl.col("instance_id").is_not_null()
    )
    code = run.scan("instructions").filter(
        pl.col("opcode").is_in(list(opcodes)) & pl.col("line").is_not_null()
    )
    whole = pl.col("value").sum().over("kernel_id")
    most = (
        executed.select("kernel_id", "value", address="instance_id")
        .join(code.select("kernel_id", "address", "file", "line"), on=["kernel_id", "address"])
        .group_by("kernel_id", "file", "line")
        .agg(pl.col("value").sum())
        .filter(pl.col("value") > 0)
        .with_columns(share_pct=100 * pl.col("value") / whole)
        .sort("kernel_id", "value", "line", descending=[False, True, False])
        .group_by("kernel_id", maintain_order=True)
        .first()
        .collect()
    )
    texts = read_source_lines(run, most.select("file", "line").iter_rows())
    return {
        row["kernel_id"]: HotLine(
            row["file"] or "", row["line"], row["share_pct"], text, f"of {' and '.join(opcodes)}"
        )
        for row, text in zip(most.iter_rows(named=True), texts, strict=True)
    }


def _key_of(f: Facts) -> tuple[str, str, str]:
    sizes = ["×".join(str(f.row[f"{what}_{a}"]) for a in "xyz") for what in ("grid", "block")]
    return normalize_kernel_name(f.row["name"] or ""), sizes[0], sizes[1]


def _sum_program_times(run: Run) -> dict[tuple[str, str, str], float]:
    """Time in the program that each profiled execution stands for, where there is a timeline."""
    if not run.rows("device_ops"):
        return {}
    joined = run.ask("kernel_join").filter(match="both")
    return {
        (normalize_kernel_name(r["name"]), r["grid"], r["block"]): r["program_ns"]
        / max(r["profiled"], 1)
        for r in joined.iter_rows(named=True)
    }
