"""All patterns, the narrower first: a kernel is of the first one that it matches."""

from __future__ import annotations

from sightline.subjects.kernels.patterns import attention, layout, recomputed, scatter
from sightline.subjects.kernels.patterns.declare import Pattern

PATTERNS: tuple[Pattern, ...] = (
    *recomputed.PATTERNS,
    *attention.PATTERNS,
    *scatter.PATTERNS,
    *layout.PATTERNS,
)
