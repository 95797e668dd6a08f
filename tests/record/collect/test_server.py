"""An inference server's own profiler, switched on over HTTP: slow to stop, late with its files."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline as sl
from sightline.errors import InputError, RequestError
from sightline.record.collect import server, server_api, server_load
from support import traces
from support.command import sightline

pytestmark = pytest.mark.timing
QUICK = server.Patience(files_s=1.0, gone_s=0.3)


class Behavior:
    """How the server behaves, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, Any]] = []
        self.refuse: set[str] = set()
        self.stop_s = 0.3  # the answer to /stop_profile
        self.late_s = 0.4  # the files, after that answer
        self.ranks = 2
        self.version: str | None = None
        self.has_metrics = False
        self.model: str | None = None
        self.tokens = 3  # of each answer
        self.without_text: int | None = None  # a token that is half of a letter
        self.ends_apart = False  # the end is a chunk of its own
        self.served = 0
        self.front = False  # its API server writes a trace, too
        self.writers: list[threading.Thread] = []
        self.answered: Callable[[], None] = lambda: None

    def write(self, place: Path) -> None:
        """Trace by trace, each in two pieces: as a slow disk shows them."""
        time.sleep(self.late_s)
        place.mkdir(parents=True, exist_ok=True)
        for rank in range(self.ranks):
            document = {
                "schemaVersion": 1,
                "traceEvents": [traces.kernel(f"gemm{rank}", 0, 5)],
                "distributedInfo": {"rank": rank, "world_size": self.ranks},
            }
            data = gzip.compress(json.dumps(document).encode())
            with (place / f"node17_{100 + rank}.rank{rank}.pt.trace.json.gz").open("wb") as file:
                file.write(data[:20])
                file.flush()
                time.sleep(0.2)
                file.write(data[20:])
        if self.front:
            (place / "node17_99.async_llm.1.pt.trace.json").write_text('{"traceEvents": []}')


class Handler(BaseHTTPRequestHandler):
    behavior: Behavior

    def do_GET(self) -> None:
        own = self.behavior
        metrics = (
            f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting {own.served}\n"
        )
        told = {
            "/version": own.version and json.dumps({"version": own.version}),
            "/v1/models": own.model and json.dumps({"data": [{"id": own.model}]}),
            "/metrics": own.has_metrics and metrics,
        }.get(self.path)
        if not told:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(told.encode())

    def complete(self, told: dict[str, Any]) -> None:
        """A streamed answer: a token at a time, then the usage."""
        own = self.behavior
        own.served += 1
        own.answered()
        self.send_response(200)
        self.end_headers()
        for n in range(own.tokens):
            text = "" if n == own.without_text else f"t{n}"
            self.wfile.write(f'data: {{"choices": [{{"text": "{text}"}}]}}\n\n'.encode())
            self.wfile.flush()
        if own.ends_apart:
            self.wfile.write(b'data: {"choices": [{"text": "", "finish_reason": "length"}]}\n\n')
        usage = {
            "choices": [],
            "usage": {
                "prompt_tokens": len(told["prompt"].split()),
                "completion_tokens": own.tokens,
            },
        }
        self.wfile.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())

    def do_POST(self) -> None:
        own = self.behavior
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = json.loads(body) if body else None
        own.asked.append((self.path, told))
        if self.path in own.refuse:
            self.send_error(404)
            return
        if self.path == "/v1/completions":
            self.complete(told)
            return
        if self.path == "/start_profile" and told and "output_dir" in told:
            own.folder = Path(told["output_dir"])
        if self.path == "/stop_profile":
            writer = threading.Thread(target=own.write, args=(own.folder,))
            writer.start()
            own.writers.append(writer)
            time.sleep(own.stop_s)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not on the test's standard error."""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[str, Behavior]]:
    behavior = Behavior(tmp_path / "server-traces")
    handler = type("Own", (Handler,), {"behavior": behavior})
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{http.server_address[1]}", behavior
    http.shutdown()
    http.server_close()
    thread.join()
    for writer in behavior.writers:
        writer.join()


