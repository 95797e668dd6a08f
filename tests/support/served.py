"""Small files as inference servers and their benchmarks write them, with round numbers."""

from __future__ import annotations

import json
from typing import Any

VLLM_LOG = """\
(APIServer pid=7) INFO 11-26 10:39:26 [api_utils.py:347] version 0.32.0
(APIServer pid=7) INFO 11-26 10:39:50 [loggers.py:335] Engine 000: Avg prompt throughput: 100.0 \
tokens/s, Avg generation throughput: 48.4 tokens/s, Running: 3 reqs, Waiting: 43 reqs, \
GPU KV cache usage: 95.9%, Prefix cache hit rate: 10.8%
(EngineCore pid=8) INFO 11-26 10:39:51 [core.py:402] Iteration(515): 0 context requests, 0 context \
tokens, 20 generation requests, 20 generation tokens, iteration elapsed time: 10.99 ms
"""
SGLANG_LOG = """\
[2026-05-27 20:14:33 TP0] Prefill batch. #new-seq: 4, #new-token: 1024, #cached-token: 256, token \
usage: 0.41, #running-req: 12, #queue-req: 5, input throughput (token/s): 18722.30
[2026-05-27 20:14:38 TP0] Decode batch. #running-req: 18, #token: 16384, token usage: 0.71, \
#retracted-req: 2, cuda graph: True, gen throughput (token/s): 2520.18, #queue-req: 3
"""
TRTLLM_LOG = """\
[05/27/2026-20:14:33] [TRT-LLM] [I] iter = 9, global_rank = 0, rank = 0, host_step_time = 12.5ms, \
prev_device_step_time = 11.25ms, num_scheduled_requests: 4, states = {'num_ctx_requests': 1, \
'num_ctx_tokens': 900, 'num_generation_tokens': 3}
"""
BENCH: dict[str, Any] = {
    "date": "20260527-201433",
    "backend": "vllm",
    "completed": 2,
    "duration": 2.0,
    "total_input_tokens": 24,
    "total_output_tokens": 5,
    "request_throughput": 1.0,
    "output_throughput": 2.5,
    "input_lens": [8, 16],
    "output_lens": [3, 2],
    "ttfts": [0.1, 0.2],
    "itls": [[0.01, 0.03], [0.02]],
    "start_times": [10.0, 10.5],
    "mean_ttft_ms": 150.0,
    "median_ttft_ms": 150.0,
    "p99_itl_ms": 29.8,
    "errors": ["", ""],
}
CLIENT: list[dict[str, Any]] = [
    {"i": 0, "start": 100.0, "ttft": 0.1, "itl": [0.01, 0.03], "end": 100.14, "n": 3, "ptok": 8},
    {"i": 1, "start": 100.5, "ttft": 0.2, "itl": [0.02], "end": 100.72, "n": 2, "ptok": 16},
]
AIPERF: dict[str, Any] = {
    "schema_version": "1.3",
    "aiperf_version": "0.10.0",
    "request_throughput": {"unit": "requests/sec", "avg": 2.5},
    "request_latency": {"unit": "ms", "avg": 6726.0, "p50": 6478.0, "p99": 18625.0, "std": 1.0},
    "time_to_first_token": {"unit": "ms", "avg": 230.0, "p99": 687.0, "max": 694.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1172.0},
    "input_config": {"models": {}},
}


def _state(mean: float, p99: float) -> dict[str, Any]:
    done = {"mean": mean, "min": 1.0, "max": 9.0, "count": 4, "percentiles": {"p99": p99}}
    return {"successful": done, "errored": {"mean": 0.0, "count": 0}}


GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 1, "guidellm_version": "0.5.0"},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "metrics": {
                "time_to_first_token_ms": _state(21.0, 35.0),
                "request_latency": _state(2.8, 3.4),
                "requests_per_second": _state(0.35, 0.66),
            },
        }
    ],
}
# Name of the importer, of a file, and what lies in it.
FILES = (
    ("server_log", "vllm.log", VLLM_LOG),
    ("server_log", "sglang.log", SGLANG_LOG),
    ("server_log", "trtllm.log", TRTLLM_LOG),
    ("serving_benchmark", "bench.json", json.dumps(BENCH)),
    ("serving_benchmark", "bench.jsonl", f"{json.dumps(BENCH)}\n{json.dumps(BENCH)}\n"),
    ("serving_benchmark", "client.json", json.dumps(CLIENT)),
    ("aiperf", "aiperf.json", json.dumps(AIPERF)),
    ("guidellm", "guidellm.json", json.dumps(GUIDELLM)),
)
