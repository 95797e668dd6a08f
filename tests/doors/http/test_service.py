"""The service: what programs send and ask, what people see, and who may not."""

from __future__ import annotations

import gzip
import json
import time

import pytest

from sightline.cluster.points import PointReader
from sightline.subjects.jobs.job import GPU
from support.cluster_jobs import write_start
from support.cluster_service import PROXY, TOKENS, run_service

NOW = int(time.time())


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The service's wall clock stands: an hour that runs is an hour, whenever the test comes."""
    monkeypatch.setattr(time, "time", lambda: float(NOW))
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 10**9)


@pytest.fixture
def own(tmp_path):
    with run_service(tmp_path) as made:
        yield made


def begin(own, number: int, user: str = "ada", project: str = "physics", **more) -> str:
    document = write_start(number, at=NOW - 3600, gpus=1, user=user, project=project, **more)
    reply = own.send_json("/api/jobs/start_job/", document)
    assert reply.status == 201, reply.body
    return json.loads(reply.body)["id"]


def push(own, value: float = 50.0, host: str = "n1") -> None:
    lines = "\n".join(
        f"nv_util,hostname={host},type=accelerator,type-id=0 value={value} {NOW - 3600 + 10 * n}"
        for n in range(360)
    )
    assert own.ask("/write", "ingest", "POST", lines.encode()).status == 204


def test_a_job_as_its_scheduler_and_collector_say_it(own):
    key = begin(own, 4711)
    push(own)
    end = {"jobId": 4711, "cluster": "c1", "jobState": "completed", "stopTime": NOW}
    assert own.send_json("/api/jobs/stop_job/", end).status == 200
    own.service.store.checkpoint()
    said = json.loads(own.ask(f"/api/job?id={key}", "admin").body)
    assert said["used"]["acc_utilization/accelerator"] == 50.0
    assert (said["state"], said["gpu_hours"]) == ("completed", 1.0)
    listed = json.loads(own.ask("/api/jobs", "user").body)
    assert [job["job_id"] for job in listed["jobs"]] == ["4711"]


def test_what_goes_out_as_lines_comes_in_the_same(own, tmp_path):
    key = begin(own, 1)
    push(own, 61.5)
    sent = own.service.store.find_job(key).uses
    lines = own.ask(f"/api/lines?id={key}", "user").body
    with run_service(tmp_path / "other") as other:
        begin(other, 1)
        assert other.ask("/write", "ingest", "POST", lines).status == 204
        back = other.service.store.find_job(key).uses
    assert back.keys() == sent.keys()
    for name, use in sent.items():
        assert back[name].avg.tolist() == use.avg.tolist()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-wrong-wrong-wrong"},
        {"Authorization": f"Basic {TOKENS['ingest']}"},
        {"X_Auth_Token": ""},
        {"X_Remote_User": "root"},
        {"Cookie": "sightline="},
        {"Cookie": "sightline=x; sightline=y"},
    ],
)
@pytest.mark.parametrize("target", ["/write", "/api/write", "/api/jobs/start_job/"])
def test_nothing_is_taken_from_who_has_no_token(own, headers, target):
    reply = own.ask(target, None, "POST", b"cpu_load,hostname=n1 value=1", **headers)
    assert reply.status == 401
    assert own.service.store.live_samples == 0


@pytest.mark.parametrize("role", ["user", "manager", "support"])
def test_who_reads_sends_nothing_and_who_sends_reads_nothing(own, role):
    assert own.ask("/write", role, "POST", b"cpu_load,hostname=n1 value=1").status == 403
    for target in ("/", "/job?id=c1/1/1", "/api/jobs", "/waste", "/nodes"):
        assert own.ask(target, "ingest").status == 401


def test_each_role_sees_its_jobs_and_no_others(own):
    keys = {
        "own": begin(own, 1, "ada", "physics"),
        "physics": begin(own, 2, "bob", "physics"),
        "biology": begin(own, 3, "bob", "biology"),
    }
    sees = {"user": [1], "manager": [1, 2], "support": [1, 2, 3], "admin": [1, 2, 3]}
    for role, numbers in sees.items():
        listed = json.loads(own.ask("/api/jobs?sort=job", role).body)
        assert sorted(int(job["job_id"]) for job in listed["jobs"]) == numbers, role
        assert listed["count"] == len(numbers)
        for number, key in enumerate(keys.values(), 1):
            shown = number in numbers
            assert (own.ask(f"/job?id={key}", role).status == 200) == shown, (role, number)
            assert (own.ask(f"/api/job?id={key}", role).status == 200) == shown
            assert (own.ask(f"/api/lines?id={key}", role).status == 200) == shown
            other = own.ask(f"/compare?a={key}&b={keys['own']}", role)
            assert (other.status == 200) == shown
        for page in ("waste", "owners"):
            text = own.ask(f"/{page}", role).body.decode()
            assert ("bob" in text) == (role != "user"), (role, page)
            if page == "owners" or 3 not in numbers:
                assert ("biology" in text) == (3 in numbers), (role, page)
    # A filter asks for less, never for more.
    assert json.loads(own.ask("/api/jobs?user=bob", "user").body)["count"] == 0
    assert own.ask("/nodes", "user").status == 404


