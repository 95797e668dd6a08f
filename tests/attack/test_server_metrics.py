"""Hostile answers to `watch --server`, and hostile logs to `whatif`: bounded, and a sentence.

Whatever a server says at /metrics, reading it raises nothing, and what is judged is finite;
whatever it does on the wire, the reader gives up in time with InputError. A client's log cannot
make the model of the scheduler work for minutes.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sightline
from attack.mutate import damage
from sightline.errors import InputError, RequestError, SightlineError
from sightline.record.collect.server_metrics import Bounds, fetch_reading
from sightline.roofline.hardware import find_gpu
from sightline.subjects.serving.live.limits import Goals, judge_interval
from sightline.subjects.serving.live.reading import compare_readings, read_metrics
from sightline.subjects.serving.planning.prediction import predict
from sightline.subjects.serving.planning.scheduler import Asked, Settings, play_requests
from sightline.subjects.serving.planning.step_costs import StepCosts
from support.campaigns import CAMPAIGNS
from support.metric_server import write_vllm
from support.processor_time import takes_at_most

ROUNDS = 3000 if CAMPAIGNS else 150
QUICK = Bounds(seconds=0.5, most_bytes=1 << 18)
GPU = find_gpu("NVIDIA H100 80GB HBM3")
TRTLLM = json.dumps(
    [
        {
            "iter": 9,
            "iterLatencyMS": 12.5,
            "numActiveRequests": 4,
            "kvCacheStats": {"usedNumBlocks": 3},
        }
    ]
)


def is_finite(values: dict[str, float]) -> bool:
    return all(math.isfinite(value) for value in values.values())


@pytest.mark.parametrize(
    "whole", [write_vllm(2000, slow=7, read=1e9), TRTLLM], ids=["text", "json"]
)
def test_damaged_metrics(whole: str) -> None:
    dice = random.Random(7)
    before = read_metrics(write_vllm(), 0.0)
    assert before is not None
    for _ in range(ROUNDS):
        text = damage(whole.encode(), dice, TRTLLM.encode())[1].decode("utf-8", "replace")
        with takes_at_most(1):
            after = read_metrics(text, 10.0)
            if after is not None:
                load = compare_readings(before, after)
                assert is_finite(load.gauges) and is_finite(load.rates)
                verdict = judge_interval(load, GPU, Goals(100, 10))
                assert verdict.text
                json.dumps([limit.__dict__ for limit in verdict.limits])


@contextlib.contextmanager
def answer(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.settimeout(2)
                        connection.recv(4096)
                        act(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def send_slowly(head: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(15):
            time.sleep(0.1)
            connection.sendall(b"X-A: b\r\n")

    return act


def send(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


OK = b"HTTP/1.1 200 OK\r\n"
HOSTILE = {
    "nothing": send(b""),
    "noise": send(bytes(range(256)) * 40),
    "endless head": send_slowly(OK),
    "many headers": send(OK + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n"),
    "long header": send(OK + b"X: " + b"y" * 200_000 + b"\r\n\r\n"),
    "negative length": send(OK + b"Content-Length: -5\r\n\r\nvllm:x 1\n"),
    "length without end": send(
        OK + b"Content-Length: 99999999999\r\n\r\nvllm:num_requests_running 1"
    ),
    "broken chunks": send(OK + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nvllm:x 1\r\n"),
    "chunk too large": send(
        OK + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n" + b"#" * 400_000
    ),
    "redirect": send(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"),
    "wrong status": send(b"HTTP/1.1 9x9 what\r\n\r\n"),
    "compressed": send(OK + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00" + b"\0" * 99),
}


@pytest.mark.timing
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_servers(name: str) -> None:
    with answer(HOSTILE[name]) as url:
        began = time.monotonic()
        with pytest.raises(InputError):
            fetch_reading(url, QUICK)
        assert time.monotonic() - began < 2


LINE = (
    "(APIServer pid=9) INFO 11-28 11:58:12 [loggers.py:199] Engine 000: Iteration({n}): {c} "
    "context requests, {t} context tokens, {g} generation requests, {g} generation tokens, "
    "iteration elapsed time: {ms} ms, CPU KV cache usage: 0.0%\n"
)


def write_pair(folder: Path, tokens: int) -> list[Path]:
    """A server's log of iterations, and a client that got so many tokens of each request."""
    log, client = folder / "serve.log", folder / "client.json"
    rows = [(1, 64, 0, 9.5), (0, 0, 1, 4.25), (0, 0, 2, 4.5), (1, 32, 1, 8.0)] * 5
    log.write_text(
        "".join(LINE.format(n=n, c=c, t=t, g=g, ms=ms) for n, (c, t, g, ms) in enumerate(rows))
    )
    each = {"ttft": 0.1, "itl": [0.01, 0.02], "n": tokens, "ptok": 32}
    client.write_text(
        json.dumps([{"i": n, "start": 100.0 + n, "end": 100.5 + n, **each} for n in range(6)])
    )
    return [log, client]


def test_a_client_that_claims_a_billion_tokens(tmp_path: Path) -> None:
    run = sightline.open(*map(str, write_pair(tmp_path, 10**9)))
    with pytest.raises(RequestError, match="too many tokens"):
        predict(run)


def test_steps_of_one_token_of_a_long_prompt() -> None:
    """A budget of a token makes a step of each token of a prompt: hours, of one request."""
    costs = StepCosts((1,), (1e6,), 0.0, 1e6, 1e3)
    with pytest.raises(RequestError, match="too many tokens"):
        play_requests([Asked(0.0, 10**9, 2)], costs, Settings(None, 1))


def test_damaged_logs_and_clients(tmp_path: Path) -> None:
    dice = random.Random(11)
    whole = [path.read_bytes() for path in write_pair(tmp_path, 3)]
    for n in range(max(ROUNDS // 10, 10)):
        folder = tmp_path / str(n)
        folder.mkdir()
        paths = []
        for name, data in zip(("serve.log", "client.json"), whole, strict=True):
            (folder / name).write_bytes(damage(data, dice, data[::-1])[1])
            paths.append(str(folder / name))
        with takes_at_most(20), contextlib.suppress(SightlineError):
            told = predict(sightline.open(*paths), max_num_seqs=4, load=2.0).predicted
            assert all(math.isfinite(value) for value in told.__dict__.values())
