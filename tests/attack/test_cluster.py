"""Hostile requests to the cluster's service: ClusterCockpit's advisories, and damage of all kinds.

Whatever comes: no file outside of the store, no markup of others on a page, no other statement
than ours, nothing taken from nobody, and the next request is answered. Each door of the service
(`DOORS`) has its attacks here; one that has none fails `test_each_door_is_attacked`.
"""

from __future__ import annotations

import gzip
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attack.mutate import damage
from sightline.cluster.access import Rules, Token, hash_token, make_token
from sightline.cluster.broker import Listener
from sightline.cluster.bucket import Bucket, Objects
from sightline.cluster.config import Broker, make_config
from sightline.cluster.journal import list_files
from sightline.cluster.notes import Notes
from sightline.cluster.points import MOST_POINTS, PointReader
from sightline.cluster.store import Store
from sightline.errors import InputError, RequestError, SightlineError
from support.campaigns import CAMPAIGNS
from support.cluster_jobs import write_start
from support.cluster_service import TOKENS, Own, run_service
from support.object_storage import open_bucket
from support.remote_writing import write_request

ROUNDS = 3000 if CAMPAIGNS else 60
FLOOD = 1000 if CAMPAIGNS else 100
NOW = int(time.time())
SECRET = b"a word that lies outside"
EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'`{{7*7}}"
LINE = b"cpu_load,hostname=n1,type=node value=1.5"
# Every address that takes something, with a request that is answered.
DOORS: dict[str, tuple[str, str, bytes, str]] = {
    "/write": ("POST", "ingest", LINE, ""),
    "/api/v2/write": ("POST", "ingest", LINE, "precision=s&bucket=x"),
    "/api/write": ("POST", "ingest", LINE, "cluster=c1"),
    "/metricstore/api/write": ("POST", "ingest", LINE, "cluster=c1"),
    "/api/v1/write": (
        "POST", "ingest",
        write_request(({"__name__": "node_load1", "instance": "n1"}, [(NOW * 1000, 1.5)])), "",
    ),
    "/api/jobs/start_job": ("POST", "ingest", json.dumps(write_start(7, at=NOW)).encode(), ""),
    "/api/jobs/stop_job": (
        "POST", "ingest",
        json.dumps({"jobId": 7, "cluster": "c1", "stopTime": NOW, "jobState": "failed"}).encode(),
        "",
    ),
    "/api/jobs": ("GET", "user", b"", "user=ada&sort=wasted&days=7&text=n1&tag=t&most=5"),
    "/api/job": ("GET", "user", b"", f"id=c1/7/{NOW}"),
    "/api/lines": ("GET", "user", b"", f"id=c1/7/{NOW}"),
    "/": ("GET", "user", b"", "user=ada&sort=wasted&way=up&page=0&rule=job-hang&running=yes"),
    "/job": ("GET", "user", b"", f"id=c1/7/{NOW}"),
    "/waste": ("GET", "support", b"", "days=30"),
    "/owners": ("GET", "support", b"", "days=30"),
    "/nodes": ("GET", "support", b"", "cluster=c1"),
    "/compare": ("GET", "user", b"", f"a=c1/7/{NOW}&b=c1/7/{NOW}"),
    "/trace": ("GET", "user", b"", "n=1"),
    "/tag": ("POST", "user", b"", ""),
    "/record": ("POST", "user", b"", ""),
    "/enter": ("GET", "user", b"", "token=x"),
    "/leave": ("POST", "user", b"", ""),
    "/health": ("GET", "user", b"", ""),
    "/style.css": ("GET", "user", b"", ""),
}  # fmt: skip
QUERIES = (
    *("../../secret", "..%2f..%2fsecret", "/etc/passwd", "c1/../../1/1", "c1/7/x", "c1//1"),
    *("' OR 1=1 --", "1; DROP TABLE kept", '"user"', "x' UNION SELECT * FROM about --", "\0"),
    *("*", "c?", "[a-z]1", "-1", "1e3", "99999999999", "\u0665", "", "a" * 5_000, EVIL, "%00"),
    "read_csv('secret')",
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Own]:
    (tmp_path / "secret").write_bytes(SECRET)
    with run_service(tmp_path) as made:
        assert made.send_json("/api/jobs/start_job/", write_start(7, at=NOW)).status == 201
        yield made


