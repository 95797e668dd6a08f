"""Call chains of CUDA calls: each belongs to its own call, also where the file is off by one."""

from __future__ import annotations

import polars as pl
import pytest

import sightline
from sightline.flames import timeline


@pytest.mark.corpus
def test_chains_recorded_one_call_late_are_moved_back(corpus):
    path = corpus / "nsys/hpcgroup__pipit/pipit/tests/data/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"
    run = sightline.open(str(path))
    assert "shifted_call_chains" in run.table("quality").get_column("kind").to_list()
    stacks = timeline.stack_device_time(run)
    name = dict(stacks.frames.select("frame_id", "name").rows())
    paths = [[name[f] for f in frames] for frames in stacks.rows.get_column("frames")]
    with_chain = [p for p in paths if "main" in p]
    assert with_chain
    for path in with_chain:
        call = next(n for n in path if n.endswith(("_v3020", "_v7000")))
        # The chain holds the function of the API that was called.
        assert call.rpartition("_v")[0] in path, path


@pytest.mark.corpus
def test_sound_chains_are_left_alone(corpus):
    path = corpus / "nsys/hpcgroup__pipit/pipit/tests/data/cloverleaf-nsys"
    run = sightline.open(str(path / "perlmutter-cloverleaf-cuda.sqlite"))
    kinds = run.table("quality").get_column("kind")
    assert not kinds.is_in(pl.Series(["shifted_call_chains"]).implode()).any()
