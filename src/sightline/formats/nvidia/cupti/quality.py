"""What limits the conclusions that a recording allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.text import clean_text
from sightline.formats.nvidia.cupti.cost import list_costs
from sightline.formats.nvidia.cupti.file import CuptiFile

_SMALLER = "Record without API calls:  sightline run --no-calls -- PROGRAM"
_REMEDIES = {
    "cupti_taken": "Stop the other profiler, or take its recording: sightline reads both.",
    "no_cupti": "pip install nvidia-cuda-cupti-cu12   # or nvidia-cuda-cupti for CUDA 13",
    "cupti_refused": "sightline doctor --for stalls",
}


def list_limits(file: CuptiFile, counts: Mapping[str, int]) -> list[Quality]:
    """All that a reader of the tables must know; `counts` are what the tables left out."""
    return [
        *_of_file(file),
        *_of_refusal(file.facts),
        *_of_loss(file),
        *_of_sampling(file),
        *_of_records(counts),
        *_of_cost(file, counts),
    ]


def _of_file(file: CuptiFile) -> list[Quality]:
    found = []
    if file.stopped:
        text = f"reading stopped early: {file.stopped}"
        found.append(Quality("truncated", "error", text))
    if file.damaged_chunks:
        text = "chunks are damaged and were left out: what they held is lost"
        found.append(Quality("damaged_chunks", "error", text, file.damaged_chunks))
    if file.missing_chunks:
        text = "chunks are missing between others"
        found.append(Quality("missing_chunks", "error", text, file.missing_chunks))
    if not file.facts.get("ended") and not file.facts.get("refusal"):
        text = (
            "the program ended without its end being recorded (it was killed, left by "
            "_exit, or its disk was full): what the GPU did in its last second may be missing"
        )
        found.append(Quality("unfinished", "warning", text))
        return found
    missing = _count_missing(file)
    if missing and not file.stopped and not file.damaged_chunks:
        text = "rows are missing, by the count at the recording's end"
        found.append(Quality("missing_rows", "error", text, missing))
    return found


def _count_missing(file: CuptiFile) -> int:
    told = file.facts.get("rows")
    if not isinstance(told, dict):
        return 0
    missing = 0
    for name, count in told.items():
        if isinstance(count, int) and not isinstance(count, bool):
            known = file.tables.get(name)
            missing += max(count - (known.rows if known else 0), 0)
    return missing


def _of_refusal(facts: Mapping[str, Any]) -> list[Quality]:
    found = []
    refusal, why = facts.get("refusal"), facts.get("why")
    if isinstance(refusal, str) and isinstance(why, str):
        text = f"the GPU was not recorded: {clean_text(why)}"
        kind = refusal if refusal in _REMEDIES else "cupti_refused"
        found.append(Quality(kind, "error", text, None, _REMEDIES[kind]))
    refused = facts.get("refused")
    if isinstance(refused, list) and refused:
        kinds = "; ".join(clean_text(str(r)) for r in refused[:20])
        text = f"CUPTI did not record all kinds of activity: {kinds}"
        found.append(Quality("kinds_refused", "warning", text, len(refused)))
    other = facts.get("other_subscriber")
    if isinstance(other, str) and other and not refusal:
        text = f"{clean_text(other)} used CUPTI at the same time: both cost time"
        found.append(Quality("other_profiler", "info", text))
    return found


def _of_loss(file: CuptiFile) -> list[Quality]:
    drops = file.frame("drops")
    records, unread = drops.select(pl.sum("records"), pl.sum("unread_bytes")).row(0)
    found = []
    if records:
        text = "records were dropped by CUPTI, because all of its buffers were full"
        found.append(Quality("dropped_records", "error", text, records, _SMALLER))
    lost = file.facts.get("lost_ranges")
    if isinstance(lost, int) and lost > 0:
        text = "NVTX ranges were lost: their buffer was full"
        found.append(Quality("dropped_ranges", "warning", text, lost))
    if unread:
        text = f"{unread} bytes of CUPTI's buffers hold no record that can be read"
        count = drops.filter(pl.col("unread_bytes") > 0).height
        found.append(Quality("unread_records", "error", text, count))
    return found


def _of_sampling(file: CuptiFile) -> list[Quality]:
    found = []
    problems = file.facts.get("sampling_problems")
    if isinstance(problems, list) and problems:
        said = "; ".join(clean_text(str(p)) for p in problems[:20])
        remedy = "sightline doctor --for stalls"
        found.append(Quality("sampling_failed", "error", f"no samples: {said}", None, remedy))
    left_out = file.facts.get("cubins_left_out")
    if isinstance(left_out, int) and left_out > 0:
        text = "modules of GPU code did not fit into the recording: their samples have no lines"
        remedy = "Give them more:  SIGHTLINE_CUPTI_CUBIN_MIB=1024"
        found.append(Quality("cubins_left_out", "warning", text, left_out, remedy))
    totals = file.frame("sample_totals")
    if totals.is_empty():
        return found
    dropped, non_user, full, total = totals.select(
        pl.sum("dropped"), pl.sum("non_user"), pl.sum("hardware_full"), pl.sum("total")
    ).row(0)
    longer = "Sample less often:  sightline run --for stalls --period N   # 2^N cycles"
    if dropped:
        text = f"PC samples were dropped by the hardware, of {total} in all"
        found.append(Quality("dropped_samples", "warning", text, dropped, longer))
    if full:
        text = "times the hardware's buffer of PC samples was full, and what it held was lost"
        found.append(Quality("sample_buffer_full", "error", text, full, longer))
    if non_user:
        text = f"PC samples fell into kernels that are not the program's, of {total} in all"
        found.append(Quality("non_user_samples", "info", text, non_user))
    if totals.select((pl.col("mode") == 2).any()).item():
        text = (
            "kernels ran one at a time while their instructions were sampled: the recording "
            "causes the gaps between them"
        )
        found.append(Quality("serialized_kernels", "warning", text))
    return found


def _of_cost(file: CuptiFile, counts: Mapping[str, int]) -> list[Quality]:
    """What recording cost, where a budget was set or it was measured."""
    is_throttled = isinstance(file.facts.get("budget_pct"), int | float)
    if not is_throttled and file.facts.get("measured") is not True:
        return []
    return list_costs(
        file.frame("windows"),
        is_throttled=is_throttled,
        in_holes=counts.get("in_holes", 0),
        launches=counts.get("launches", 0),
    )


def _of_records(counts: Mapping[str, int]) -> list[Quality]:
    texts = {
        "untimed": (
            "GPU operations have no times, because the device had no memory for them, and were "
            "left out"
        ),
        "unfinished": "GPU operations still ran when the recording ended, and were left out",
        "unended": "API calls have no end, and were left out",
        "unlaunched": "GPU operations have no call that launched them in the recording",
        "open_ranges": "NVTX ranges never ended: they end with the recording here",
        "unnamed_reasons": "PC samples have a reason without a name, and were left out",
        "without_code": "PC samples fell into code that the recording lacks: they have no lines",
        "unmatched": "sampled launches have no record of their kernel: their shape is not known",
    }
    kinds = {
        "untimed": "missing_times",
        "unfinished": "unfinished_operations",
        "unended": "unfinished_calls",
        "unlaunched": "unmatched_launches",
        "open_ranges": "unclosed_ranges",
        "unnamed_reasons": "unnamed_reasons",
        "without_code": "samples_without_code",
        "unmatched": "unmatched_samples",
    }
    return [
        Quality(
            kinds[what],
            "info" if what in ("unended", "open_ranges") else "warning",
            text,
            counts[what],
        )
        for what, text in texts.items()
        if counts.get(what)
    ]
