"""Stages of compiling a kernel."""

from sightline.core.model.columns import RANK, RECORDING, Table, duration, join, number, text

TABLE = Table(
    "compile_stages",
    "one stage of compiling one kernel",
    (
        RANK,
        RECORDING,
        join("compilation_id", "compilations.compilation_id", "the compilation"),
        number("position", "0 for the first stage", required=True),
        text(
            "stage",
            "what it makes: ir_initialization, ttir, ttgir, llir, ptx, cubin, store_results",
            required=True,
        ),
        duration("duration_ns", "how long it took"),
    ),
)
