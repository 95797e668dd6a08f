"""Which instructions each profiled kernel executed."""

from __future__ import annotations

import polars as pl

from sightline.errors import MissingDataError
from sightline.model.columns import number, pct, real, text
from sightline.model.declare import Analysis
from sightline.model.run import Run

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
    ),
    needs=("profiled_kernels", "kernel_metrics"),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel and opcode, the most frequent first."""
    named = run.scan("kernel_metrics").filter(pl.col("instance_name").is_not_null())
    warps = named.filter(pl.col("metric") == _WARPS).select(
        "kernel_id", opcode="instance_name", executed="value"
    )
    threads = named.filter(pl.col("metric") == _THREADS).select(
        "kernel_id", opcode="instance_name", threads="value"
    )
    names = run.scan("profiled_kernels").select("kernel_id", "name")
    answer = (
        warps.join(threads, on=["kernel_id", "opcode"], how="left")
        .join(names, on="kernel_id", how="left")
        .select(
            "kernel_id",
            "name",
            "opcode",
            "executed",
            instruction_class=pl.coalesce(
                *(pl.when(pl.col("opcode").str.contains(p)).then(pl.lit(c)) for c, p in _CLASSES),
                pl.lit("other"),
            ),
            share_pct=100 * pl.col("executed") / pl.col("executed").sum().over("kernel_id"),
            threads_per_inst=pl.col("threads") / pl.col("executed"),
        )
        .sort("kernel_id", "executed", "opcode", descending=[False, True, False])
        .collect()
    )
    if answer.is_empty():
        raise MissingDataError(
            "the instructions cannot be listed",
            why="the recording has no counts per opcode",
            hint="Record with  ncu --section InstructionStats  (or --set full).",
        )
    return answer
