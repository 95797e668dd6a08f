"""own_kernels.tsv: what people call the kernels that they write of well-known algorithms."""

from __future__ import annotations

import pytest

from sightline.timeline.own_kernels import OwnKernel, find_algorithm, list_own_kernels


@pytest.mark.parametrize("row", list_own_kernels(), ids=lambda r: r.algorithm)
def test_a_row_knows_its_example(row: OwnKernel) -> None:
    assert find_algorithm(row.example) == row
    assert row.advice
    assert row.source


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("matrixMultiplicationKernel(float *, float *, float *, int)", "product"),
        ("void gpu::matmul_tiled<(int)16>(const float *, float *)", "product"),
        ("_Z6matMulPfS_S_i", "product"),
        ("sgemm_naive", "product"),
        ("mm_kernel", "product"),
        ("void findMaxElement<long>(T1 *, T1 *, int)", "reduction"),
        ("reduce6", "reduction"),
        ("dotProduct", "reduction"),
        ("kernel_scan_block", "scan"),
        ("histogram_warp_optimized", "histogram"),
        ("conv2d_shared", "convolution"),
        ("transposeCoalesced", "transpose"),
        ("heat_2d", "stencil"),
        ("matVecKernel", "matrix and vector"),
        ("generatePoints", "random samples"),
        ("calculate_forces", "particles"),
        ("kernVectorAdd(const float *, const float *, float *, int)", "elements"),
        ("nussinov_gpu", "alignment"),
        ("Fan2", "factorization"),
        ("ExpandFrontierKernel", "graph"),
        ("kmeans_235_gpu", "clusters"),
        ("rgb_increase_brightness_unroll", "pixels"),
    ],
)
def test_names_that_people_write(name: str, algorithm: str) -> None:
    found = find_algorithm(name)
    assert found is not None
    assert found.algorithm == algorithm


@pytest.mark.parametrize(
    "name",
    [
        "update_positions",
        "render",
        "history_kernel",
        "scanline_fill",
        "resort_cells",
        "summary",
        "weighted_sum_kernel",
        "julia_set_cache_5885",
        "add_source_terms",
        "lifetime_kernel",
        "distribute_load",
    ],
)
def test_other_names(name: str) -> None:
    assert find_algorithm(name) is None
