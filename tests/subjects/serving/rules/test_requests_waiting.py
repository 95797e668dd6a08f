"""Requests that wait to be admitted, though the KV cache has room."""

from __future__ import annotations

from pathlib import Path

from subjects.serving.analyses.test_serving_load import METRICS
from subjects.serving.rules.test_kv_cache_preemption import open_metrics
from support.rules import answers, assert_silent

ROOMY = METRICS.replace("0.959", "0.40")


def test_a_queue_beside_a_cache_with_room(tmp_path: Path) -> None:
    (found,) = answers(open_metrics(tmp_path, ROOMY), "requests-waiting")
    assert any("43 requests waited" in line for line in found.evidence)
    assert any("40.0 %" in line for line in found.evidence)
    assert "--max-num-seqs" in (found.fix or "")


def test_a_full_cache_is_the_reason(tmp_path: Path) -> None:
    assert_silent(open_metrics(tmp_path, METRICS), "requests-waiting")


def test_hardly_anybody_waits(tmp_path: Path) -> None:
    assert_silent(open_metrics(tmp_path, ROOMY.replace("} 43.0", "} 3.0")), "requests-waiting")
