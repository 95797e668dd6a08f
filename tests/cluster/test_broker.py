"""Metrics and jobs by NATS: what a message makes, and a real nats-server, where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sightline.cluster.broker import Listener
from sightline.cluster.config import Broker, make_config
from sightline.cluster.store import Store
from sightline.errors import RequestError
from support.cluster_jobs import read_values, write_start

NOW = int(time.time())


@contextlib.contextmanager
def listen(folder: Path, broker: Broker | None = None) -> Iterator[tuple[Listener, Store, list]]:
    said: list[str] = []
    store = Store(folder)
    try:
        yield Listener(broker or Broker("nats://127.0.0.1"), "c1", store, said.append), store, said
    finally:
        store.close()


def write_event(function: str, document: object) -> bytes:
    """As cc-slurm-adapter's line protocol library writes it."""
    text = json.dumps(document).replace("\\", "\\\\").replace('"', '\\"')
    return f'job,function={function} event="{text}" {NOW}000000000'.encode()


def stop(number: int) -> dict:
    return {"jobId": number, "cluster": "c1", "stopTime": NOW + 5, "jobState": "completed"}


def test_events_begin_and_end_jobs(tmp_path):
    with listen(tmp_path) as (listener, store, said):
        start = write_start(7, at=NOW) | {"metaData": {"jobName": 'a "b" \\c\\ ü \n d'}}
        listener.take_jobs([write_event("start_job", start)] * 2)  # brokers send some twice
        assert [known.row["name"] for known in store.list_live()] == ['a "b" \\c\\ ü   d']
        listener.take_jobs([write_event("stop_job", stop(7))])
        assert store.find_job(f"c1/7/{NOW}").row["state"] == "completed"
        assert said == []


def test_points_of_several_messages_are_written_together(tmp_path):
    with listen(tmp_path) as (listener, store, said):
        lines = [f"cpu_load,hostname=n{n} value={n} {NOW}".encode() for n in (1, 2)]
        listener.take_metrics([lines[0], b"", b"not a point\xff", lines[1]])
        listener.take_metrics([b"not a point\xff"])
        assert [read_values(store, host=f"n{n}") for n in (1, 2)] == [{NOW: 1}, {NOW: 2}]
        assert len(said) == 1  # and not each time


def test_one_message_costs_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.cluster.points.MOST_POINTS", 20)
    with listen(tmp_path) as (listener, store, said):
        many = b"\n".join(b"x,hostname=n9 value=%d" % n for n in range(30))
        listener.take_metrics([f"cpu_load,hostname=n1 value=1 {NOW}".encode(), many])
        assert read_values(store) == {NOW: 1}
        assert read_values(store, "x", "n9") == {}
        assert any("at most" in text for text in said)


@pytest.mark.parametrize(
    "more",
    [
        {},  # nobody in particular: who may publish there, may anybody
        {"user": "u"},
        {"user": "u", "password_file": "empty"},
        {"token_file": "missing"},
        {"token_file": "word", "url": "nats://elsewhere:4222"},  # the word could be read
        {"token_file": "word", "url": "tls://u:p@elsewhere"},
        {"token_file": "word", "url": "http://127.0.0.1"},
        {"token_file": "word", "metrics": []},
        {"token_file": "word", "metrics": ["a b"]},
        {"token_file": "word", "durable": "a.b"},
        {"token_file": "word", "subjects": ["a"]},
    ],
)
def test_brokers_that_are_not_listened_to(tmp_path, more):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "word").write_text("a-word\n")
    held = {"url": "nats://127.0.0.1:4222", "metrics": ["metrics"], **more}
    with pytest.raises(RequestError):
        make_config({"cluster": "c1", "nats": held}, tmp_path)


def test_a_broker_of_a_configuration(tmp_path):
    (tmp_path / "word").write_text("a-word\n")
    held = {"url": "tls://elsewhere:4222", "token_file": "word", "metrics": ["m.>"], "jobs": "j.*"}
    made = make_config({"cluster": "c1", "nats": held}, tmp_path).broker
    assert made == Broker(
        "tls://elsewhere:4222", token="a-word", metrics=("m.>",), jobs=("j.*",)
    )  # fmt: skip


# -- a real one --------------------------------------------------------------------------------