def test_vllm_slow_to_stop_and_late_with_its_files(serving, tmp_path, monkeypatch):
    url, behavior = serving
    monkeypatch.chdir(tmp_path)
    behavior.folder.mkdir()
    old = behavior.folder / "old.rank0.pt.trace.json"
    old.write_text('{"traceEvents": []}')  # of an earlier recording: not ours
    outcome = sightline(
        "run", "--server", "vllm", url, "--seconds", "0.2", "-o", "s", "--traces", behavior.folder
    )
    assert outcome.code == 0, outcome.err
    assert [path for path, _ in behavior.asked] == ["/start_profile", "/stop_profile"]
    folder = tmp_path / "s.sightline"
    names = sorted(p.name for p in folder.glob("server-*"))
    assert names == ["server-0.rank0.json.gz", "server-1.rank1.json.gz"]  # no host's name in it
    run = sl.open(str(folder))
    assert run.table("device_ops").sort("rank").select("rank", "name").rows() == [
        (0, "gemm0"),
        (1, "gemm1"),
    ]
    assert "rank_by_order" not in run.table("quality").get_column("kind").to_list()
    assert old.exists()
    assert "gemm0" in outcome.err  # the report


def test_sglang_is_told_where_to_write(serving, tmp_path):
    url, behavior = serving
    folder = tmp_path / "s.sightline"
    folder.mkdir()
    said: list[str] = []
    server.record_server("sglang", url, folder, 0.1, None, said.append)
    path, body = behavior.asked[0]
    assert (path, body) == ("/start_profile", {"output_dir": str(folder / "server")})
    assert not (folder / "server").exists()  # emptied and removed
    assert sl.open(str(folder)).table("device_ops").height == 2
    assert "to stop" in said[1]


def test_a_server_without_a_profiler_says_what_it_needs(serving, tmp_path, monkeypatch):
    url, behavior = serving
    behavior.refuse.add("/start_profile")
    monkeypatch.chdir(tmp_path)
    outcome = sightline(
        "run", "--server", "vllm", url, "--seconds", "0.1", "-o", "s", "--traces", tmp_path
    )
    assert outcome.code == 2
    assert "vllm refused /start_profile: HTTP 404" in outcome.err
    assert "VLLM_TORCH_PROFILER_DIR" in outcome.err
    assert not (tmp_path / "s.sightline").exists()
    assert len(behavior.asked) == 1  # what was not started is not stopped


@pytest.mark.parametrize(
    ("version", "words", "others"),
    [
        ("0.32.0", "--profiler-config", "VLLM_TORCH_PROFILER_DIR"),
        ("0.12.1", "VLLM_TORCH_PROFILER_DIR", "--profiler-config"),
        (None, "--profiler-config", "\0"),
    ],
)
def test_advice_is_that_of_the_version(version, words, others, serving, tmp_path, monkeypatch):
    """Since 0.13 a vLLM without --profiler-config has no /start_profile at all."""
    url, behavior = serving
    behavior.version = version
    behavior.refuse.add("/start_profile")
    monkeypatch.delenv("VLLM_TORCH_PROFILER_DIR", raising=False)
    for traces_folder in (tmp_path, None):
        with pytest.raises((InputError, RequestError)) as error:
            server.record_server("vllm", url, tmp_path, 0.05, traces_folder, lambda _: None)
        assert words in (error.value.hint or "")
        assert others not in (error.value.hint or "")
    assert [path for path, _ in behavior.asked] == ["/start_profile"]


