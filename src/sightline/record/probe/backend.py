"""What a backend does: BPF programs (bpf.py), or samples of perf_event_open (perf.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from sightline.record.probe.functions import Function
from sightline.record.probe.targets import Site

TOTALS = ("entered", "returned", "failed", "lost", "duration_ns", "bytes")
# What a histogram is of; of copies, COPY_SIZE plus their direction. SUM adds the values up.
GRID_SIZE, BLOCK_SIZE, COPY_SIZE, SUM = 1, 2, 16, 255


class Name(NamedTuple):
    """A handle that a program was given for a kernel, or another handle of one."""

    pid: int
    function: int
    handle: int
    other: int
    address: int  # of the text
    text: str
    is_whole: bool


class Size(NamedTuple):
    """How many values up to 2^bucket there were, or (bucket SUM) what all add up to."""

    pid: int
    what: int
    bucket: int
    amount: int


Sites = list[tuple[Site, int]]  # a function in a file, and its number


class Backend(Protocol):
    """Probes that are placed, read and taken away."""

    name: str

    def tell_function(self, number: int, function: Function) -> None:
        """Say what a function is before it is probed."""

    def attach(self, path: str, sites: Sites, pid: int) -> list[tuple[Site, OSError]]:
        """Probe functions of a file in a process, by their numbers; those that were refused."""

    def read_calls(self) -> np.ndarray[Any, Any]:
        """The calls that returned since the last time, as RECORD of core/model/probe_file.py."""

    def read_names(self) -> Iterator[Name]:
        """The names of kernels that the program was told since the last time."""

    def read_totals(self) -> dict[tuple[int, int], dict[str, int]]:
        """By process and function, the sums of TOTALS."""

    def read_kernels(self) -> dict[tuple[int, int], int]:
        """How often each kernel was launched, by process and function or handle."""

    def read_sizes(self) -> list[Size]:
        """Histograms of grids, blocks and copies."""

    def read_misses(self) -> dict[str, int]:
        """What found no room, by what it is."""

    def read_stack(self, number: int) -> list[int]:
        """The return addresses of a stack, the innermost first."""

    @property
    def attached(self) -> int:
        """How many probes are in place."""

    def detach(self) -> None:
        """Take all probes away; what was counted can still be read."""

    def close(self) -> None:
        """Give everything back."""
