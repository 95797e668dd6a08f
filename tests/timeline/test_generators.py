"""Kernels that set up generators' states, by name and signature."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.timeline.generators import sets_up_generators


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("initRNG(curandStateXORWOW*, unsigned int)", True),
        ("setup_kernel(curandStateXORWOW *)", True),
        ("render_init(int, int, curandStateXORWOW *)", True),
        ("setup(curandStateMRG32k3a *)", True),
        ("rand_init(hiprandStateXORWOW*)", True),
        ("init_curand", True),
        ("void computeValue<float>(unsigned int*, curandStateXORWOW*, unsigned int)", False),
        ("render(vec3 *, int, int, camera **, curandStateXORWOW *)", False),
        ("setup_kernel(curandStatePhilox4_32_10 *)", False),  # it skips nothing
        ("setup_kernel(float *)", False),
        ("init_random_weights(float *)", False),
        ("generate_seed_pseudo<rng_config<curandStateXORWOW>>(long)", True),  # cuRAND's own
    ],
)
def test_names(name: str, expected: bool) -> None:
    assert pl.select(sets_up_generators(pl.lit(name))).item() is expected
