"""Kernels that use all registers of a thread and memory besides: their registers spill."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.algorithms import LLAMA
from sightline.subjects.kernels.rules._room import LittleRoom

# What a thread can address: 255 of NVIDIA (CUDA C Programming Guide, "Technical Specifications per
# Compute Capability"), 256 of AMD (ISA guides of CDNA and RDNA, "VGPRs"); with as many and memory
# of its own besides, the compiler had no more.
_ALL_REGISTERS = 255
# Less may be a small array that is indexed at run time (ours).
_LEAST_BYTES = 32


def find_spill(run: Run, name: str) -> LittleRoom | None:
    """How many registers and how much memory each thread of a kernel has; None where none spills.

    Of the program's own kernels, and of what is built with it; as most of their time has it.
    """
    if find_library(name) not in (None, LLAMA):
        return None
    columns = ["name", "registers_per_thread", "local_bytes_per_thread", "start_ns", "end_ns"]
    ops = run.columns("device_ops", tuple(columns)).filter(pl.col("name") == name)
    by_need = (
        ops.group_by("registers_per_thread", "local_bytes_per_thread")
        .agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ns", "registers_per_thread", descending=[True, False], nulls_last=True)
    )
    if by_need.is_empty():
        return None
    registers, local, _ = by_need.row(0)
    if (registers or 0) < _ALL_REGISTERS or (local or 0) < _LEAST_BYTES:
        return None
    return LittleRoom(
        f"{format_several(registers, 'register')} a thread, all that there are, and "
        f"{format_bytes(local)} of local memory (scratch): registers spill to it",
        "let each thread need fewer registers (smaller tiles, less unrolling, smaller blocks where "
        "their number is the limit); the compiler says what it spills (nvcc -Xptxas -v, hipcc "
        "-Rpass-analysis=kernel-resource-usage); ",
    )
