"""Tiny Nsight Compute reports, written byte by byte without any sightline code."""

from synth_ncu.cubin import cubin
from synth_ncu.naive import naive_metrics
from synth_ncu.report import A10, Kernel, report

__all__ = ["A10", "Kernel", "cubin", "naive_metrics", "report"]
