"""PC samples as tables: ranges around a launch, reasons, what is not found."""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._pc_samples import SAMPLES, build_samples

REASON = "smsp__pcsamp_warps_issue_stalled_wait"


def make_samples(*rows: tuple[str, int, int, str | None]) -> pl.DataFrame:
    """Samples: function, correlation id, count, reason."""
    full = [(1, 0, 12, 77, f, 16, c, reason, count) for f, c, count, reason in rows]
    return pl.DataFrame(full, schema=SAMPLES, orient="row")


def test_ranges_around_a_sampled_launch() -> None:
    host = pl.DataFrame(
        {
            "host_op_id": range(6),
            "parent_id": [None, 0, 1, 2, None, 4],
            "layer": ["step", "annotation", "op", "runtime", "runtime", "driver"],
            "name": ["step 1", "attention", "aten::mm", "cudaLaunchKernel", "launch", "cuLaunch"],
            "tid": [7, 7, 7, 7, 8, 8],
        }
    )
    ops = pl.DataFrame(
        {"kind": ["kernel"] * 2, "correlation_id": [5, 6], "launch_id": [3, 5], "stream_id": [1, 2]}
    )
    samples = make_samples(("k", 5, 10, REASON), ("k", 6, 20, REASON), ("k", 9, 1, REASON))
    kernels, placed, counts = build_samples(samples, {}, ops, host)
    rows = {r["api_call_id"]: r for r in kernels.iter_rows(named=True)}
    # What is no range (an operator, a call) is left out; a launch without one has none.
    assert rows[5]["nvtx"] == "step 1 / attention"
    assert rows[6]["nvtx"] is None
    assert (rows[5]["tid"], rows[6]["tid"], rows[9]["tid"]) == (7, 8, None)
    assert counts == {"unnamed_reasons": 0, "without_code": 31, "unmatched": 1}
    assert placed["samples"].sum() == 31


def test_reasons_without_a_name_are_counted() -> None:
    samples = make_samples(("k", 0, 10, REASON), ("k", 0, 4, None))
    _, placed, counts = build_samples(samples, {}, pl.DataFrame(), pl.DataFrame())
    assert placed["samples"].to_list() == [10]
    assert counts["unnamed_reasons"] == 4


def test_latency_is_a_part_of_the_samples() -> None:
    """Both are read at slightly different moments: a part that is larger is cut."""
    samples = make_samples(("k", 0, 10, REASON), ("k", 0, 12, f"{REASON}_not_issued"))
    _, placed, _ = build_samples(samples, {}, pl.DataFrame(), pl.DataFrame())
    assert placed.select("samples", "latency_samples").rows() == [(10, 10)]


def test_a_library_that_does_not_tell_latency_apart() -> None:
    _, placed, _ = build_samples(
        make_samples(("k", 0, 1, REASON)), {}, pl.DataFrame(), pl.DataFrame()
    )
    assert placed["latency_samples"].to_list() == [None]
