"""A real vLLM on a CPU, slow for one reason by its own flags: the cause first, its gain realised.

Needs SIGHTLINE_VLLM, the folder that `scripts/vllm_cpu.py FOLDER` made. The gain that is promised,
of the load's length, against what the same load takes without these flags: processor time of the
worker, which the cores' other users hardly change. `benchmarks/real_server.py` prints the table.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support import real_server as real

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timing,
    pytest.mark.skipif(
        not real.FOLDER, reason="SIGHTLINE_VLLM names no vLLM (scripts/vllm_cpu.py)"
    ),
]
PASSES, ROUNDS = 4, 3
WITHIN = 0.15


@pytest.mark.parametrize("name", list(real.CAUSES))
def test_a_planted_cause_comes_first_with_its_gain(name: str, tmp_path: Path) -> None:
    cause = real.CAUSES[name]
    made = real.compare(cause, tmp_path, PASSES, ROUNDS)
    assert [planted.rule for planted, _ in made.pairs] == [cause.rule] * ROUNDS
    for planted, without in made.pairs:
        for side in (planted, without):
            counted, got = real.count_tokens(side.run)
            assert counted == got
            assert_parts_sum(side.run)
    predicted, measured, _ = real.summarize(cause, made)
    assert predicted == pytest.approx(measured, rel=WITHIN)


def assert_parts_sum(run: real.sightline.Session) -> None:
    """Each request's TTFT and all that follows, by the steps, are the client's."""
    rows = run.ask("request_time")
    first = rows.select(pl.sum_horizontal(pl.col("^ttft_.+_ns$"))).to_series()
    rest = ("decode_steps_ns", "prompt_steps_ns", "scheduling_ns", "delivery_ns")
    assert (first == rows["ttft_ns"]).all()
    assert (rows.select(pl.sum_horizontal(rest)).to_series() == rows["rest_ns"]).all()
    # What no step and no gap explains is little of it.
    assert (rows["delivery_ns"].abs() <= 0.02 * rows["rest_ns"]).all()


def test_a_low_load_is_no_fault_of_the_server(tmp_path: Path) -> None:
    with real.serve(tmp_path, ()) as server:
        run = real.stay_idle(server.url, tmp_path)
    remarks = [finding["rule"] for finding in run.answer().findings]
    assert "no-requests" in remarks
    steps = run.ask("engine_steps")
    assert steps["no_request_ns"].sum() > steps["scheduler_ns"].sum()
