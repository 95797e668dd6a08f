"""Kernels that only set up the states of random number generators, by name and signature."""

from __future__ import annotations

import polars as pl

# States whose set-up skips ahead in the sequence: cuRAND's default, XORWOW, and MRG32k3a (cuRAND
# Library, Programming Guide, "Device API Overview": "calls to curand_init() are slower than calls
# to curand()", by the sequence and the offset). Philox counts, and needs none. hipRAND and rocRAND
# have the same generators.
_STATE = (
    r"(?i)(?:cu|hip)randState(?:XORWOW|MRG32k3a|_t|\b)|rocrand_(?:state|device::)\w*(?:xorwow|mrg)"
)
# What such a kernel is called: cuRAND's own examples name it setup_kernel.
_SETS_UP = r"(?i)^[^(]*(?:init|setup|set_up|seed|rng|prepare|create|fill)"
_BY_NAME = (
    r"(?i)^[^(]*(?:(?:cu|hip|roc)rand_?(?:init|setup|seed)|(?:init|setup|seed)_?(?:cu|hip|roc)rand|"
    r"(?:init|setup|seed)_?rngs?\b|\brng_?(?:init|setup|seed))"
)
CAUSE = "curand_init skips ahead in XORWOW's sequence, for each thread by its own matrix products"
FIX = (
    "use a counter-based generator (curandStatePhilox4_32_10_t), or curand_init(seed + thread, 0, "
    "0, &state), which skips nothing, or fewer threads that draw more numbers each; keep states "
    "from one run of the kernel to the next"
)
SOURCE = "cuRAND Library, Programming Guide: Device API Overview, Performance Notes"


def sets_up_generators(name: pl.Expr) -> pl.Expr:
    """Whether a kernel is named as one that sets up generators' states."""
    by_signature = name.str.contains(_STATE) & name.str.contains(_SETS_UP)
    return by_signature | name.str.contains(_BY_NAME)
