"""Which limit a running server is at: readings with round numbers, worked out by hand."""

from __future__ import annotations

import pytest

from sightline.roofline.hardware import find_gpu
from sightline.subjects.serving.live.exposition import parse_samples
from sightline.subjects.serving.live.limits import Goals, Verdict, judge_interval
from sightline.subjects.serving.live.reading import compare_readings, read_metrics
from support.metric_server import write_vllm

H100 = find_gpu("NVIDIA H100 80GB HBM3")


def judge(before: str, after: str, seconds: float = 10.0, goals: Goals | None = None) -> Verdict:
    first, second = read_metrics(before, 0.0), read_metrics(after, seconds)
    assert first is not None and second is not None
    return judge_interval(compare_readings(first, second), H100, goals)


def find(verdict: Verdict, name: str) -> float | None:
    return next(limit.used_pct for limit in verdict.limits if limit.name == name)


def test_the_seeds_server_is_at_its_kv_cache() -> None:
    """KV cache at 95.9 %, 43 waiting, 117 preemptions in ten seconds."""
    verdict = judge(write_vllm(), write_vllm(2000, waiting=43, usage=0.959, preempted=117))
    assert verdict.holds == "KV cache"
    assert verdict.text == "the KV cache is 95.9 % full, and 43 requests wait"
    assert find(verdict, "KV cache") == pytest.approx(95.9)
    (found,) = verdict.findings
    assert found.rule == "kv-cache-preemption"
    assert found.evidence[1] == "117 requests preempted in 10 s"
    assert found.fix is not None and "--gpu-memory-utilization" in found.fix


def test_what_was_preempted_before_is_no_news() -> None:
    verdict = judge(write_vllm(preempted=117), write_vllm(2000, preempted=117))
    assert verdict.holds is None
    assert verdict.findings == []


def test_a_queue_with_room_in_the_cache() -> None:
    verdict = judge(write_vllm(), write_vllm(2000, waiting=12))
    assert verdict.holds == "queue"
    assert verdict.text == "12 requests wait while 8 run"
    assert [found.rule for found in verdict.findings] == ["requests-waiting"]


def test_bandwidth_and_compute_by_the_servers_own_count() -> None:
    """An H100 reads 3.35 TB/s at most: 2.88 TB/s are 86.0 % of that."""
    verdict = judge(write_vllm(), write_vllm(2000, flops=9.89e14, read=2.881e13))
    assert verdict.holds == "memory bandwidth"
    assert find(verdict, "memory bandwidth") == pytest.approx(86.0)
    assert find(verdict, "compute") == pytest.approx(10.0, abs=0.01)  # of 989 TFLOP/s


def test_without_counts_it_says_how_to_have_them() -> None:
    verdict = judge(write_vllm(), write_vllm(2000))
    texts = {limit.name: limit.text for limit in verdict.limits}
    assert "--enable-mfu-metrics" in texts["memory bandwidth"]


def test_tokens_of_the_interval_only_against_what_was_promised() -> None:
    """Of 1,000 new tokens 100 took 80 ms: the mean is 26 ms, p99 lies in the second bucket."""
    before, after = write_vllm(5000), write_vllm(6000, slow=100)
    verdict = judge(before, after, goals=Goals(itl_ms=50))
    assert verdict.holds == "ITL"
    assert verdict.text == "ITL 26.0 ms (mean), p99 92.5 ms, of 50 ms promised"
    assert find(verdict, "ITL") == pytest.approx(185.0)


def test_a_server_that_nobody_asks() -> None:
    verdict = judge(write_vllm(running=0), write_vllm(running=0))
    assert (verdict.holds, verdict.text) == (None, "no limit: no requests")


def test_a_server_that_was_restarted() -> None:
    first, second = read_metrics(write_vllm(9000), 0.0), read_metrics(write_vllm(100), 5.0)
    assert first is not None and second is not None
    load = compare_readings(first, second)
    assert load.restarted
    assert load.rates["output_tokens"] == 20.0


def test_engines_of_one_server_are_added_up() -> None:
    text = (
        'vllm:num_requests_running{engine="0"} 3\nvllm:num_requests_running{engine="1"} 4\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
    )
    reading = read_metrics(text, 0.0)
    assert reading is not None
    assert reading.gauges == {"running": 7.0, "kv_cache": 90.0}


def test_tensorrts_list_of_iterations() -> None:
    text = (
        '[{"iter": 8}, {"iter": 9, "iterLatencyMS": 12.5, "numActiveRequests": 4, '
        '"numQueuedRequests": 2, "kvCacheStats": {"usedNumBlocks": 30, "maxNumBlocks": 40}}]'
    )
    reading = read_metrics(text, 0.0)
    assert reading is not None and reading.engine == "trtllm"
    assert reading.gauges == {"running": 4, "waiting": 2, "iteration": 12.5, "kv_cache": 75.0}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[[[", "x{", 'a{b="c} 1', "vllm:x NaN", "\0", "[1]", "# only", "a 1e999999"],
)
def test_what_is_no_engines_is_none(text: str) -> None:
    assert read_metrics(text, 0.0) is None


def test_values_that_are_no_numbers_are_passed_over() -> None:
    samples = parse_samples('vllm:a{x="1"} two\nvllm:b 3 1700000000000\nvllm:c{le="+Inf"} 4\n')
    assert [(s.name, s.labels, s.value) for s in samples] == [
        ("vllm:b", {}, 3.0),
        ("vllm:c", {"le": "+Inf"}, 4.0),
    ]