def ask_door(own: Own, door: str, query: str | None = None, body: bytes | None = None) -> Any:
    """The reply of a door to its whole request, with parts of it replaced."""
    method, role, usual, params = DOORS[door]
    target = f"{door}?{params if query is None else query}"
    return own.ask(target, role, method, usual if body is None else body)


def assert_well(own: Own, root: Path) -> None:
    """The store is as it was, and nothing lies outside of it."""
    assert own.ask("/health").status == 200
    assert sorted(p.name for p in root.iterdir()) == ["secret", "store"]
    listed = json.loads(own.ask("/api/jobs?sort=job", "admin").body)
    assert "7" in [job["job_id"] for job in listed["jobs"]]


def test_each_door_is_attacked(own: Own) -> None:
    """The addresses that the service's source names are those of `DOORS`."""
    import re

    from sightline.doors.http import service

    text = Path(service.__file__).read_text()
    named = set(re.findall(r'"(/[a-z0-9_/.]*)"', text)) - {"/login", "/callback", "/api/"}
    assert named <= set(DOORS), named - set(DOORS)
    for door in DOORS:
        assert ask_door(own, door).status < 500, door


@pytest.mark.parametrize("door", DOORS)
def test_hostile_queries(own: Own, tmp_path: Path, door: str) -> None:
    params = DOORS[door][3]
    names = [pair.partition("=")[0] for pair in params.split("&")] + ["user", "sort", "id", "tag"]
    for name in dict.fromkeys(names):
        for value in QUERIES:
            from urllib.parse import urlencode

            reply = ask_door(own, door, urlencode({name: value}))
            assert reply.status < 500, (door, name, value, reply.body)
            assert SECRET not in reply.body
            if reply.kind.startswith("text/html"):
                assert b"<script" not in reply.body, (door, name)
                assert b"<img" not in reply.body
    assert_well(own, tmp_path)


@pytest.mark.parametrize("door", [d for d, (method, *_) in DOORS.items() if method == "POST"])
def test_damaged_bodies(own: Own, tmp_path: Path, door: str) -> None:
    rng = random.Random(7)
    usual = DOORS[door][2] or b"form=x&id=y&tag=z"
    for _ in range(ROUNDS):
        body = damage(usual, rng, usual)[1]
        if rng.random() < 0.2:
            body = gzip.compress(body)[: rng.randint(0, 200)]
            method, role, _, params = DOORS[door]
            reply = own.ask(f"{door}?{params}", role, method, body, Content_Encoding="gzip")
        else:
            reply = ask_door(own, door, body=body)
        assert reply.status < 500, (door, body, reply.body)
    assert_well(own, tmp_path)


def test_damaged_blocks_of_snappy(own: Own, tmp_path: Path) -> None:
    from cramjam import snappy

    rng = random.Random(17)
    whole = bytes(snappy.compress_raw(DOORS["/api/v1/write"][2] * 20))
    for _ in range(ROUNDS):
        body = damage(whole, rng, whole)[1]
        reply = own.ask("/api/v1/write", "ingest", "POST", body, Content_Encoding="snappy")
        assert reply.status in (204, 400), (body, reply.body)
    bomb = bytes(snappy.compress_raw(b"\x0a\0" * (40 << 20)))
    for body in (bomb, bytes(snappy.compress_raw(b"\x0a\0" * (2 << 20)))):
        reply = own.ask("/api/v1/write", "ingest", "POST", body, Content_Encoding="snappy")
        assert reply.status == 400, len(body)
    assert_well(own, tmp_path)


def test_damaged_messages_of_a_broker(tmp_path: Path) -> None:
    """What comes by NATS: no job and no point of another cluster, and nothing that ends it."""
    rng = random.Random(19)
    text = json.dumps(write_start(7, at=NOW)).replace('"', '\\"')
    event = f'job,function=start_job event="{text}" {NOW}'.encode()
    (tmp_path / "secret").write_bytes(SECRET)
    with run_service(tmp_path) as own:
        said: list[str] = []
        listener = Listener(Broker("nats://127.0.0.1"), "c1", own.service.store, said.append)
        for _ in range(ROUNDS):
            listener.take_jobs([damage(event, rng, event)[1]])
            listener.take_metrics([damage(LINE, rng, LINE)[1], b"x" * 100_000])
        for words in ('"' * 100_000, "\\" * 100_000, "[" * 100_000, EVIL.replace('"', '\\"')):
            listener.take_jobs([f'job,function=start_job event="{words}"'.encode()])
        listener.take_jobs([b"x" * (17 << 20), event])
        assert len(said) <= 20
        assert "7" in [known.row["job_id"] for known in own.service.store.list_live()]
        own.service.store.checkpoint()
        assert {p.name for p in (tmp_path / "store" / "samples").glob("*")} <= {"cluster=c1"}
        assert own.ask("/", "admin").status == 200


