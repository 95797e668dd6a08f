"""A small HTTP server that replays what inference engines say at /metrics, or misbehaves."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answers = dict[str, Sequence[str | int | Callable[[BaseHTTPRequestHandler], None]]]


@contextlib.contextmanager
def replay(answers: Answers) -> Iterator[str]:
    """Its address. Each path answers in turn, the last for ever: a text, a status, or a function.

    What else is asked is not found.
    """
    asked: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = answers.get(self.path)
            number = asked[self.path] = asked.get(self.path, -1) + 1
            told = 404 if known is None else known[min(number, len(known) - 1)]
            with contextlib.suppress(OSError):
                if isinstance(told, int):
                    self.send_error(told)
                elif isinstance(told, str):
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(told.encode())
                else:
                    told(self)

        def log_message(self, *_: object) -> None:
            """Not on the test's standard error."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Say nothing for longer than anybody waits."""
    time.sleep(5)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """One byte at a time: each is in time, the whole never."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(50):
        handler.wfile.write(b"#")
        handler.wfile.flush()
        time.sleep(0.1)


def flood(handler: BaseHTTPRequestHandler) -> None:
    """More than any server's metrics."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(64):
        handler.wfile.write(b"# " + b"x" * 65_534)


def break_off(handler: BaseHTTPRequestHandler) -> None:
    """Announce more than comes."""
    handler.send_response(200)
    handler.send_header("Content-Length", "9999")
    handler.end_headers()
    handler.wfile.write(b"vllm:num_requests_running 1\n")


def write_vllm(
    tokens: float = 1000.0,
    *,
    waiting: float = 0.0,
    running: float = 8.0,
    usage: float = 0.25,
    preempted: float = 0.0,
    flops: float = 0.0,
    read: float = 0.0,
    slow: float = 0.0,
) -> str:
    """vLLM 0.32's own names and labels: `tokens` of 20 ms, and `slow` ones of 80 ms."""
    label = '{engine="0",model_name="models/tiny"}'

    def bucket(bound: str) -> str:
        name = "vllm:inter_token_latency_seconds_bucket"
        return f'{name}{{engine="0",le="{bound}",model_name="models/tiny"}}'

    return f"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{label} {running}
vllm:num_requests_waiting{label} {waiting}
vllm:kv_cache_usage_perc{label} {usage}
vllm:num_preemptions_total{label} {preempted}
vllm:generation_tokens_total{label} {tokens}
vllm:estimated_flops_per_gpu_total{label} {flops}
vllm:estimated_read_bytes_per_gpu_total{label} {read}
vllm:estimated_write_bytes_per_gpu_total{label} 0.0
{bucket("0.025")} {tokens - slow}
{bucket("0.1")} {tokens}
{bucket("+Inf")} {tokens}
vllm:inter_token_latency_seconds_sum{label} {(tokens - slow) * 0.02 + slow * 0.08}
"""
