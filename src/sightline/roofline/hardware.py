"""The table of GPUs: peaks, bandwidths, clocks and limits, each cell with source and mark.

The cells are in hardware.tsv. Peaks there are as printed; `expected_peak` computes them a second
way, from units × clock × FLOP per clock and unit, and a test compares the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from sightline.core.packaged_rows import read_rows

# FLOP (or integer operations) per clock and unit, dense, with fp32 accumulation. Sources: the
# architecture white papers of the vendors (Pascal GP100 2016, Volta 2017, Turing 2018, Ampere GA100
# and GA102 2020, Ada 2022, Hopper 2022, Blackwell 2024; CDNA 2 2021, CDNA 3 2023, CDNA 4 2025; Xe
# HPC 2022). "-gaming" parts run fp16 with fp32 accumulation at half the rate of the "-pro" parts;
# "-plain" ones have no tensor cores (the GTX 16 series).
FLOP_PER_CLOCK: dict[str, dict[str, int]] = {
    "pascal": {"fp64": 64, "fp32": 128, "fp16": 256},
    "pascal-gaming": {"fp64": 8, "fp32": 256},
    "volta": {"fp64": 64, "fp32": 128, "fp16": 256, "fp16_tensor": 1024},
    "turing": {"fp64": 4, "fp32": 128, "fp16": 256, "fp16_tensor": 1024, "int8_tensor": 2048},
    "turing-gaming": {
        "fp64": 4, "fp32": 128, "fp16": 256, "fp16_tensor": 512, "int8_tensor": 2048,
    },
    "turing-plain": {"fp64": 4, "fp32": 128, "fp16": 256},
    "ampere": {
        "fp64": 64, "fp64_tensor": 128, "fp32": 128, "fp16": 512, "tf32_tensor": 1024,
        "fp16_tensor": 2048, "bf16_tensor": 2048, "int8_tensor": 4096,
    },
    "ampere-gaming": {
        "fp64": 4, "fp32": 256, "fp16": 256, "tf32_tensor": 256, "fp16_tensor": 512,
        "bf16_tensor": 512, "int8_tensor": 2048,
    },
    "ampere-pro": {
        "fp64": 4, "fp32": 256, "fp16": 256, "tf32_tensor": 512, "fp16_tensor": 1024,
        "bf16_tensor": 1024, "int8_tensor": 2048,
    },
    "ada-gaming": {
        "fp64": 4, "fp32": 256, "fp16": 256, "tf32_tensor": 256, "fp16_tensor": 512,
        "bf16_tensor": 512, "fp8_tensor": 1024, "int8_tensor": 2048,
    },
    "ada-pro": {
        "fp64": 4, "fp32": 256, "fp16": 256, "tf32_tensor": 512, "fp16_tensor": 1024,
        "bf16_tensor": 1024, "fp8_tensor": 2048, "int8_tensor": 2048,
    },
    "hopper": {
        "fp64": 128, "fp64_tensor": 256, "fp32": 256, "fp16": 512, "tf32_tensor": 2048,
        "fp16_tensor": 4096, "bf16_tensor": 4096, "fp8_tensor": 8192, "int8_tensor": 8192,
    },
    "blackwell": {
        "fp64": 128, "fp64_tensor": 128, "fp32": 256, "tf32_tensor": 4096, "fp16_tensor": 8192,
        "bf16_tensor": 8192, "fp8_tensor": 16384, "int8_tensor": 16384, "fp4_tensor": 32768,
    },
    "blackwell-ultra": {
        "fp64": 4, "fp32": 256, "tf32_tensor": 4096, "fp16_tensor": 8192, "bf16_tensor": 8192,
        "fp8_tensor": 16384, "fp4_tensor": 49152,
    },
    "blackwell-gaming": {
        "fp64": 4, "fp32": 256, "fp16": 256, "tf32_tensor": 256, "fp16_tensor": 512,
        "bf16_tensor": 512, "fp8_tensor": 1024, "int8_tensor": 2048, "fp4_tensor": 4096,
    },
    "cdna2": {
        "fp64": 128, "fp64_tensor": 256, "fp32": 128, "fp32_tensor": 256, "fp16_tensor": 1024,
        "bf16_tensor": 1024, "int8_tensor": 1024,
    },
    "cdna3": {
        "fp64": 128, "fp64_tensor": 256, "fp32": 256, "fp32_tensor": 256, "tf32_tensor": 1024,
        "fp16_tensor": 2048, "bf16_tensor": 2048, "fp8_tensor": 4096, "int8_tensor": 4096,
    },
    "cdna4": {
        "fp64": 128, "fp64_tensor": 128, "fp32": 256, "fp32_tensor": 256, "fp16_tensor": 4096,
        "bf16_tensor": 4096, "fp8_tensor": 8192, "int8_tensor": 8192, "fp4_tensor": 16384,
    },
    "xe-hpc": {
        "fp64": 256, "fp32": 256, "tf32_tensor": 2048, "fp16_tensor": 4096, "bf16_tensor": 4096,
        "int8_tensor": 8192,
    },
}  # fmt: skip

# 32-bit integer operations per clock and SM: 64 INT32 lanes from Volta to Hopper (the same white
# papers; CUDA C++ Programming Guide, "Arithmetic Instructions"). Blackwell's are not known to us.
INT32_PER_CLOCK = dict.fromkeys(
    (
        "volta",
        "turing",
        "turing-gaming",
        "turing-plain",
        "ampere",
        "ampere-gaming",
        "ampere-pro",
        "ada-gaming",
        "ada-pro",
        "hopper",
    ),
    64,
)

# Warps, blocks, 32-bit registers and shared bytes of one SM: CUDA C++ Programming Guide 12.9,
# "Technical Specifications per Compute Capability"; 8.0 and 8.6 also as in real reports.
SM_LIMITS: dict[str, tuple[int, int, int, int]] = {
    "6.0": (64, 32, 65536, 65536),
    "6.1": (64, 32, 65536, 98304),
    "7.0": (64, 32, 65536, 98304),
    "7.5": (32, 16, 65536, 65536),
    "8.0": (64, 32, 65536, 167936),
    "8.6": (48, 16, 65536, 102400),
    "8.9": (48, 24, 65536, 102400),
    "9.0": (64, 32, 65536, 233472),
    "10.0": (64, 32, 65536, 233472),
    "10.3": (64, 32, 65536, 233472),
    "12.0": (48, 24, 65536, 102400),
}


@dataclass(frozen=True)
class Cell:
    """One value of the table, with where it is from."""

    value: str
    source: str
    verified: str  # report, page, formula or no
    note: str


@dataclass(frozen=True)
class Gpu:
    """A GPU of the table."""

    name: str
    cells: dict[str, Cell]

    def text(self, field: str) -> str | None:
        """A cell's text, or None where the table has none."""
        return self.cells[field].value if field in self.cells else None

    def number(self, field: str) -> float | None:
        """A cell's number, or None where the table has none."""
        return float(self.cells[field].value) if field in self.cells else None

    def peaks(self) -> dict[str, float]:
        """Printed peaks by precision, in FLOP/s."""
        return {
            f.removeprefix("peak."): float(c.value)
            for f, c in self.cells.items()
            if f.startswith("peak.")
        }

    def expected_peak(self, precision: str, clock_hz: float | None = None) -> float | None:
        """Units × clock × FLOP per clock; None where one of them is not known.

        Without a clock it is the one that the peak is printed for: Hopper and Blackwell run
        their tensor cores slower than the rest.
        """
        rate = FLOP_PER_CLOCK.get(self.text("architecture") or "", {}).get(precision)
        if clock_hz is None:
            slower = self.number("tensor_hz") if precision.endswith("_tensor") else None
            if precision == "fp64_tensor":  # printed at the full clock everywhere
                slower = None
            clock_hz = slower or self.number("boost_hz")
        units = self.number("units")
        return None if None in (rate, clock_hz, units) else rate * clock_hz * units  # type: ignore[operator]


@cache
def load_table() -> tuple[Gpu, ...]:
    """All GPUs, the more specific names first."""
    found: dict[str, dict[str, Cell]] = {}
    for row in read_rows("sightline.roofline", "hardware.tsv")[1:]:
        gpu, field, value, source, verified, *note = row
        found.setdefault(gpu, {})[field] = Cell(value, source, verified, "".join(note))
    return tuple(Gpu(name, cells) for name, cells in found.items())


def find_gpu(name: str | None, memory_bytes: int | None = None) -> Gpu | None:
    """The GPU that a device name stands for, or None.

    Memory tells versions apart whose names do not: 'NVIDIA A100-SXM' with 40 or 80 GB.
    """
    if not name:
        return None
    matching = [g for g in load_table() if re.search(g.text("pattern") or "$^", name)]
    if len(matching) > 1 and memory_bytes:
        exact = [g for g in matching if re.search(g.text("pattern") or "$^", name)]
        near = [
            g
            for g in exact
            if abs((g.number("memory_bytes") or 0) - memory_bytes) < 0.2 * memory_bytes
        ]
        matching = near or matching
    return matching[0] if matching else None