def test_path_traversal_through_tags(own: Own, tmp_path: Path) -> None:
    """cc-backend 1.5.4: a tag of a line was a part of a path."""
    for name in ("..", "../..", "../../x", "/etc", "a/b", ".hidden", "c1/../..", "a\\..\\b", "~"):
        for line in (
            f"cpu_load,hostname=n1,cluster={name} value=1",
            f"cpu_load,hostname={name} value=1",
            f"{name},hostname=n1 value=1",
            f"cpu_load,hostname=n1,type=accelerator,type-id={name} value=1",
        ):
            own.ask("/write", "ingest", "POST", line.encode())
            own.ask(f"/write?cluster={name}", "ingest", "POST", LINE)
        for document in (
            {**write_start(8, at=NOW), "cluster": name},
            {**write_start(9, at=NOW), "resources": [{"hostname": name}]},
        ):
            own.send_json("/api/jobs/start_job/", document)
    own.service.store.checkpoint()
    folders = {p.name for p in (tmp_path / "store" / "samples").glob("*")}
    assert folders <= {"cluster=c1"}
    assert {p.name for p in (tmp_path / "store" / "jobs").glob("*")} <= {"cluster=c1"}
    assert_well(own, tmp_path)


def test_stored_markup(own: Own, tmp_path: Path) -> None:
    """cc-backend 1.5.4: a message of a job was markup. Each text that comes in, on each page."""
    document = write_start(8, at=NOW - 3600)
    document |= {"user": EVIL[:100], "project": EVIL, "partition": EVIL, "subCluster": EVIL}
    document |= {"metaData": {"jobName": EVIL, "jobScript": EVIL, "message": EVIL}}
    assert own.send_json("/api/jobs/start_job/", document).status == 201
    key = f"c1/8/{NOW - 3600}"
    fields = {"form": own.sign("admin"), "id": key, "tag": EVIL[:40], "scope": "global"}
    assert own.post("/tag", "admin", fields).status == 303
    number = own.service.notes.ask_trace(key, EVIL, EVIL)
    own.service.notes.end_trace(number, "failed", EVIL)
    for page in ("/", f"/job?id={key}", "/waste", "/owners", "/nodes", f"/compare?a={key}&b={key}"):
        reply = own.ask(page, "admin")
        assert reply.status == 200, page
        text = reply.body.decode().lower()
        assert "<script" not in text, page
        assert "<img" not in text, page
        assert "onerror=alert(2)>" not in text.replace("&gt;", ""), page
        assert "script-src" not in reply.headers["Content-Security-Policy"]


def test_sql_in_names_of_metrics(own: Own, tmp_path: Path) -> None:
    """cc-backend 1.5.4: the name of a metric was a part of a statement."""
    for name in ("x'; DROP TABLE kept; --", 'mean_x"', "1) OR (1=1", "a;b", "a'b"):
        escaped = name.replace(" ", "\\ ")
        line = f"{escaped},hostname=n1 value=1".encode()
        assert own.ask("/write", "ingest", "POST", line).status == 400
        for target in (f"/?sort={name}", f"/api/jobs?sort={name}", f"/nodes?cluster={name}"):
            assert own.ask(target, "admin").status in (200, 400, 404)
    assert own.service.store.live_samples == 0
    assert_well(own, tmp_path)


def test_empty_and_guessable_keys() -> None:
    """cc-backend 1.5.4: an empty key was taken."""
    import hashlib

    for word in ("", " ", "short", "a" * 15):
        with pytest.raises(RequestError):
            hash_token(word)
    empty = hashlib.sha256(b"").hexdigest()
    for digest in (empty, "", "0", "x" * 64):
        with pytest.raises(RequestError):
            Token("t", "admin", digest)
    assert len({make_token()[0] for _ in range(100)}) == 100


