"""The source page of `ncu --page source --csv`: one row per machine instruction.

A table for each kernel: a row with its name, a row of columns, a row for each instruction (Nsight
Compute CLI, `--page source`; columns as version 2025.3 prints them). Names of stall reasons are
those of the GUI's source page, shorter than those of the metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.stall_classes import classify_stall
from sightline.formats._ncu import MetricRows, make_frame
from sightline.formats.nvidia._ncu_pages.units import parse_number

NAME, PLACE = "Kernel Name", ["Address", "Source"]
# Columns whose values are metrics of instructions, by the metrics' own names; their sum is that of
# the kernel.
_METRICS = {
    "Instructions Executed": "inst_executed",
    "Thread Instructions Executed": "thread_inst_executed",
    "Predicated-On Thread Instructions Executed": "thread_inst_executed_true",
    "L1 Tag Requests Global": "memory_l1_tag_requests_global",
    "L1 Wavefronts Shared": "memory_l1_wavefronts_shared",
    "L1 Wavefronts Shared Ideal": "memory_l1_wavefronts_shared_ideal",
    "L2 Theoretical Sectors Global": "memory_l2_theoretical_sectors_global",
    "L2 Theoretical Sectors Global Ideal": "memory_l2_theoretical_sectors_global_ideal",
    "L2 Theoretical Sectors Local": "memory_l2_theoretical_sectors_local",
}
_STALL, _NOT_ISSUED = "stall_", " (Not Issued)"
_REASONS = {
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
}

Row = dict[str, Any]


class SourceRows:
    """Everything that was read so far of a source page."""

    def __init__(self) -> None:
        self.kernels: list[Row] = []
        self.broken = 0
        self._metrics = MetricRows()
        self._instructions: list[Row] = []
        self._samples: list[Row] = []
        self._header: list[str] = []
        self._first: int | None = None
        self._totals: list[dict[str, int]] = []

    def add(self, record: list[str]) -> None:
        """Take a record: a kernel's name, the columns, or an instruction."""
        if record[:1] == [NAME]:
            self.kernels.append(
                {
                    "kernel_id": len(self.kernels),
                    "kind": "kernel",
                    "name": (record[1] if len(record) > 1 else "") or None,
                    "occurrence": sum(k["name"] == record[1] for k in self.kernels),
                }
            )
            self._totals.append({})
            self._header, self._first = [], None
        elif record[:2] == PLACE:
            self._header = record
        elif record and self.kernels and self._header:
            self._add_instruction(dict(zip(self._header, record, strict=False)), len(record))

    def _add_instruction(self, cells: Mapping[str, str], width: int) -> None:
        try:
            address = int(cells["Address"], 16)
        except ValueError:
            address = -1
        if width != len(self._header) or not 0 <= address < 1 << 63:
            self.broken += 1
            return
        self._first = address if self._first is None else self._first
        kernel = len(self.kernels) - 1
        words = cells["Source"].split()
        words = words[1:] if words and words[0].startswith("@") else words  # its predicate
        place = {
            "kernel_id": kernel,
            "offset": address - self._first,
            "function": self.kernels[kernel]["name"],
            "opcode": words[0].split(".")[0] if words else None,
        }
        self._instructions.append({**place, "address": address})
        for column, metric in _METRICS.items():
            if (count := _count(cells.get(column))) is not None:
                self._metrics.add(kernel, metric, address, count)
                self._totals[kernel][metric] = self._totals[kernel].get(metric, 0) + count
        for column, text in cells.items():
            if column.startswith(_STALL) and not column.endswith(_NOT_ISSUED) and _count(text):
                self._samples.append(place | _describe_samples(cells, column))

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables."""
        for kernel, totals in enumerate(self._totals):
            for metric, total in totals.items():
                self._metrics.add(kernel, metric, None, total)
        return {
            "profiled_kernels": make_frame("profiled_kernels", self.kernels),
            "kernel_metrics": self._metrics.frame(),
            "instructions": make_frame("instructions", self._instructions),
            "pc_samples": make_frame("pc_samples", self._samples),
        }

    def quality(self) -> list[Quality]:
        """What limits the conclusions that a source page allows."""
        return [
            Quality(
                "source_page",
                "info",
                "a source page has instructions and samples; durations, launches and the "
                "throughputs of the units are not in it",
                None,
                "Give the .ncu-rep report itself:  ncu -o NAME ...",
            )
        ]


def _describe_samples(cells: Mapping[str, str], column: str) -> Row:
    short = column.removeprefix(_STALL)
    reason = _REASONS.get(short, short)
    # The two groups of columns spell one of them differently.
    idle = (_count(cells.get(f"{_STALL}{name}{_NOT_ISSUED}")) for name in (short, reason))
    return {
        "reason": reason,
        "stall_class": classify_stall(reason),
        "samples": _count(cells[column]),
        "latency_samples": next((n for n in idle if n is not None), None),
    }


def _count(text: str | None) -> int | None:
    value = None if text is None else parse_number(text)
    return value if isinstance(value, int) else None
