"""A small bounded load on an inference server while it is recorded, and the client's log of it.

Requests go to /v1/completions (OpenAI's interface, which vLLM, SGLang and TensorRT-LLM have), each
streamed, so that every token's arrival is timed. Plain http.client: what is measured is the server.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sightline.errors import InputError, RequestError
from sightline.record.collect.server_api import find_model, join_url, split_url

REQUESTS, CONCURRENCY = 32, 8
OUTPUT_TOKENS = 64
ANSWER_S = 300.0
# As long as ShareGPT's conversations in the mean (Kwon et al., PagedAttention, 2023, figure 11: 161
# and 338 tokens); their spread, and the longest, are ours: small models have contexts of 2,048.
SHAREGPT_LIKE = "sharegpt-like"
_SHAREGPT_MEANS, _SHAREGPT_SIGMA, _SHAREGPT_MOST = (161.0, 338.0), 0.9, 900
_WORD_TOKENS = 1.3
# Prompts of these numbers of words in turn, where none are given: short ones and one that is long.
_WORDS = (16, 48, 16, 128, 32, 512)
_MOST_LINE = 1 << 20
_MOST_BYTES = 4 << 20  # of an answer: some hundred bytes a token


@dataclass(frozen=True)
class Load:
    """How many requests, how many at once, and the prompts that are sent in turn.

    `outputs` are the tokens that each is answered with, in turn; without any, OUTPUT_TOKENS.
    """

    requests: int = REQUESTS
    concurrency: int = CONCURRENCY
    prompts: Sequence[str] = ()
    outputs: Sequence[int] = ()


def read_prompts(path: Path) -> list[str]:
    """The prompts of a file with one JSON object a line: `prompt`, or `text`.

    Raises InputError where the file cannot be read or has none.
    """
    found = []
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                told = json.loads(line) if line.strip() else None
                prompt = told.get("prompt", told.get("text")) if isinstance(told, dict) else told
                if isinstance(prompt, str) and prompt:
                    found.append(prompt)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error
    if not found:
        raise InputError(
            f"{path} has no prompt", why="no line has one", hint='{"prompt": "..."} on each line'
        )
    return found


def make_prompts(lengths: Sequence[int] = _WORDS) -> list[str]:
    """Prompts of so many words; no two begin alike, so that no cache of prefixes answers."""
    words = ("time", "step", "queue", "layer", "token", "batch", "cache", "model", "server")
    return [
        " ".join([f"{number}:", *(words[(number * 7 + n) % len(words)] for n in range(count))])
        for number, count in enumerate(lengths)
    ]


def make_sharegpt_like(requests: int, concurrency: int) -> Load:
    """Prompts and answers as long as people's conversations are: the same each time."""
    dice = random.Random(0)  # noqa: S311  # no secret
    prompts, outputs = (
        [
            max(1, min(_SHAREGPT_MOST, round(dice.lognormvariate(mu, _SHAREGPT_SIGMA))))
            for _ in range(requests)
        ]
        for mu in (math.log(mean) - _SHAREGPT_SIGMA**2 / 2 for mean in _SHAREGPT_MEANS)
    )
    words = [max(1, round(tokens / _WORD_TOKENS)) for tokens in prompts]
    return Load(requests, concurrency, make_prompts(words), outputs)


def send_load(
    url: str,
    load: Load,
    say: Callable[[str], None],
    done: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Send all requests, and return what the client saw of each, in order of sending.

    What is known of each comes into `done` as it ends: it is there, too, where the load is
    interrupted. Each has start (seconds since the epoch), ttft, itl, end, n and ptok (where the
    server says so), as formats/serving/serving_benchmark.py reads it. A request that fails has
    `error`. Raises RequestError where the server names no model.
    """
    model = find_model(url)
    if model is None:
        raise RequestError(
            "no load can be sent: the server names no model",
            why=f"{join_url(url, 'v1/models')} does not answer",
            hint="Send requests yourself, and leave out --requests, --concurrency and --load.",
        )
    left = deque(range(load.requests))
    lock = threading.Lock()
    done = [] if done is None else done
    prompts = load.prompts or make_prompts()

    def work() -> None:
        while True:
            with lock:
                if not left:
                    return
                number = left.popleft()
            prompt = prompts[number % len(prompts)]
            output = load.outputs[number % len(load.outputs)] if load.outputs else OUTPUT_TOKENS
            row = _send_one(url, model, f"{number} {prompt}", output)
            with lock:
                done.append({"i": number, **row})

    threads = [threading.Thread(target=work, daemon=True) for _ in range(load.concurrency)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        with lock:
            left.clear()  # interrupted: nothing more is sent
            done.sort(key=lambda row: row["start"])
    failed = [row["error"] for row in done if "error" in row]
    if failed:
        say(f"{len(failed)} of {load.requests} requests failed: {failed[0]}")
    return done


def _send_one(url: str, model: str, prompt: str, output: int) -> dict[str, Any]:
    body = {
        "model": model, "prompt": prompt, "max_tokens": output, "stream": True,
        "ignore_eos": True, "temperature": 0, "stream_options": {"include_usage": True},
    }  # fmt: skip
    parts = split_url(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=ANSWER_S)
    start, began = time.time_ns(), time.perf_counter_ns()
    arrivals: list[int] = []
    made: Any = None
    row: dict[str, Any] = {"start": start / 1e9, "n": 0}
    try:
        connection.request(
            "POST", f"{parts.path.rstrip('/')}/v1/completions", json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        answer = connection.getresponse()
        if answer.status != 200:
            row["error"] = f"HTTP {answer.status} {answer.reason}"
        for chunk in _list_chunks(answer, row) if answer.status == 200 else ():
            if _has_token(chunk):
                arrivals.append(time.perf_counter_ns() - began)
            usage = chunk.get("usage")
            if isinstance(usage, dict):
                row["ptok"] = usage.get("prompt_tokens")
                made = usage.get("completion_tokens")
    except (OSError, http.client.HTTPException) as error:
        row["error"] = str(error) or type(error).__name__
    finally:
        connection.close()
    if not isinstance(row.get("ptok"), int):
        row.pop("ptok", None)
    if isinstance(made, int) and 0 < made < len(arrivals):
        del arrivals[made:]  # an end without a token is a chunk of its own
    if arrivals:
        row["ttft"] = arrivals[0] / 1e9
        row["itl"] = [(b - a) / 1e9 for a, b in pairwise(arrivals)]
        row["n"] = made if isinstance(made, int) and made > 0 else len(arrivals)
        row["end"] = (start + arrivals[-1]) / 1e9
    return row


def _list_chunks(answer: http.client.HTTPResponse, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The server-sent events of a streamed answer, as JSON, until it says that it is done.

    An answer that ends without that was cut off, or it does not end: that is the `row`'s error.
    """
    read = 0
    while line := answer.readline(_MOST_LINE):
        read += len(line)
        if read > _MOST_BYTES:
            row["error"] = "the answer does not end"
            return
        text = line.strip()
        if text == b"data: [DONE]":
            return
        if text.startswith(b"data:"):
            try:
                told = json.loads(text[5:])
            except (ValueError, RecursionError):
                continue
            if isinstance(told, dict):
                yield told
    row["error"] = "the answer was cut off"


def _has_token(chunk: dict[str, Any]) -> bool:
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    # A token may have no text: half of a letter, a special one.
    return isinstance(first, dict) and isinstance(first.get("text"), str)
