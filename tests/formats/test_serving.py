"""What inference servers and their benchmarks write: requests, statistics and lines of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import DamagedError, SightlineError
from support.served import AIPERF, BENCH, CLIENT, FILES, SGLANG_LOG, TRTLLM_LOG, VLLM_LOG

MS = 1_000_000


def open_text(folder: Path, text: str, name: str = "given.json") -> sightline.Session:
    path = folder / name
    path.write_text(text)
    return sightline.open(str(path))


def list_stats(run: sightline.Session) -> dict[tuple[str, str], tuple[float, str]]:
    columns = ("metric", "statistic", "value", "unit")
    return {(m, s): (v, u) for m, s, v, u in run.table("serving_stats").select(columns).rows()}


@pytest.mark.parametrize(("importer", "name", "text"), FILES, ids=lambda v: str(v)[:12])
def test_each_is_recognised_by_its_content(
    importer: str, name: str, text: str, tmp_path: Path
) -> None:
    run = open_text(tmp_path, text, name)
    assert run.table("recordings").get_column("format").to_list() == [importer]


def test_requests_of_vllms_benchmark(tmp_path: Path) -> None:
    run = open_text(tmp_path, json.dumps(BENCH))
    columns = ("start_ns", "ttft_ns", "itl_ns", "latency_ns", "prompt_tokens", "output_tokens")
    assert run.table("served_requests").select(columns).rows() == [
        (10_000 * MS, 100 * MS, [10 * MS, 30 * MS], 140 * MS, 8, 3),
        (10_500 * MS, 200 * MS, [20 * MS], 220 * MS, 16, 2),
    ]
    stats = list_stats(run)
    assert stats["ttft", "p50"] == (150.0, "ms")
    assert stats["itl", "p99"] == (29.8, "ms")
    assert stats["output_rate", "total"] == (2.5, "tokens/s")


def test_results_of_sglang_are_a_line_each(tmp_path: Path) -> None:
    run = open_text(tmp_path, "".join(f"{json.dumps(BENCH)}\n" for _ in range(3)), "b.jsonl")
    assert run.table("serving_stats")["benchmark"].unique().sort().to_list() == [0, 1, 2]


def test_a_clients_log(tmp_path: Path) -> None:
    run = open_text(tmp_path, json.dumps(CLIENT))
    columns = ("start_ns", "end_ns", "ttft_ns", "latency_ns", "output_tokens")
    assert run.table("served_requests").select(columns).row(1) == (
        *(100_500 * MS, 100_720 * MS, 200 * MS, 220 * MS, 2),
    )


def test_a_clients_log_of_failed_requests(tmp_path: Path) -> None:
    """The first has failed, too: it is still such a log, and what failed was not answered."""
    rows = [
        {"i": 0, "start": 10.0, "n": 0, "error": "Connection refused"},
        {"i": 1, "start": 11.0, "n": 2, "ttft": 0.1, "itl": [0.1], "end": 11.2},
        {"i": 2, "start": 12.0, "n": 1, "ttft": 0.1, "end": 12.1, "error": "it was cut off"},
    ]
    path = tmp_path / "client.json"
    path.write_text(json.dumps(rows))
    requests = sightline.open(str(path)).table("served_requests")
    assert requests["status"].to_list() == ["failed", "completed", "failed"]
    path.write_text(json.dumps(rows[:1]))
    assert sightline.open(str(path)).rows("served_requests") == 1


def test_statistics_of_aiperf(tmp_path: Path) -> None:
    stats = list_stats(open_text(tmp_path, json.dumps(AIPERF)))
    assert stats["ttft", "p99"] == (687.0, "ms")
    assert stats["latency", "mean"] == (6726.0, "ms")
    assert stats["request_rate", "total"] == (2.5, "1/s")


def test_statistics_of_guidellm(tmp_path: Path) -> None:
    (text,) = (text for importer, _, text in FILES if importer == "guidellm")
    stats = list_stats(open_text(tmp_path, text))
    assert stats["ttft", "p99"] == (35.0, "ms")
    assert stats["latency", "mean"] == (2.8, "s")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            VLLM_LOG,
            {
                ("vllm:num_requests_waiting", None): 43.0,
                ("vllm:kv_cache_usage_perc", None): 0.959,
                ("vllm:avg_generation_throughput_toks_per_s", None): 48.4,
                ("iteration_ms", "decode"): 10.99,
            },
        ),
        (
            SGLANG_LOG,
            {
                ("sglang:num_queue_reqs", None): 3.0,
                ("sglang:token_usage", None): 0.71,
                ("sglang:num_retracted_reqs", None): 2.0,
                ("sglang:gen_throughput", None): 2520.18,
            },
        ),
        (TRTLLM_LOG, {("iteration_ms", "mixed"): 12.5}),
    ],
    ids=["vllm", "sglang", "trtllm"],
)
def test_lines_of_a_servers_log(
    text: str, values: dict[tuple[str, str | None], float], tmp_path: Path
) -> None:
    rows = open_text(tmp_path, text, "server.log").table("counters").sort("time_ns")
    last = {(metric, source): value for metric, source, value in
            rows.select("metric", "source", "value").rows()}  # fmt: skip
    assert {key: last.get(key) for key in values} == pytest.approx(values)


def test_a_log_without_statistics_says_what_to_save(tmp_path: Path) -> None:
    with pytest.raises(DamagedError) as error:
        open_text(tmp_path, VLLM_LOG.splitlines(keepends=True)[0], "server.log")
    assert "/metrics" in (error.value.hint or "")


@pytest.mark.parametrize("value", ["1e999", "-5", "null", "[]", '"7"', "true", "1" + "0" * 400])
@pytest.mark.parametrize("key", ["ttft", "itl", "start", "end", "n"])
def test_values_of_other_types_and_sizes_are_none(key: str, value: str, tmp_path: Path) -> None:
    row: dict[str, Any] = {**CLIENT[1], key: "VALUE"}
    text = json.dumps([CLIENT[0], row]).replace('"VALUE"', value)
    assert open_text(tmp_path, text).rows("served_requests") == 2


@pytest.mark.parametrize(("importer", "name", "text"), FILES, ids=lambda v: str(v)[:12])
def test_every_cut_is_read_or_explained(
    importer: str, name: str, text: str, tmp_path: Path
) -> None:
    for end in range(1, len(text), max(len(text) // 20, 1)):
        try:
            open_text(tmp_path, text[:end], name)
        except SightlineError as error:
            assert error.what