def test_configurations_that_let_anybody_in() -> None:
    """A header without a proxy, roles that are none, misspelt keys: refused at the start."""
    whole: dict[str, Any] = {"cluster": "c1"}
    for more in (
        {"access": {"header": "X-Remote-User"}},
        {"access": {"header": "X", "proxies": ["anywhere"]}},
        {"access": {"roles": {"ada": "root"}}},
        {"access": {"tokens": [{"name": "t", "role": "admin", "sha256": ""}]}},
        {"acces": {}},
        {"cluster": "../x"},
        {"cluster": ""},
        {"listen": "8270"},
        {"listen": "evil.example:80"},
        {"trace": {"command": ["sh", "-c", "x"]}},
        {"oidc": {"issuer": "http://evil.example", "client_id": "x"}},
        {"nats": {"url": "nats://127.0.0.1", "metrics": ["x"]}},
        {"keep": {"jobs_days": -1}},
    ):
        with pytest.raises((RequestError, InputError)):
            make_config({**whole, **more}, Path("/nowhere"))


def test_nobody_is_heard_without_a_token(tmp_path: Path) -> None:
    """cc-backend 1.5.4: ingest by NATS asked for none. Here also where no token is configured."""
    with run_service(tmp_path, rules=Rules()) as own:
        for door, (method, _, body, params) in DOORS.items():
            reply = own.ask(f"{door}?{params}", None, method, body, X_Remote_User="root")
            if door not in ("/health", "/style.css"):
                assert reply.status in (401, 403), door
        assert own.service.store.live_samples == 0
        assert own.service.store.list_live() == []


def test_a_link_signs_nobody_in(own: Own) -> None:
    """Sent by somebody else, it would begin their session: what is tagged then is tagged as them.

    The page says whose token it is, and asks; another site's form is refused.
    """
    for role in ("user", "admin"):
        reply = own.ask(f"/enter?token={TOKENS[role]}", None)
        assert (reply.status, "Set-Cookie" in reply.headers) == (200, False)
        assert b"Sign in as" in reply.body
    for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        reply = own.post("/enter", None, {"token": TOKENS["user"]}, Host="127.0.0.1", **headers)
        assert (reply.status, "Set-Cookie" in reply.headers) == (403, False)


