"""Which instructions each profiled kernel executed: counted, or told by samples.

A sample in which the warp issued is one of an instruction that was executed, so the shares of such
samples are those of the instructions, as nearly as so many samples tell. Nobody has to count for
that: samples that were taken while the program ran will do.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.core.model.stall_classes import classify_stall
from sightline.errors import MissingDataError

_WARPS = "sass__inst_executed_per_opcode"
_THREADS = "sass__thread_inst_executed_true_per_opcode"
# First match wins. Names: CUDA Binary Utilities 12.9, "Instruction Set Reference".
_CLASSES = (
    ("tensor", r"^(H|I|D|B|Q|O|UTC)[A-Z]*MMA$"),
    ("global memory", r"^(LDG|STG|LD|ST|ATOM|ATOMG|RED|LDGSTS|LDGDEPBAR|UBLK.*|UTMA.*)$"),
    ("shared memory", r"^(LDS|STS|LDSM|STSM|ATOMS|LDTM|STTM)$"),
    ("local memory", r"^(LDL|STL)$"),
    ("constant memory", r"^(LDC|LDCU|ULDC)$"),
    ("texture", r"^(TEX|TLD|TLD4|TXD|TXQ|TMML|SULD|SUST|SUATOM|SURED)$"),
    ("fp64", r"^D(ADD|MUL|FMA|SETP|MNMX)$"),
    ("fp16", r"^H(ADD2|MUL2|FMA2|SET2|SETP2|MNMX2)(_32I)?$"),
    ("fp32", r"^F(ADD|MUL|FMA|SETP|SET|MNMX|SEL|CHK|SWZADD|ADD2|MUL2|FMA2)(32I)?$"),
    ("special function", r"^(MUFU|RRO)$"),
    ("conversion", r"^(F2F|F2I|I2F|I2I|F2FP|I2FP|FRND|I2IP|F2IP)$"),
    (
        "control",
        r"^(BRA|BRX|BRXU|JMP|JMX|CALL|RET|EXIT|BSSY|BSYNC|BREAK|WARPSYNC|YIELD|KILL|NOP)$",
    ),
    (
        "synchronization",
        r"^(BAR|DEPBAR|MEMBAR|ERRBAR|CCTL|SYNCS|ARRIVES|FENCE|UCGABAR.*|NANOSLEEP)$",
    ),
    (
        "data movement",
        r"^(MOV|UMOV|SEL|PRMT|SHFL|S2R|"
        r"S2UR|CS2R|R2UR|P2R|R2P|VOTE|VOTEU|MATCH|REDUX|ELECT)$",
    ),
    ("uniform", r"^U"),
    ("integer", r"^(I|V|LOP|PLOP|SHF|SHL|SHR|LEA|POPC|FLO|BMSK|SGXT|XMAD|BREV|VABSDIFF)"),
)

_UNKNOWN = "unknown"  # an instruction whose operation the recording does not show
_SURE = 1.96  # of a normal distribution, both sides together 5 %

ANALYSIS = Analysis(
    "instruction_mix",
    "Which instructions did each kernel execute?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text("opcode", "operation", required=True),
        text("instruction_class", "kind of operation", required=True),
        real("executed", "instructions, counted once per warp", "inst"),
        pct("share_pct", "% of the kernel's instructions"),
        real("threads_per_inst", "threads per instruction whose predicate was on, of 32"),
        number("issued_samples", "samples in which it was issued, where nothing was counted"),
        pct("low_pct", "lower bound of the share, 95 % (Wilson)"),
        pct("high_pct", "and at most so much"),
    ),
    needs=("profiled_kernels",),
    notes=(
        "Of samples the shares are estimates: an instruction that is issued while few warps are "
        "active is a little more likely to be sampled.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel and opcode, the most frequent first."""
    answer = _list_counted(run)
    if answer.is_empty():
        answer = _estimate_shares(run)
    if answer.is_empty():
        raise MissingDataError(
            "the instructions cannot be listed",
            why="the recording has no counts per opcode, and no samples of instructions",
            hint="Record with  ncu --section InstructionStats  (or --set full), or with\n"
            "sightline run --for stalls.",
        )
    names = run.table("profiled_kernels").select("kernel_id", "name")
    return (
        answer.join(names, on="kernel_id", how="left")
        .with_columns(
            instruction_class=pl.coalesce(
                *(pl.when(pl.col("opcode").str.contains(p)).then(pl.lit(c)) for c, p in _CLASSES),
                pl.lit("other"),
            )
        )
        .sort("kernel_id", "share_pct", "opcode", descending=[False, True, False])
    )


def _list_counted(run: Run) -> pl.DataFrame:
    """Instructions as a kernel profiler counted them."""
    named = run.scan("kernel_metrics").filter(pl.col("instance_name").is_not_null())
    warps = named.filter(pl.col("metric") == _WARPS).select(
        "kernel_id", opcode="instance_name", executed="value"
    )
    threads = named.filter(pl.col("metric") == _THREADS).select(
        "kernel_id", opcode="instance_name", threads="value"
    )
    return (
        warps.join(threads, on=["kernel_id", "opcode"], how="left")
        .select(
            "kernel_id",
            "opcode",
            "executed",
            share_pct=100 * pl.col("executed") / pl.col("executed").sum().over("kernel_id"),
            threads_per_inst=pl.col("threads") / pl.col("executed"),
        )
        .collect()
    )


def _estimate_shares(run: Run) -> pl.DataFrame:
    """Shares of the samples in which a warp issued, with Wilson's interval of each."""
    samples = run.table("pc_samples")
    if not samples.get_column("issued_operation").count():
        return pl.DataFrame(schema={"kernel_id": pl.Int64, "opcode": pl.String})
    reasons = samples.get_column("reason").unique()
    issuing = [reason for reason in reasons if classify_stall(reason) == "issuing"]
    # Not the opcode at the sampled offset: the warp's counter has passed on (docs/roofline.md).
    opcode = pl.col("issued_operation").str.strip_prefix("@").str.split(".").list.first()
    met = (
        samples.filter(pl.col("reason").is_in(issuing))
        .group_by("kernel_id", opcode=opcode.fill_null(_UNKNOWN))
        .agg(issued_samples=pl.col("samples").sum())
        .filter(pl.col("issued_samples") > 0)
        .with_columns(whole=pl.col("issued_samples").sum().over("kernel_id"))
    )
    share = pl.col("issued_samples") / pl.col("whole")
    more = _SURE**2 / pl.col("whole")
    middle = (share + more / 2) / (1 + more)
    half = (share * (1 - share) * more + more**2 / 4).sqrt() / (1 + more)
    return met.select(
        "kernel_id",
        "opcode",
        "issued_samples",
        share_pct=100 * share,
        low_pct=100 * (middle - half).clip(0, 1),
        high_pct=100 * (middle + half).clip(0, 1),
    )