def test_a_load_of_its_own_is_joined_with_traces_and_metrics(serving, tmp_path, monkeypatch):
    url, behavior = serving
    behavior.version, behavior.model, behavior.has_metrics = "0.32.0", "tiny", True
    behavior.front = True
    monkeypatch.chdir(tmp_path)
    outcome = sightline(
        *("run", "--server", "vllm", url, "-o", "s", "--traces", behavior.folder),
        *("--requests", "5", "--concurrency", "2", "--steps", "20"),
    )
    assert outcome.code == 0, outcome.err
    assert behavior.asked[0] == ("/start_profile", {"max_iterations": 20})
    folder = tmp_path / "s.sightline"
    run = sl.open(str(folder))
    requests = run.table("served_requests")
    assert requests["output_tokens"].to_list() == [3] * 5
    assert (requests["prompt_tokens"] > 10).all()
    assert (requests["ttft_ns"] > 0).all()
    load = {r["metric"]: r for r in run.ask("serving_load").to_dicts()}
    assert (load["waiting"]["count"], load["waiting"]["max"]) == (2, 5.0)  # before and behind
    assert sorted(set(run.table("recordings")["rank"])) == [0, 1]  # the workers'
    kinds = run.table("quality").get_column("kind").to_list()
    assert "rank_by_order" not in kinds
    assert "helper_process" in kinds  # the API server's own trace


def test_what_the_servers_log_says_meanwhile_lies_beside_the_trace(serving, tmp_path, monkeypatch):
    url, behavior = serving
    behavior.version, behavior.model = "0.32.0", "tiny"
    log = tmp_path / "serve.log"
    line = (
        "INFO {} [core.py:402] Iteration({}): 0 context requests, 0 context tokens, 2 generation "
        "requests, 2 generation tokens, iteration elapsed time: 10.5 ms\n"
    )
    log.write_text(line.format("01-01 00:00:00", 0))

    def answer() -> None:
        with log.open("a") as file:
            file.write(line.format(time.strftime("%m-%d %H:%M:%S"), behavior.served))

    behavior.answered = answer
    monkeypatch.chdir(tmp_path)
    words = ("run", "--server", "vllm", url, "-o", "s", "--traces", behavior.folder)
    outcome = sightline(*words, "--requests", "3", "--server-log", log)
    assert outcome.code == 0, outcome.err
    run = sl.open(str(tmp_path / "s.sightline"))
    assert run.table("counters").filter(pl.col("metric") == "iteration_ms").height == 3
    behavior.answered = lambda: None
    outcome = sightline(*words[:-3], "t", *words[-2:], "--seconds", "0.1", "--server-log", log)
    assert "no line of a step: start it with --enable-logging-iteration-details" in outcome.err


def test_a_load_without_a_model_or_with_failures(serving, tmp_path):
    url, behavior = serving
    load = server_load.Load(3, 2, ("once",))
    with pytest.raises(RequestError, match="names no model"):
        server_load.send_load(url, load, lambda _: None)
    behavior.model = "tiny"
    behavior.refuse.add("/v1/completions")
    said: list[str] = []
    rows = server_load.send_load(url, load, said.append)
    assert said == ["3 of 3 requests failed: HTTP 404 Not Found"]
    assert [row["n"] for row in rows] == [0, 0, 0]


def test_a_long_wait_is_told_until_it_ends():
    said: list[str] = []
    with server_api.tell_waiting(said.append, "it writes", every_s=0.02):
        time.sleep(0.15)
    count = len(said)
    assert count >= 2
    assert said[0] == "it writes, for 0 s so far"
    time.sleep(0.05)
    assert len(said) == count


def test_prompts_of_a_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one"}\n\n{"text": "two"}\n"three"\n')
    assert server_load.read_prompts(path) == ["one", "two", "three"]
    path.write_text("{}\n")
    with pytest.raises(InputError, match="has no prompt"):
        server_load.read_prompts(path)


def test_a_stop_that_fails_is_said_but_the_files_count(serving, tmp_path):
    url, behavior = serving
    behavior.refuse.add("/stop_profile")
    folder = tmp_path / "s.sightline"
    folder.mkdir()
    timer = threading.Timer(0.1, behavior.write, (behavior.folder,))
    timer.start()
    behavior.writers.append(timer)
    server.record_server("vllm", url, folder, 0.05, behavior.folder, lambda _: None)
    run = sl.open(str(folder))
    assert run.rows("device_ops") == 2
    assert "server" in run.table("quality").get_column("kind").to_list()