def test_a_proxys_header_counts_only_from_the_proxy(own):
    begin(own, 1, "grace")
    assert own.ask("/", None, X_Remote_User="root").status == 401
    assert b"grace" in own.ask("/", None, peer=PROXY, X_Remote_User="root").body
    assert b"grace" in own.ask("/", None, peer=f"::ffff:{PROXY}", X_Remote_User="grace").body
    assert own.ask("/", None, peer=PROXY).status == 401
    assert own.ask("/", None, peer=PROXY, X_Remote_User="a b\n").status == 401


def test_a_browser_signs_in_and_out(own):
    assert own.ask("/enter?token=short").status == 403
    assert own.ask(f"/enter?token={TOKENS['ingest']}").status == 403
    reply = own.ask(f"/enter?token={TOKENS['user']}")
    assert (reply.status, "Set-Cookie" in reply.headers) == (200, False)
    assert b"Sign in as ada" in reply.body
    reply = own.post("/enter", None, {"token": TOKENS["user"]})
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite" in cookie
    sent = {"Cookie": cookie.partition(";")[0]}
    assert own.ask("/", None, **sent).status == 200
    form = {"form": own.sign("user")}
    assert own.post("/leave", None, form, **sent).status == 303
    assert own.ask("/", None, **sent).status == 401


def test_forms_of_other_sites_change_nothing(own):
    key = begin(own, 1)
    good = {"form": own.sign("user"), "id": key, "tag": "t"}
    for fields, headers in (
        ({**good, "form": ""}, {}),
        ({**good, "form": own.sign("admin")}, {}),
        (good, {"Origin": "http://evil.example", "Host": "127.0.0.1"}),
        (good, {"Sec_Fetch_Site": "cross-site"}),
        (good, {"Content_Type": "text/plain"}),
    ):
        assert own.post("/tag", "user", fields, **headers).status in (400, 403)
    assert own.post("/tag", "user", good).status == 303
    assert b">t<" in own.ask(f"/job?id={key}", "user").body
    # Somebody else's job is nobody's to tag; tags for all are support's.
    other = begin(own, 2, "bob", "biology")
    assert own.post("/tag", "user", {**good, "id": other}).status == 400
    assert own.post("/tag", "user", {**good, "scope": "global"}).status == 400
    form = {**good, "form": own.sign("support"), "scope": "global", "tag": "shared"}
    assert own.post("/tag", "support", form).status == 303
    assert b"shared" in own.ask("/?tag=shared", "user").body
    assert json.loads(own.ask("/api/jobs?tag=shared", "user").body)["count"] == 1
    assert json.loads(own.ask("/api/jobs?tag=t", "support").body)["count"] == 0  # it is ada's


def test_bodies_are_bounded(own):
    line = b"cpu_load,hostname=n1 value=1\n"
    packed = gzip.compress(line * 10)
    assert own.ask("/write", "ingest", "POST", packed, Content_Encoding="gzip").status == 204
    bomb = gzip.compress(bytes(70 << 20))
    for body, coding in (
        (bomb, "gzip"),
        (packed[:-5], "gzip"),
        (b"\x1f\x8bxxxx", "gzip"),
        (line, "br"),
    ):
        reply = own.ask("/write", "ingest", "POST", body, Content_Encoding=coding)
        assert reply.status == 400, coding
    deep = b"[" * 200_000
    assert own.ask("/api/jobs/start_job/", "ingest", "POST", deep).status == 400


def test_a_batch_with_wrong_lines_keeps_the_others_and_says_so(own):
    body = b"cpu_load,hostname=n1 value=1\ncpu_load value=1\n../x,hostname=n1 value=1"
    reply = own.ask("/write", "ingest", "POST", body)
    assert reply.status == 400
    assert "2 lines of 3" in json.loads(reply.body)["error"]
    assert own.service.store.live_samples == 1


