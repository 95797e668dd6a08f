"""What API calls do to their thread, by name: CUDA and HIP, with the version that nsys adds."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.core.algebra.lookup import Texts
from sightline.timeline import api_calls

CALLS = """
cudaMemcpy_v3020              waits
cudaMemcpy                    waits
cudaMemcpyAsync_v3020         waits
cudaStreamSynchronize_v3020   waits
cuCtxSynchronize              waits
hipMemcpyWithStream           waits
cudaMemset_v3020              waits
cudaMemsetAsync_v3020
cudaStreamWaitEvent_v3020
cudaLaunchKernel_v7000
cudaMalloc_v3020              allocates
cudaFree                      allocates
cudaHostAlloc                 allocates
hipHostMalloc                 allocates
hipHostRegister               allocates
cuMemMap                      allocates
cudaMallocAsync_v11020
cuMemFreeAsync
cudaMallocFromPoolAsync
cuModuleLoadData              loads
cuLibraryLoadData             loads
Runtime Triggered Module Loading  loads
Lazy Function Loading         loads
"""


@pytest.mark.parametrize("line", CALLS.strip().splitlines())
def test_a_call_is_known_by_its_name(line):
    name, _, expected = line.partition("  ")
    names = Texts(pl.Series([name]))
    found = {
        "waits": api_calls.may_wait(names),
        "allocates": api_calls.allocates(names),
        "loads": api_calls.loads_code(names),
    }
    assert [kind for kind, mask in found.items() if mask.item()] == expected.split()
