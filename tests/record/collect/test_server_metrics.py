"""`sightline watch --server`: small servers that replay real metrics, hang, flood and go away."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sightline.errors import InputError, RequestError
from sightline.record.collect.server_metrics import Bounds, fetch_reading
from support.command import sightline
from support.metric_server import (
    Answers,
    break_off,
    drip,
    flood,
    hang,
    replay,
    write_vllm,
)

QUICK = Bounds(seconds=0.6, most_bytes=1 << 20)
ONCE = ("--interval", "0.1s", "--once")


def test_one_verdict_for_a_person() -> None:
    full = write_vllm(2000, waiting=43, usage=0.959, preempted=117)
    with replay({"/metrics": [write_vllm(), full]}) as url:
        done = sightline("watch", "--server", url, "--gpu", "H100-SXM5", *ONCE)
    assert done.code == 0, done.err
    assert "vllm: the KV cache is 95.9 % full, and 43 requests wait" in done.out
    assert "--gpu-memory-utilization" in done.out
    assert "--enable-mfu-metrics" in done.out


def test_each_verdict_as_a_line_of_json() -> None:
    texts = [write_vllm(1000 * n, read=1e9 * n) for n in range(1, 9)]
    with replay({"/metrics": texts}) as url:
        done = sightline(
            "watch", "--server", url, "--gpu", "H100-SXM5", "--interval", "0.1s", "--json",
            "--for", "0.55s",
        )  # fmt: skip
    told = [json.loads(line) for line in done.out.splitlines()]
    assert len(told) >= 2
    assert {one["engine"] for one in told} == {"vllm"}
    first = told[0]
    assert first["rates"]["read_bytes"] == pytest.approx(1e9 / first["seconds"], rel=0.01)
    limit = next(one for one in first["limits"] if one["name"] == "memory bandwidth")
    assert limit["used_pct"] == pytest.approx(100 * first["rates"]["read_bytes"] / 3.35e12)


def test_the_places_of_other_engines() -> None:
    answers: Answers = {
        "/metrics": [404],
        "/prometheus/metrics": ["trtllm_kv_cache_utilization 0.5\n"],
    }
    with replay(answers) as url:
        assert fetch_reading(url).engine == "trtllm"
    with replay({"/metrics": ["sglang:token_usage 0.28\nsglang:num_queue_reqs 2\n"]}) as url:
        reading = fetch_reading(f"{url}/")
    assert reading.engine == "sglang"
    assert reading.gauges == pytest.approx({"kv_cache": 28.0, "waiting": 2.0})


@pytest.mark.parametrize(
    ("behavior", "why"),
    [
        (hang, "no whole answer within 0.6 s"),
        (drip, "no whole answer within 0.6 s"),
        (flood, "larger than 1 MiB"),
        (break_off, "IncompleteRead"),
        (500, "/metrics: HTTP 500"),
        ("<html>not metrics</html>", "no metric of vLLM, SGLang or TensorRT-LLM"),
    ],
    ids=["hang", "drip", "flood", "break_off", "fails", "no_metrics"],
)
def test_what_is_no_answer_is_said_in_time(behavior: object, why: str) -> None:
    with replay({"/metrics": [behavior]}) as url:  # type: ignore[list-item]
        began = time.monotonic()
        with pytest.raises(InputError) as caught:
            fetch_reading(url, QUICK)
        took = time.monotonic() - began
    assert why in f"{caught.value.what} {caught.value.why}"
    assert took < 2


@pytest.mark.parametrize(
    "url",
    ["8000", "ftp://x", "http://", "http://[::1", "http://a:b", "http://a:99999", "file:///x"],
)
def test_no_address_is_refused(url: str) -> None:
    with pytest.raises(RequestError, match="is not an address"):
        fetch_reading(url)


def test_a_server_that_goes_and_comes_back() -> None:
    answers: Answers = {"/metrics": [write_vllm(), 503, 503, write_vllm(10)]}
    with replay(answers) as url:
        done = sightline("watch", "--server", url, "--interval", "0.1s", "--once")
    assert done.err.count("asking again") == 1
    assert "it answers again" in done.err
    assert "the server was restarted" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "history"), "do not go together"),
        (("--interval", "0s"), "--interval 0s is too short"),
        (("--gpu", "abacus"), "no GPU is called 'abacus'"),
        ((), "does not answer"),
    ],
)
def test_requests_that_cannot_be(words: tuple[str, ...], said: str) -> None:
    done = sightline("watch", "--server", "http://127.0.0.1:9", *words)
    assert done.code == 2
    assert said in done.said


@pytest.mark.corpus
def test_a_real_servers_metrics(corpus: Path) -> None:
    text = (corpus / "serving/own_vllm_cpu/metrics.txt").read_text()
    with replay({"/metrics": [text]}) as url:
        reading = fetch_reading(url)
    assert (reading.engine, reading.counters["output_tokens"]) == ("vllm", 512.0)
    assert max(reading.histograms["itl"].buckets.values()) == 494
    assert reading.histograms["itl"].total == pytest.approx(15.103735012997276)
    assert reading.gauges == {"running": 0.0, "waiting": 0.0, "kv_cache": 0.0}
