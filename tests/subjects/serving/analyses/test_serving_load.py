"""Percentiles and load, by requests, benchmarks, histograms and gauges; worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import MissingDataError
from support.served import AIPERF, BENCH, VLLM_LOG
from support.traces import kernel, opened

METRICS = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0"} 43.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0"} 100.0
vllm:num_preemptions_total{engine="1"} 17.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.959
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1"} 4.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.2"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 10.0
vllm:time_to_first_token_seconds_sum{engine="0"} 1.5
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3"} 10.0
vllm:request_queue_time_seconds_bucket{engine="0",le="+Inf"} 10.0
vllm:request_queue_time_seconds_sum{engine="0"} 0.01
"""


def read_load(folder: Path, text: str, name: str) -> dict[tuple[str, str], dict[str, Any]]:
    path = folder / name
    path.write_text(text)
    rows = sightline.open(str(path)).ask("serving_load").to_dicts()
    return {(row["metric"], row["source"]): row for row in rows}


def test_each_request_of_a_benchmark_with_details(tmp_path: Path) -> None:
    load = read_load(tmp_path, json.dumps(BENCH), "bench.json")
    first = load["ttft", "requests"]
    assert (first["count"], first["mean"], first["max"]) == (2, pytest.approx(150.0), 200.0)
    assert load["tpot", "requests"]["mean"] == pytest.approx((20.0 + 20.0) / 2)
    # Five tokens between 10 s and 10.72 s.
    assert load["output_rate", "requests"]["mean"] == pytest.approx(5 / 0.72)
    assert load["itl", "benchmark"]["p99"] == 29.8


def test_histograms_as_prometheus_reads_them(tmp_path: Path) -> None:
    load = read_load(tmp_path, METRICS, "metrics.txt")
    ttft = load["ttft", "histogram"]
    assert (ttft["count"], ttft["mean"]) == (10, pytest.approx(150.0))
    assert ttft["p50"] == pytest.approx(125.0)  # the fifth of ten: a quarter of the second bucket
    assert ttft["p99"] == pytest.approx(200.0)  # above all finite bounds: the last of them
    # All in a bucket of 300 ms, with a mean of 1 ms: half of them took 2 ms or less.
    assert load["queue", "histogram"]["p50"] == pytest.approx(2.0)
    assert load["preemptions", "counter"]["total"] == 117.0
    assert load["kv_cache", "gauge"]["max"] == pytest.approx(95.9)


def test_what_a_benchmark_printed(tmp_path: Path) -> None:
    load = read_load(tmp_path, json.dumps(AIPERF), "aiperf.json")
    assert load["ttft", "benchmark"]["p99"] == 687.0
    assert load["output_rate", "benchmark"]["total"] == 1172.0


def test_a_servers_log(tmp_path: Path) -> None:
    load = read_load(tmp_path, VLLM_LOG, "server.log")
    assert load["waiting", "gauge"]["max"] == 43.0
    assert load["iteration", "gauge"]["mean"] == pytest.approx(10.99)


def test_other_recordings_have_none(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="load is unknown"):
        opened(tmp_path, [kernel("k", 0, 9)]).ask("serving_load")