def test_floods_of_jobs_and_series_are_refused(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender hears 503; who asks is answered, and what was there goes on."""
    monkeypatch.setattr("sightline.cluster.store.MOST_JOBS", 20)
    monkeypatch.setattr("sightline.cluster.store.MOST_SERIES", 20)
    jobs = [own.send_json("/api/jobs/start_job/", write_start(n, at=NOW)) for n in range(8, 38)]
    assert [reply.status for reply in jobs] == [201] * 19 + [503] * 11
    lines = [f"cpu_load,hostname=x{n} value=1".encode() for n in range(30)]
    points = [own.ask("/write", "ingest", "POST", line) for line in lines]
    assert [reply.status for reply in points] == [204] * 20 + [503] * 10
    stop = {"jobId": 8, "cluster": "c1", "stopTime": NOW + 1, "jobState": "failed"}
    assert own.send_json("/api/jobs/stop_job/", stop).status == 200
    own.service.store.checkpoint()
    again = own.send_json("/api/jobs/start_job/", write_start(99, at=NOW))
    assert again.status == 201
    own.service.store.checkpoint(now_s=time.time() + 40 * 86_400)
    assert own.ask("/write", "ingest", "POST", lines[29]).status == 204


@pytest.mark.timing
def test_floods_of_requests_that_are_refused(own: Own, tmp_path: Path) -> None:
    """Guessed tokens, and connections that say nothing: who has a token is still heard."""
    for n in range(FLOOD):
        reply = own.ask("/write", None, "POST", LINE, Authorization=f"Bearer {n:032d}")
        assert reply.status == 401
    idle = []
    connection = own.connect()
    place = (connection.host, connection.port)
    connection.close()
    try:
        for _ in range(FLOOD):
            idle.append(socket.create_connection(place, 5))
            with suppress(OSError):
                idle[-1].send(b"POST /write HTTP/1.1\r\nHost: loc")
        connection = own.connect()
        connection.request("POST", "/write", LINE, {"Authorization": f"Bearer {TOKENS['ingest']}"})
        assert connection.getresponse().status == 204
        connection.close()
    finally:
        for one in idle:
            one.close()
    assert_well(own, tmp_path)


def test_damaged_requests_by_a_socket(own: Own, tmp_path: Path) -> None:
    rng = random.Random(11)
    connection = own.connect()
    place = (connection.host, connection.port)
    connection.close()
    head = f"POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(LINE)}\r\n"
    seed = head.encode() + b"Authorization: Bearer wrong-wrong-wrong-wrong\r\n\r\n" + LINE
    for _ in range(ROUNDS):
        made = damage(seed, rng, seed)[1]
        with suppress(OSError), socket.create_connection(place, 5) as asked:
            asked.sendall(made[:100_000])
            asked.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := asked.recv(1 << 16):
                answer += piece
            assert b" 20" not in answer.split(b"\r\n")[0], made
    assert own.service.store.live_samples == 0
    assert_well(own, tmp_path)


def test_a_damaged_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """Bytes of the journal changed, cut or repeated: the store opens, or says why not.

    A record of one sample takes 70 bytes and more: what it has is what its bytes can hold.
    """
    rng = random.Random(13)
    with run_service(tmp_path) as own:
        for n in range(20):
            line = f"cpu_load,hostname=n{n} value={n}".encode()
            assert own.ask("/write", "ingest", "POST", line).status == 204
        _, path = list_files(tmp_path / "store" / "journal")[-1]
        whole = path.read_bytes()
    for n in range(ROUNDS // 3):
        root = tmp_path / f"damaged-{n}"
        (root / "journal").mkdir(parents=True)
        made = damage(whole, rng, whole)[1]
        (root / "journal" / path.name).write_bytes(made)
        with suppress(SightlineError):
            store = Store(root)
            assert store.live_samples <= len(made) // 70
            store.close()


PAGES = ("/", "/waste", "/owners", "/nodes", "/api/jobs")


def assert_all_pages(own: Own, key: str) -> None:
    """Each page is one, before and after jobs are judged and written."""
    of_job = [f"{page}?id={key}" for page in ("/job", "/api/job", "/api/lines")]
    for _ in range(2):
        for page in (*PAGES, *of_job, f"/compare?a={key}&b={key}"):
            reply = own.ask(page, "admin")
            assert reply.status == 200, (page, reply.body[:200])
        own.service.running.refresh()
        own.service.store.checkpoint()


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("value", ["1e308", "1.7e308", "1e300", "1e29", "1e-300", "5e-324"])
def test_values_that_no_metric_has(own: Own, sign: str, value: str) -> None:
    """Of 1e308 GB the bytes are no number, nor is the sum of two: JSON and axes have none of it."""
    names = ("mem_used", "cpu_load", "flops_any", "mem_bw", "foo")
    small = "flops_any,hostname=n1 value=1e29\nmem_bw,hostname=n1 value=1e-30\n"
    lines = [f"{name},hostname=n1 value={sign}{value} {NOW + n}" for name in names for n in (1, 2)]
    lines += [f"nv_util,hostname=n1,type=accelerator,type-id=0 value={sign}{value}"]
    own.ask("/write", "ingest", "POST", (small + "\n".join(lines)).encode())
    assert_all_pages(own, f"c1/7/{NOW}")


@pytest.mark.parametrize(
    "more",
    [
        {"startTime": 10**10},
        {"startTime": 99_999_999_999},
        {"startTime": NOW + 10**8},
        {"startTime": 1},
        {"requestedMemory": 10**15},
        {"requestedMemory": 9 * 10**12 + 10**11},
        {"numNodes": 2**62, "numAcc": 2**62},
        {"walltime": 2**62},
    ],
)
def test_numbers_that_no_column_holds(own: Own, more: dict[str, Any]) -> None:
    """One job of the year 5138 hid all jobs from everybody, after each start again."""
    reply = own.send_json("/api/jobs/start_job/", {**write_start(8, at=NOW), **more})
    key = json.loads(reply.body)["id"] if reply.status == 201 else f"c1/7/{NOW}"
    assert_all_pages(own, key)
    late = {"jobId": 7, "cluster": "c1", "stopTime": 99_999_999_999, "jobState": "failed"}
    assert own.send_json("/api/jobs/stop_job/", late).status == 400
    assert_all_pages(own, f"c1/7/{NOW}")


def test_a_job_of_an_archive_with_numbers_that_no_column_holds(own: Own) -> None:
    job = own.service.store.find_job(f"c1/7/{NOW}")
    assert job is not None
    row = {**job.row, "memory_bytes": 10**30, "energy_j": float("inf"), "state": "completed"}
    made = type(job)(row, job.nodes, {}, {})
    assert own.service.store.add_jobs([(f"c1/9/{NOW}", made)]) == 1
    assert_all_pages(own, f"c1/9/{NOW}")


def test_names_of_clusters_that_no_folder_has(own: Own) -> None:
    """A name of 324 characters: nothing of any cluster was written to the disk any more."""
    name = "a" * 64 + ("." + "b" * 64) * 4
    assert own.ask(f"/write?cluster={name}", "ingest", "POST", LINE).status == 400
    assert own.ask("/write", "ingest", "POST", LINE).status == 204
    own.service.store.checkpoint()
    assert own.service.store.live_samples == 0


def test_points_are_bounded() -> None:
    read = PointReader().read
    line = b"a,host=b " + b",".join(b"a=1" for _ in range(16_000))
    with pytest.raises(ValueError, match="at most"):
        read(b"\n".join([line] * (MOST_POINTS // 16_000 + 2)), "c1")


def test_what_is_remembered_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.cluster.points.CACHED_BYTES", 1_000_000)
    reader = PointReader()
    for n in range(100):
        line = b"a,hostname=b,junk=%d%s value=1" % (n, b"x" * 60_000)
        assert len(reader.read(line, "c1").series) == 1
    assert sum(len(head) for _, head, _ in reader._known) < 1_100_000


@pytest.mark.parametrize(
    "line",
    [
        b"\\ " * 32_000 + b'a b="x"',
        b"a,hostname=b " + b'a="",' * 13_000,
        b'a,hostname=b a="' + b"\\\\" * 32_000,
    ],
    ids=["blanks", "texts", "signs"],
)
def test_a_line_takes_time_as_its_length(line: bytes) -> None:
    read, line = PointReader().read, line[:65_000]
    took = []
    for part in (line[: len(line) // 8], line):
        began = time.process_time()
        for _ in range(3):
            read(part, "c1")
        took.append(time.process_time() - began)
    assert took[1] < 30 * took[0] + 0.05, took


def test_a_job_said_to_have_begun_long_ago_is_bounded(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """55 years on a grid of a second, of each metric: bounded for all of them together."""
    monkeypatch.setattr("sightline.cluster.courses.MOST_OF_JOB", 100_000)
    own.send_json("/api/jobs/start_job/", write_start(8, at=1))
    lines = [f"m{m},hostname=n1 value=1 {NOW - s}" for m in range(40) for s in (1, 2, 3)]
    assert own.ask("/write", "ingest", "POST", "\n".join(lines).encode()).status == 204
    job = own.service.store.find_job("c1/8/1")
    assert job is not None
    assert len(job.uses) == 40
    assert sum(use.values.size for use in job.uses.values() if use.values is not None) <= 100_000


def _send(own: Own, data: bytes) -> bytes:
    connection = own.connect()
    with socket.create_connection((connection.host, connection.port), 10) as asked:
        asked.sendall(data)
        asked.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionResetError):
            while piece := asked.recv(1 << 16):
                answer += piece
    return answer


@pytest.mark.parametrize(
    "head",
    [
        "Bad Header: x\r\nContent-Length: {n}\r\n",
        "no colon\r\nContent-Length: {n}\r\n",
        "Content-Length : {n}\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X-A: a\r\n b\r\nContent-Length: 0\r\n",
        "X-A: a\rX-B: b\r\n",
        "X-A: a\0\r\n",
    ],
)
def test_headers_that_a_proxy_may_read_otherwise(own: Own, head: str) -> None:
    """The library ends the headers at a line that is none: the body was the next request."""
    inner = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    more = head.format(n=len(inner)).encode()
    answer = _send(own, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + b"\r\n" + inner)
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_bare_cr_makes_no_header(own: Own) -> None:
    token = TOKENS["ingest"]
    head = f"POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\rAuthorization: Bearer {token}\r\n"
    answer = _send(own, f"{head}Content-Length: {len(LINE)}\r\n\r\n".encode() + LINE)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert own.service.store.live_samples == 0


@pytest.mark.timing
def test_slow_bodies_of_nobody(own: Own) -> None:
    """As many connections as there are, each in the middle of a body: the next one is heard."""
    connection = own.connect()
    place = (connection.host, connection.port)
    slow = []
    try:
        for _ in range(own.service.server.most + 10):
            slow.append(socket.create_connection(place, 5))
            with suppress(OSError):
                slow[-1].sendall(
                    b"POST /write HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nx"
                )
            time.sleep(0.01)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
    finally:
        connection.close()
        for one in slow:
            one.close()


def test_what_is_done_beside_the_answers_goes_on(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a job, or of a library, ended the judging of all jobs until the next start."""

    def fail(*_: object) -> float:
        own.service._ended.set()
        raise ZeroDivisionError("by a job")

    monkeypatch.setattr(own.service.running, "refresh", fail)
    own.service._judge()
    own.service._try("the store", fail)
    assert [("by a job" in text) for text in own.said] == [True, True]


def test_a_log_whose_first_file_is_damaged_gives_no_sample_to_others(tmp_path: Path) -> None:
    """Its series are missing; those of the next file took their numbers."""
    store = Store(tmp_path)
    read = PointReader().read
    for n, names in enumerate((["a"], ["b"], ["c", "a"])):
        if n == 2:
            store._journal.rotate()
        lines = "\n".join(f"{name},hostname={name} value={n}" for name in names)
        store.write_points(read(lines.encode(), "c1"))
    store._journal.close()
    store._guard.close()
    path = list_files(tmp_path / "journal")[0][1]
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 1
    path.write_bytes(damaged)
    for _ in range(2):  # the second time it is not in use
        with pytest.raises(InputError, match="series are missing"):
            Store(tmp_path)


def test_damaged_files_of_the_store(tmp_path: Path) -> None:
    """A checkpoint, an index and notes that are not ours, or cut: a sentence, or made anew."""
    rng = random.Random(17)
    with run_service(tmp_path) as own:
        own.send_json("/api/jobs/start_job/", write_start(7, at=NOW))
        own.service.store.checkpoint()
    for name in ("checkpoint", "index.duckdb", "notes.sqlite"):
        path = tmp_path / "store" / name
        whole = path.read_bytes()
        for made in (b"", b"x", whole[:50], *(damage(whole, rng, whole)[1] for _ in range(10))):
            path.write_bytes(made)
            with suppress(SightlineError), run_service(tmp_path) as own:
                assert own.ask("/", "admin").status in (200, 507)
        path.unlink()


def test_a_damaged_file_of_jobs_hides_no_other_job(tmp_path: Path) -> None:
    """All lists were errors where one file of Parquet was damaged."""
    with run_service(tmp_path) as own:
        for number in (7, 8):
            own.send_json("/api/jobs/start_job/", write_start(number, at=NOW - 7200))
            stopped = {"jobId": number, "cluster": "c1", "stopTime": NOW, "jobState": "completed"}
            own.send_json("/api/jobs/stop_job/", stopped)
            own.service.store.checkpoint()
        first = sorted((tmp_path / "store" / "jobs").rglob("*.parquet"))[0]
        first.write_bytes(first.read_bytes()[:-100])
        reply = own.ask("/", "admin")
        assert (reply.status, b">8<" in reply.body, b">7<" in reply.body) == (200, True, False)
        own.service.tell_losses()
        assert ["cannot be read, and the jobs in it" in text for text in own.said] == [True]


def test_damaged_objects_of_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write there: the service says so, and goes on, or does not begin."""
    rng = random.Random(29)
    with open_bucket(monkeypatch) as bucket:
        more = {"bucket": bucket.url}
        with run_service(tmp_path, **more) as own:
            own.send_json("/api/jobs/start_job/", write_start(7, at=NOW - 7200))
            stopped = {"jobId": 7, "cluster": "c1", "stopTime": NOW, "jobState": "completed"}
            own.send_json("/api/jobs/stop_job/", stopped)
            own.service.store.checkpoint()
        for number, name in enumerate(bucket.list()):
            whole = bucket.get(name)
            cut = (
                b"",
                b"x",
                whole[:50],
                *(damage(whole, rng, whole)[1] for _ in range(20 if CAMPAIGNS else 2)),
            )
            # Each kind of damage, and each object damaged; all of all in a campaign.
            for made in cut if CAMPAIGNS else (cut[number % 3], cut[-1]):
                bucket.put(name, made)
                (tmp_path / "store" / "index.duckdb").unlink(missing_ok=True)
                with suppress(SightlineError), run_service(tmp_path, **more) as own:
                    for target in ("/", f"/job?id=c1/7/{NOW - 7200}", "/waste"):
                        assert own.ask(target, "admin").status in (200, 404, 503)
                    assert own.ask("/nodes", "admin").status == 200
                with suppress(SightlineError):
                    Store(tmp_path / f"other {name[:4]}", bucket=bucket.url, take_over=False)
            bucket.put(name, whole)
        for name in ("jobs/cluster=../day=2026-01-01/000000000001.parquet", "jobs/x.parquet",
                     "jobs/cluster=c1/day=2026-01-01/1.parquet", "other/owner"):  # fmt: skip
            with suppress(Exception):  # some the client refuses
                bucket.put(name, b"PAR1")
        with run_service(tmp_path, **more) as own:
            reply = own.ask("/", "admin")
            assert (reply.status, b">7<" in reply.body) == (200, True)


def test_a_bucket_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in is kept all the same, and pages say what they cannot show."""
    with open_bucket(monkeypatch) as bucket, run_service(tmp_path, bucket=bucket.url) as own:
        own.send_json("/api/jobs/start_job/", write_start(7, at=NOW - 7200))
        stopped = {"jobId": 7, "cluster": "c1", "stopTime": NOW, "jobState": "completed"}
        own.send_json("/api/jobs/stop_job/", stopped)
        own.service.store.checkpoint()
        assert own.ask("/", "admin").status == 200

        def fail(*_: object, **__: object) -> None:
            raise OSError("s3://jobs: the network is away")

        with monkeypatch.context() as patch:
            for name in ("get", "find", "put", "put_over", "save", "remove", "list"):
                patch.setattr(Objects, name, fail)
            patch.setattr(Bucket, "read", fail)
            sent = own.ask("/write", "ingest", "POST", b"cpu_load,hostname=n1 value=2")
            assert sent.status == 204
            assert own.send_json("/api/jobs/start_job/", write_start(8, at=NOW)).status == 201
            own.service._try("the store", own.service.store.checkpoint)
            reply = own.ask(f"/job?id=c1/7/{NOW - 7200}", "admin")
            assert reply.status == 503
            assert b"network is away" in reply.body
            for target in ("/", "/nodes", "/waste"):
                assert own.ask(target, "admin").status == 200
        assert any("the network is away" in text for text in own.said)
        own.service.store.checkpoint()
        assert own.ask(f"/job?id=c1/7/{NOW - 7200}", "admin").status == 200


def test_notes_with_a_changed_byte_are_opened_or_refused(tmp_path: Path) -> None:
    """Anywhere in the file: in the pages of tables as in what the library decodes."""
    place = tmp_path / "notes.sqlite"
    Notes(place).close()
    whole = place.read_bytes()
    refused = 0
    for at in range(0, len(whole), 61):
        place.write_bytes(whole[:at] + b"\xe2" + whole[at + 1 :])
        try:
            Notes(place).close()
        except InputError:
            refused += 1
    assert refused > 0


def test_a_store_at_a_place_with_signs(tmp_path: Path) -> None:
    for name in ("a[1]", "a*", "a'b", "a{x}", "ü x", "a?b"):
        folder = tmp_path / name
        folder.mkdir()
        try:
            with run_service(folder) as own:
                own.send_json("/api/jobs/start_job/", write_start(7, at=NOW))
                own.service.store.checkpoint()
                assert json.loads(own.ask("/api/jobs", "admin").body)["count"] == 1
        except InputError as error:
            assert name == "a?b", name
            assert "DuckDB" in str(error)
