"""All patterns, the narrower first: a kernel is of the first one that it matches."""

from __future__ import annotations

from sightline.subjects.kernels.patterns import (
    attention,
    copies,
    layout,
    lookups,
    loops,
    made_on_host,
    precision,
    recomputed,
    scatter,
    sums,
    training,
    transforms,
    written_out,
)
from sightline.subjects.kernels.patterns.declare import Pattern

PATTERNS: tuple[Pattern, ...] = (
    *recomputed.PATTERNS,
    *loops.PATTERNS,
    *attention.PATTERNS,
    *scatter.PATTERNS,
    *layout.PATTERNS,
    *training.PATTERNS,
    *made_on_host.PATTERNS,
    *written_out.PATTERNS,
    *lookups.PATTERNS,
    *copies.PATTERNS,
    *sums.PATTERNS,
    *transforms.PATTERNS,
    *precision.PATTERNS,
)