def test_a_full_disk_is_said_to_the_sender(own, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(own.service.store._journal, "append", fail)
    assert own.ask("/write", "ingest", "POST", b"cpu_load,hostname=n1 value=1").status == 507


def test_pages_have_what_a_job_needs(own):
    key = begin(own, 4711, metaData={"jobName": "training"})
    push(own, 3.0)
    own.service.running.refresh()
    listed = own.ask("/", "user").body.decode()
    assert "4711" in listed
    assert "GPUs of a job had little to do" in listed
    page = own.ask(f"/job?id={key}", "user").body.decode()
    for text in ("training", "acc_utilization", "Radar", "Next", "1.0 GPU hours"):
        assert text in page, text
    assert page.count('<svg class="plot') == 2  # the radar, and one metric
    policy = own.ask("/", "user").headers["Content-Security-Policy"]
    assert "script" not in policy


def test_a_recording_is_asked_for_once_and_its_report_linked(tmp_path):
    from sightline.cluster.config import Tracing

    command = ("sh", "-c", 'mkdir "$2"; echo "$0 $1" > "$2/said"', "{job}", "{hosts}", "{output}")
    with run_service(tmp_path, tracing=Tracing(command)) as own:
        key = begin(own, 4711, hosts=("n1", "n2"))
        other = begin(own, 4712, "bob", "physics")
        fields = {"form": own.sign("user"), "id": key}
        assert b"Record it" in own.ask(f"/job?id={key}", "user").body
        assert own.post("/record", "user", fields).status == 303
        # A manager sees the job, and may not stop its processes to look into them.
        refused = {"form": own.sign("manager"), "id": other}
        assert own.post("/record", "manager", refused).status == 403
        deadline = time.monotonic() + 20
        while own.service.notes.list_traces(key)[0].state == "asked":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        trace = own.service.notes.list_traces(key)[0]
        assert (trace.state, trace.by) == ("done", "ada")
        said = tmp_path / "store" / "traces" / f"{trace.id}.sightline" / "said"
        assert said.read_text() == "4711 n1,n2\n"
        reply = own.ask(f"/trace?n={trace.id}", "user")
        assert reply.body == b"<p>a report"
        assert reply.headers["Content-Security-Policy"].startswith("sandbox")
        assert own.ask(f"/trace?n={trace.id}", "support").status == 200
        assert f"/trace?n={trace.id}" in own.ask(f"/job?id={key}", "user").body.decode()
        assert own.ask("/trace?n=999", "user").status == 404


def test_a_rule_has_a_job_recorded_once(tmp_path):
    from sightline.cluster.config import Tracing

    tracing = Tracing(("mkdir", "{output}"), ("job-underused-gpus",))
    with run_service(tmp_path, tracing=tracing) as own:
        key = begin(own, 1)
        healthy = begin(own, 2, hosts=("n2",))
        push(own, 5.0)
        push(own, 90.0, "n2")
        for _ in range(3):
            own.service.running.refresh(own.service.tracer.heed)
        deadline = time.monotonic() + 20
        while own.service.notes.list_traces(key)[0].state == "asked":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        traces = own.service.notes.list_traces(key)
        assert [(t.state, t.by, t.why) for t in traces] == [("done", "rule", "job-underused-gpus")]
        assert own.service.notes.list_traces(healthy) == []


def test_by_a_socket(own):
    connection = own.connect()
    body = b"cpu_load,hostname=n1 value=1"
    head = {"Authorization": f"Bearer {TOKENS['ingest']}"}
    for _ in range(3):  # one connection, kept
        connection.request("POST", "/write", body, head)
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (204, b"")
    connection.request("GET", "/health")
    assert json.loads(connection.getresponse().read())["status"] == "pass"
    connection.close()
    for headers, status in (
        ({"Host": "evil.example"}, 403),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "99999999"}, 413),
        ({"Content-Length": "-1"}, 400),
    ):
        connection = own.connect()
        connection.request("GET", "/", headers=headers)
        assert connection.getresponse().status == status
        connection.close()


def test_units_of_a_site_and_of_a_line():
    read = PointReader({"mem_used": "KB"}).read
    batch = read(
        b"mem_used,hostname=n1 value=5 1\nmem_used,hostname=n1,unit=MB value=5 1\n"
        b"mem_bw,hostname=n1 value=2 1\nmy_own,hostname=n1,unit=MB/s value=2 1",
        "c1",
    )
    assert batch.values == [5e3, 5e6, 2e9, 2e6]
    assert [one.unit for one in batch.series] == ["bytes", "bytes", "bytes/s", "bytes/s"]
    assert batch.series[0].scope != GPU
