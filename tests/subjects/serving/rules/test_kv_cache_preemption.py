"""A full KV cache: by the server's metrics alone, and priced where its steps lie beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sightline
from subjects.serving.analyses.test_serving_load import METRICS
from support.rules import answers, assert_silent
from synth_serving.kineto import write_client, write_trace
from synth_serving.server import Settings, serve


def open_metrics(folder: Path, text: str) -> sightline.Session:
    path = folder / "metrics.txt"
    path.write_text(text)
    return sightline.open(str(path))


def test_preemptions_and_a_full_cache(tmp_path: Path) -> None:
    (found,) = answers(open_metrics(tmp_path, METRICS), "kv-cache-preemption")
    assert "117 requests" in found.summary
    assert any("95.9 %" in line for line in found.evidence)
    assert any("43 requests waited" in line for line in found.evidence)
    assert "--gpu-memory-utilization" in (found.fix or "")
    assert found.severity == "warning"


def test_a_cache_in_good_use(tmp_path: Path) -> None:
    text = METRICS.replace("} 43.0", "} 0.0").replace("} 100.0", "} 0.0").replace("} 17.0", "} 0.0")
    assert_silent(open_metrics(tmp_path, text), "kv-cache-preemption")


def test_prompts_that_were_computed_again_are_priced(tmp_path: Path) -> None:
    """A simulated server whose cache holds a quarter of what its requests need."""
    slow = Settings(kv_tokens=2_600, token_ns=60)
    asked = [(0, 300 + 7 * n, 120) for n in range(24)]
    served, free = serve(slow, asked), serve(replace(slow, kv_tokens=None), asked)
    assert served.preemptions
    again = sum(s.prefill[1] for s in served.steps) - sum(s.prefill[1] for s in free.steps)
    folder = tmp_path
    (folder / "metrics.txt").write_text(
        "# TYPE vllm:num_preemptions_total counter\n"
        f'vllm:num_preemptions_total{{engine="0"}} {served.preemptions}\n'
    )
    paths = [write_trace(served, folder), write_client(served, folder), folder / "metrics.txt"]
    (found,) = answers(sightline.open(*map(str, paths)), "kv-cache-preemption")
    assert any(f"{again:,} tokens" in line for line in found.evidence)
    # Without a limit nothing is computed again, and nobody is missing in a step.
    assert found.gain_ns == pytest.approx(served.length_ns - free.length_ns, rel=0.01)
    assert any("with room for all of them" in line for line in found.evidence)


def test_preemptions_before_the_recording_are_no_news(tmp_path: Path) -> None:
    usage = "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.02\n"
    counter = 'vllm:num_preemptions_total{engine="0"}'
    for last, count in ((9, None), (12, 3)):
        run = open_metrics(tmp_path, f"{usage}# TYPE vllm:num_preemptions_total counter\n"
                           f"{counter} 9 1000\n{counter} {last} 2000\n")  # fmt: skip
        assert_silent(run, "requests-waiting")
        found = answers(run, "kv-cache-preemption")
        assert not any("% full" in line for one in found for line in one.evidence)
        assert [f"{count} requests" in one.summary for one in found] == [True] * (count is not None)