@contextlib.contextmanager
def serve_nats(folder: Path, port: int = -1) -> Iterator[int]:
    program = shutil.which("nats-server", path=None) or shutil.which("/usr/sbin/nats-server")
    if program is None:
        pytest.skip("nats-server is not installed (Debian: nats-server)")
    folder.mkdir(exist_ok=True)
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nports_file_dir: "{folder}"\n'
        f'jetstream {{ store_dir: "{folder}/js" }}\n'
        'authorization { users: [{user: "sightline", password: "a-word"}] }\n'
    )
    running = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
    try:
        while not (ports := list(folder.glob("*.ports"))) or not ports[0].read_text():
            assert running.poll() is None
            time.sleep(0.02)
        yield int(json.loads(ports[0].read_text())["nats"][0].rpartition(":")[2])
    finally:
        running.terminate()
        running.wait(20)


def publish(port: int, messages: list[tuple[str, bytes]], streams: tuple[str, ...] = ()) -> None:
    import nats

    async def send() -> None:
        url = f"nats://127.0.0.1:{port}"
        client = await nats.connect(url, user="sightline", password="a-word")
        if streams:
            await client.jetstream().add_stream(name="c1", subjects=list(streams))
        for subject, data in messages:
            if streams:
                await client.jetstream().publish(subject, data)
            else:
                await client.publish(subject, data)
        await client.drain()

    # In a thread: a browser's driver leaves its own loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, send()).result()


@contextlib.contextmanager
def running(listener: Listener) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=listener.run, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
        assert not thread.is_alive()


def wait_for(ask) -> None:
    deadline = time.monotonic() + 30
    while not ask():
        assert time.monotonic() < deadline
        time.sleep(0.05)


MESSAGES = [
    ("hpc.metrics", f"cpu_load,hostname=n1,type=node value=2 {NOW - 1}".encode()),
    ("hpc.metrics", f"cpu_load,hostname=n1,type=node value=3 {NOW}".encode()),
    ("hpc.jobs", write_event("start_job", write_start(7, at=NOW))),
]


@pytest.mark.timing
def test_a_real_broker(tmp_path):
    with serve_nats(tmp_path / "nats") as port:
        broker = Broker(
            f"nats://127.0.0.1:{port}", "sightline", "a-word",
            metrics=("hpc.metrics",), jobs=("hpc.jobs",),
        )  # fmt: skip
        with listen(tmp_path / "s", broker) as (listener, store, said), running(listener):

            def arrived() -> bool:
                publish(port, MESSAGES)  # who listens later hears nothing of earlier ones
                return bool(store.list_live()) and len(read_values(store)) == 2

            wait_for(arrived)
            assert read_values(store) == {NOW - 1: 2, NOW: 3}
            assert said == []


@pytest.mark.timing
def test_a_stream_sends_what_came_while_nobody_listened(tmp_path):
    """JetStream: before the service was there, and while it was away; each once."""
    with serve_nats(tmp_path / "nats") as port:
        broker = Broker(
            f"nats://127.0.0.1:{port}", "sightline", "a-word",
            metrics=("hpc.metrics",), jobs=("hpc.jobs",), durable="sightline",
        )  # fmt: skip
        publish(port, MESSAGES, streams=("hpc.>",))
        with listen(tmp_path / "s", broker) as (listener, store, said):
            with running(listener):
                wait_for(lambda: store.list_live() and len(read_values(store)) == 2)
            ended = [("hpc.jobs", write_event("stop_job", stop(7)))]
            publish(port, ended, streams=("hpc.>",))
            with running(listener):
                wait_for(lambda: store.find_job(f"c1/7/{NOW}").row["state"] == "completed")
            assert store.live_samples == 2
            assert said == []


@pytest.mark.timing
def test_a_broker_that_refuses_is_told_of_and_asked_again(tmp_path):
    with serve_nats(tmp_path / "nats") as port:
        broker = Broker(f"nats://127.0.0.1:{port}", "sightline", "wrong", metrics=("hpc.metrics",))
        with listen(tmp_path / "s", broker) as (listener, store, said), running(listener):
            wait_for(lambda: said)
            assert "uthorization" in said[0]
            assert store.live_samples == 0
