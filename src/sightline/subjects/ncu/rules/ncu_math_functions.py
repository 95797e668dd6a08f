"""Mathematical functions in full precision take most of the kernel's instructions.

Symptom
    Most instructions are executed at lines that call functions such as sinf or powf.

Why it hurts
    These are software, of 10 to 40 instructions; the hardware has approximations of one or two.

Evidence
    Executed instructions by source line, of lines whose text calls such a function (the report has
    the source: --import-source), and how many of these are the hardware's own (MUFU).

Threshold
    A fifth of all instructions (ours). Estimate: what is left of each line is two for each MUFU (an
    intrinsic is that and a multiplication), and a twentieth at least. Where the SM binds the
    kernel, the kernel shrinks to what its next part or the next unit needs; else it gives back the
    time in which it issues them. How precise the result has to be, no counter tells.

Fix
    Use intrinsics (__sinf, __expf, __powf) or -use_fast_math where their error is allowed; sincosf
    for both, rsqrtf for 1 / sqrtf, exp2f for powf(2, x), products for small whole powers; compute
    what does not change before the loop.

False positives
    Lines that call a function and do much else.

References
    CUDA C++ Programming Guide, "Mathematical Functions" and "Intrinsic Functions"; CUDA C++ Best
    Practices Guide, "Math Libraries".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.model.source_lines import read_source_lines
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import ISSUE, SM, WAITS, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import make_findings
from sightline.roofline.facts import TIME

RULE = Rule("ncu-math-functions", "Mathematical functions", explains=(*WAITS, "ncu-pipe-limit"))
SHARE_PCT = 20.0
OF_MUFU, LEAST = 2, 0.05
_CALL = re.compile(
    r"(?<![\w.])(?:std::|cuda::std::)?((?:a?sinh?|a?cosh?|a?tanh?|atan2|sincos|exp(?:2|10|m1)?|"
    r"log(?:2|10|1p)?|pow|cbrt|erfc?|erfinv|[lt]gamma|sinpi|cospi|hypot)f?)\s*\("
)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    every = load_cases(run, (TIME,), "--section SourceCounters")
    lines = _count_calls(run) if every and run.rows("source_files") else {}
    yield from make_findings(
        RULE,
        [h for c in every if (h := _hit(c, lines.get(c.kernel_id))) is not None],
        every,
        "{}.",
        "use intrinsics (__sinf, __expf, __powf) or -use_fast_math where their error is allowed, "
        "and compute what does not change before the loop",
        "sightline stats instruction_mix AFTER: fewer instructions",
    )


def _hit(case: Case, called: tuple[str, float] | None) -> Hit | None:
    if called is None or called[1] < SHARE_PCT:
        return None
    name, share = called
    parts = dict.fromkeys((ISSUE, "alu", "fma", "fmaheavy", "fmalite"), share)
    evidence = (
        f"calls of {name} take {format_pct(share)} of the instructions more than an intrinsic"
    )
    return relieve(case, {SM: share}, evidence, parts=parts)


def _count_calls(run: Run) -> dict[int, tuple[str, float]]:
    """Of each kernel the function that is called in most instructions, and what they all spare, %.

    That is a share of the kernel's instructions.
    """
    executed = run.scan("kernel_metrics").filter(
        (pl.col("metric") == "inst_executed") & pl.col("instance_id").is_not_null()
    )
    code = run.scan("instructions").select("kernel_id", "address", "file", "line", "opcode")
    by_line = (
        executed.select("kernel_id", "value", address="instance_id")
        .join(code, on=["kernel_id", "address"])
        .group_by("kernel_id", "file", "line")
        .agg(
            pl.col("value").sum(),
            special=pl.col("value").filter(pl.col("opcode") == "MUFU").sum(),
        )
        .with_columns(whole=pl.col("value").sum().over("kernel_id"))
        .sort("kernel_id", "value", "line", descending=[False, True, False])
        .collect()
    )
    texts = read_source_lines(run, by_line.select("file", "line").iter_rows())
    found: dict[int, tuple[str, float]] = {}
    for row, text in zip(by_line.iter_rows(named=True), texts, strict=True):
        call = _CALL.search(text or "")
        if call is None or not row["whole"]:
            continue
        left = max(OF_MUFU * row["special"], LEAST * row["value"])
        name, share = found.get(row["kernel_id"], (call[1], 0.0))
        share += 100 * max(0.0, row["value"] - left) / row["whole"]
        found[row["kernel_id"]] = name, share
    return found
