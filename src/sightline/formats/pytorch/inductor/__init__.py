"""What PyTorch's Inductor says of the kernels that it generated: their operators and source lines.

Read are TORCH_TRACE's log (with INDUCTOR_PROVENANCE=1 it has each kernel's lines), a graph's folder
of TORCH_COMPILE_DEBUG=1 (`output_code.py`, `fx_graph_readable.py`, and the mappings between both),
the code alone, and TORCH_LOGS=output_code. Formats: pytorch, torch/_inductor (debug.py,
compile_fx.py, codegen/wrapper.py) and torch/_logging/_internal.py. C++ kernels were seen as PyTorch
2.13 writes them; Triton's in code of versions 2.6 to 2.11 that others published.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="inductor",
    label="PyTorch Inductor: generated code, TORCH_TRACE log",
    strong=(
        rb"\A(?:[VIWE]\d{4} [\d:.]+ \d+ [^\n]*\n|\s)*# AOT ID: \[",
        rb"(?:\A|\n)[VI]\d{4} [\d:.]+ \d+ [^\n]*\[__output_code\] (?:Output code:|# AOT ID)",
        rb"\A[VI]\d{4} [\d:.]+ \d+ \S+\] \{\"(?:chromium_event|dynamo_start|str|artifact|stack)\"",
        rb"\AFOLDER\n(?:[^\n]*\n)*output_code\.py ",
    ),
    weak=(),
    # No .py: a folder of programs is not looked through for what Inductor generated.
    looks_like="Inductor's output_code.py (# AOT ID: …), or a log that TORCH_TRACE wrote",
    suffixes=(".log", ".txt"),
    version=3,
    source="https://docs.pytorch.org/docs/main/torch.compiler_inductor_provenance.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all kernels. Raises DamagedError where there is none."""
    from sightline.formats.pytorch.inductor.reading import read_kernels

    return read_kernels(source)