def test_no_files_and_no_server(serving, tmp_path):
    url, behavior = serving
    behavior.ranks = 0
    folder = tmp_path / "s.sightline"
    folder.mkdir()
    with pytest.raises(InputError, match="has written no trace"):
        server.record_server("vllm", url, folder, 0.05, tmp_path, lambda _: None, patience=QUICK)
    with pytest.raises(InputError, match="does not answer"):
        server.record_server("vllm", "http://127.0.0.1:9", folder, 0.05, tmp_path, lambda _: None)


def test_tensorrt_llm_is_told_when_it_starts(tmp_path):
    with pytest.raises(RequestError, match="cannot be switched on over HTTP"):
        server.record_server("trtllm", "http://x:1", tmp_path, 1, None, lambda _: None)
    from support import recording

    code = "import os; print(os.environ['TLLM_PROFILE_START_STOP'])"
    import sys

    done = recording.run(
        "--server",
        "trtllm",
        "-",
        "--steps",
        "90:10:25",
        "--no-report",
        "--",
        sys.executable,
        "-c",
        code,
        cwd=tmp_path,
    )
    assert done.stdout == "100-125\n"


def test_a_run_folder_among_the_traces_is_no_trace(serving, tmp_path):
    """Where the output lies in the folder of traces, the client's log there is not a server's."""
    url, behavior = serving
    behavior.model = "tiny"
    folder = behavior.folder / "s.sightline"
    folder.mkdir(parents=True)
    load = server_load.Load(2, 1, ("once",))
    words = {"load": load, "patience": QUICK}
    server.record_server("vllm", url, folder, 0.0, behavior.folder, lambda _: None, **words)
    assert sorted(p.name for p in folder.glob("server-*")) == [
        "server-0.rank0.json.gz",
        "server-1.rank1.json.gz",
    ]
    assert sl.open(str(folder)).rows("served_requests") == 2


def test_a_load_as_long_as_conversations(serving, tmp_path):
    """161 tokens of prompt and 338 of answer in the mean, and none beyond a small context."""
    url, behavior = serving
    behavior.model = "tiny"
    load = server_load.make_sharegpt_like(600, 8)
    assert sum(load.outputs) / 600 == pytest.approx(338, rel=0.15)
    assert sum(len(p.split()) for p in load.prompts) / 600 == pytest.approx(161 / 1.3, rel=0.1)
    assert max(load.outputs) <= 900
    assert load == server_load.make_sharegpt_like(600, 8)
    server_load.send_load(url, server_load.make_sharegpt_like(2, 1), lambda _: None)
    asked = [body["max_tokens"] for path, body in behavior.asked if path == "/v1/completions"]
    assert asked == list(server_load.make_sharegpt_like(2, 1).outputs)


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        # vLLM, and its API server.
        (["h_1.rank0.1.pt.trace.json.gz", "h_1.rank1.2.pt.trace.json.gz"], [0, 1]),
        (["rank0.1.pt.trace.json.gz", "h_9.async_llm.1.pt.trace.json.gz"], [0, None]),
        # SGLang: tensor ranks; two replicas of two; by stage; merged beside its parts, and alone.
        (["17-TP-0.trace.json.gz", "17-TP-1.trace.json.gz"], [0, 1]),
        (
            [f"17-TP-{tp}-DP-{dp}-PP-0-EP-0.trace.json.gz" for dp in (0, 1) for tp in (0, 1)],
            [0, 1, 2, 3],
        ),
        (["17-TP-0-DECODE.trace.json.gz", "17-TP-0-EXTEND.trace.json.gz"], [0, 0]),
        (["17-TP-0.trace.json.gz", "merged-17.trace.json.gz"], [0, server.MERGED]),
        (["merged-17.trace.json.gz"], [None]),
    ],
)
def test_ranks_by_the_names_that_servers_give(names, ranks):
    assert server.name_ranks(names) == ranks
