"""The served page's answers against the tables, and who is refused."""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import shutil
import signal
import struct
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest

import sightline as door
from sightline.answer.sql import Bounds, answer_query
from sightline.core.model import run as model_run
from sightline.errors import RequestError, StoreError
from sightline.views import serve
from sightline.views.html.timeline.tracks import HOST_CLASS
from sightline.views.serve import Server, answers, names, panels, service
from sightline.views.serve.build import build_index
from sightline.views.serve.index import Index
from sightline.views.serve.names import add_up_names
from sightline.views.serve.view import window
from support import traces
from support.campaigns import CAMPAIGNS
from support.html_pages import read_data
from synth import SCENARIOS, kineto
from synth_ncu import Kernel, report
from web import million

EVENTS = 9_000
HEAD = {"Host": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    million.write(folder / "m.sightline", EVENTS)
    return door.open(str(folder / "m.sightline"))


@pytest.fixture(scope="module")
def index(run, tmp_path_factory) -> Index:
    return build_index(run, tmp_path_factory.mktemp("index"))


def scenario(name: str, folder: Path) -> tuple[object, Index]:
    opened = door.open(*map(str, kineto.write(SCENARIOS[name](), folder, dialect="2025")))
    (folder / "index").mkdir()
    return opened, build_index(opened, folder / "index")


def held(index: Index) -> pl.DataFrame:
    """Every event of the index, lane by lane."""
    rows = [
        (
            number,
            lane.track,
            lane.level,
            place,
            *(index.columns[c][place] for c in ("start", "end", "name", "class", "id")),
        )
        for number, lane in enumerate(index.lanes)
        for a, b in lane.extents
        for place in range(a, b)
    ]
    names = ["lane", "track", "level", "place", "start", "end", "name", "class", "id"]
    return pl.DataFrame(rows, schema=names, orient="row")


def parsed(body: bytes) -> dict[str, tuple[float, ...]]:
    head, _, rest = body.partition(b"\n")
    sizes = json.loads(head)["n"]
    n, found, at = sum(sizes), {"n": tuple(sizes)}, 0
    for name, code in (
        ("id", "d"),
        ("start", "d"),
        ("length", "d"),
        ("busy", "d"),
        ("name", "I"),
        ("count", "I"),
        ("class", "B"),
    ):
        size = struct.calcsize(f"<{n}{code}")
        found[name] = struct.unpack(f"<{n}{code}", rest[at : at + size])
        at += size
    assert at == len(rest)
    return found


# -- the index ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [4_000_000, 700])
def test_every_row_is_there_once_and_lanes_do_not_overlap(run, tmp_path, part):
    index = build_index(run, tmp_path, part=part)
    events = held(index)
    for table, column, on_device in (
        ("device_ops", "device_op_id", True),
        ("host_ops", "host_op_id", False),
    ):
        mine = events.filter((pl.col("class") < 3) == on_device).sort("id")
        rows = run.table(table).sort(column)
        assert mine.get_column("id").to_list() == rows.get_column(column).to_list()
        for name, own in (("start_ns", "start"), ("end_ns", "end")):
            wanted = (rows.get_column(name) - index.origin_ns).to_list()
            assert mine.get_column(own).to_list() == wanted
        names = [index.names[i] for i in mine.get_column("name")]
        assert names == rows.get_column("name").to_list()
    gaps = events.select(
        (pl.col("start") >= pl.max_horizontal("end", pl.col("start") + 1).shift(1)).over("lane")
    )
    assert gaps.to_series().drop_nulls().all()
    for place in random.Random(1).sample(range(index.events), 50):
        row = events.row(by_predicate=pl.col("place") == place, named=True)
        assert index.lane_of(place) == row["lane"]
        assert index.find(row["track"], row["level"], row["start"], row["id"]) == place


def test_a_window_states_every_event_that_it_touches(index):
    events = held(index)
    rng = random.Random(2)
    lanes = range(len(index.lanes))
    for share in (1.0, 0.1, 0.003):
        first = rng.randrange(int(index.length_ns * (1 - share)) + 1)
        last = first + int(index.length_ns * share)
        inside = events.filter(pl.col("start") <= last, pl.col("end") >= first)
        for column in (0.1, 900.0, 123_456.0):
            got = parsed(window(index, first, last, column, lanes))
            # A mark may reach beyond the last moment; what it states more starts in its column.
            more = events.filter(pl.col("start") > last, pl.col("start") <= last + column)
            assert inside.height <= sum(got["count"]) <= inside.height + more.height
            busy = (inside.get_column("end") - inside.get_column("start")).sum()
            assert busy <= sum(got["busy"]) <= busy + (more["end"] - more["start"]).sum()
            alone = [n for n, c in zip(got["length"], got["count"], strict=True) if c > 1]
            assert all(n < 2 * column for n in alone)
            if column == 0.1:
                assert set(got["count"]) == {1}
                assert sorted(got["id"]) == inside.get_column("place").sort().to_list()


def test_too_much_at_once_is_refused(index):
    with pytest.raises(RequestError, match="more than 100"):
        window(index, 0, index.length_ns, 0.1, [0], most=100)


# -- answers --------------------------------------------------------------------------------------


def test_the_breakdown_is_that_of_the_analysis(tmp_path):
    run, index = scenario("exposed_communication", tmp_path)
    for row, span in zip(
        run.ask("breakdown").rows(named=True), run.ask("windows").rows(named=True), strict=True
    ):
        first, last = (span[f"window_{e}_ns"] - index.origin_ns for e in ("start", "end"))
        found = answers.breakdown(index, first, last)
        own = next(
            d
            for d in found["devices"]
            if (d["rank"], d["device"]) == (row["rank"], row["device_id"])
        )
        parts = [own[p] for p in ("compute", "comm", "copy", "idle")]
        assert parts == [
            row[f"{p}_ns"] for p in ("compute", "exposed_comm", "exposed_copy", "idle")
        ]
    # Parts of a range add up to the whole.
    middle = index.length_ns // 3
    whole, left, right = (
        answers.breakdown(index, a, b)["devices"]
        for a, b in ((0, index.length_ns), (0, middle), (middle, index.length_ns))
    )
    for w, a, b in zip(whole, left, right, strict=True):
        assert all(w[p] == a[p] + b[p] for p in ("compute", "comm", "copy", "idle"))
    assert len(answers.overview(index)[0]) == answers.SLICES


def names_of_rows(
    run, index: Index, table: str, first: int, last: int
) -> list[tuple[int, int, int]]:
    """The plain way: every row of the table, cut to the range."""
    a, b = first + index.origin_ns, last + index.origin_ns
    inside = pl.min_horizontal("end_ns", pl.lit(b)) - pl.max_horizontal("start_ns", pl.lit(a))
    rows = (
        run.scan(table)
        .filter(pl.col("start_ns") < b, pl.col("end_ns") > a)
        .group_by("name")
        .agg(count=pl.len(), time=inside.sum())
        .filter(pl.col("time") > 0)
        .collect()
    )
    return sorted((index.names.index(name), count, time) for name, count, time in rows.rows())


def check_names(run, index: Index, ranges: int) -> None:
    rng, end = random.Random(4), index.length_ns
    edges = [index.sums[0].width * i for i in (1, 2, 5)]
    starts = [row[0] - index.origin_ns for row in run.scan("device_ops").select("start_ns").head(3)
              .collect().rows()]  # fmt: skip
    moments = [-5, 0, 1, *edges, *starts, end - 1, end, end + 10]
    pairs = [(0, end), (-5, end + 10), (edges[0], edges[1]), (starts[1], starts[2]), (0, 1)]
    while len(pairs) < ranges:
        first, last = sorted(rng.choice([*moments, rng.randrange(end)]) for _ in range(2))
        pairs += [(first, last)] if first < last else []
    for first, last in pairs:
        for table in ("device_ops", "host_ops"):
            found = sorted(add_up_names(index, table, first, last))
            assert found == names_of_rows(run, index, table, first, last), (table, first, last)


@pytest.mark.parametrize(("least", "most"), [(4_096, 2_500_000), (10, 2_500_000), (10, 3_000)])
def test_names_of_a_range_are_those_of_its_rows(run, tmp_path, monkeypatch, least, most):
    monkeypatch.setattr(names, "LEAST", least)
    monkeypatch.setattr(names, "MOST_SUMS", most)
    check_names(run, build_index(run, tmp_path, part=700), 15)


def test_names_of_ranks_and_of_events_without_length_are_those_of_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(names, "LEAST", 3)
    run, _ = scenario("exposed_communication", tmp_path)
    rows = run.table("host_ops").with_columns(
        end_ns=pl.when(pl.col("host_op_id") % 3 == 0).then("start_ns").otherwise("end_ns")
    )
    plain = model_run.Run.scan

    def scan(self, name: str, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        own = rows.lazy().filter(pl.col("rank").is_in([part.rank for part in self.parts]))
        return own if name == "host_ops" else plain(self, name, columns)

    monkeypatch.setattr(model_run.Run, "scan", scan)
    (tmp_path / "odd").mkdir()
    check_names(run, build_index(run, tmp_path / "odd"), 15)


@pytest.mark.skipif(not CAMPAIGNS, reason="a million events: SIGHTLINE_CAMPAIGNS=1")
def test_names_of_a_range_of_a_million_events_are_those_of_its_rows(tmp_path):
    million.write(tmp_path / "m.sightline", 1_000_000)
    run = door.open(str(tmp_path / "m.sightline"))
    (tmp_path / "index").mkdir()
    check_names(run, build_index(run, tmp_path / "index"), 100)


@pytest.mark.parametrize("block", [1, 7, 1 << 10])
def test_next_and_previous_are_the_nearest_in_time(index, block):
    blocks = {"first_block": block, "most_at_once": 8 * block}
    events = held(index).sort("start", "place")
    rng = random.Random(block)
    for _ in range(12):
        codes = rng.sample(range(len(index.names)), rng.randrange(1, 4))
        same = events.filter(pl.col("name").is_in(codes))
        places = list(zip(same["start"], same["place"], strict=True))
        at = rng.choice(places)
        for here in (at, (at[0] + rng.randrange(-500, 500), -1)):
            after = min((p for p in places if p > here), default=(0, None))
            before = max((p for p in places if p < here), default=(0, None))
            assert answers.find_following(index, *here, codes, 1, **blocks) == after[1]
            assert answers.find_following(index, *here, codes, -1, **blocks) == before[1]


def test_of_events_at_one_moment_the_next_is_that_of_the_next_place(tmp_path):
    events = [traces.op(f"aten::op{i % 4}", 10 * (i // 3), 5, tid=1 + i % 3) for i in range(60)]
    opened = door.open(str(traces.write(tmp_path, events)))
    (tmp_path / "index").mkdir()
    index = build_index(opened, tmp_path / "index")
    starts = list(index.columns["start"])
    assert len(starts) > len(set(starts))
    every = range(len(index.names))
    here, seen = (-1, -1), []
    while (found := answers.find_following(index, *here, every, 1)) is not None:
        seen.append(found)
        here = (starts[found], found)
    assert seen == sorted(range(len(starts)), key=lambda place: (starts[place], place))


def test_a_kernel_knows_its_call_and_the_call_its_kernel(run, index):
    events = held(index)
    kernel = events.filter(pl.col("class") < 3).row(100, named=True)
    found = answers.facts(run, index, kernel["place"])
    assert "grid: " in found["details"]
    launch = run.table("device_ops").filter(device_op_id=kernel["id"]).item(0, "launch_id")
    assert index.columns["id"][found["call"]["id"]] == launch
    assert [index.names[e["name"]][:6] for e in found["around"]] == ["aten::", "Profil"]
    back = answers.facts(run, index, found["call"]["id"])
    assert [e["id"] for e in back["launched"]] == [kernel["place"]]


def test_instances_are_counted_as_the_analysis_counts(run, index):
    row = run.ask("kernels").row(0, named=True)
    found = answers.instances(index, row["name"])
    assert found["count"] == sum(found["bins"]) == row["instances"]
    assert found["high"] == row["max_ns"]
    longest = found["longest"]
    assert longest["end"] - longest["start"] == row["max_ns"]
    assert answers.instances(index, "no such kernel")["count"] == 0


@pytest.mark.parametrize("part", [4_000_000, 700])
def test_lengths_of_all_names_are_those_of_their_rows(run, tmp_path, part):
    index = build_index(run, tmp_path, part=part)
    rows = run.table("device_ops").with_columns(n=pl.col("end_ns") - pl.col("start_ns"))
    for (name,), own in rows.group_by("name"):
        lengths = own.get_column("n")
        found = answers.instances(index, name)
        low, high = max(lengths.min(), 1), max(lengths.max(), lengths.min() + 1, 2)
        assert (found["count"], found["low"], found["high"]) == (own.height, low, high)
        bins = answers.bin_count(low, high)
        edges = [math.log(max(n, low) / low) / math.log(high / low) * bins for n in lengths]
        wanted = Counter(max(0, min(bins - 1, math.floor(edge))) for edge in edges)
        # A length on an edge may fall on either side of it, as logarithms are rounded.
        assert sum(abs(found["bins"][i] - wanted[i]) for i in range(bins)) <= 2
        assert len(found["bins"]) == bins
        first = (
            own.filter(pl.col("n") == lengths.max())
            .sort("start_ns", "device_op_id")
            .row(0, named=True)
        )
        assert found["longest"]["start"] == first["start_ns"] - index.origin_ns
        assert index.names[found["longest"]["name"]] == name


def test_a_panel_that_would_not_fit_is_made_of_the_middle(run, index, monkeypatch):
    monkeypatch.setattr(panels, "available_bytes", lambda: 2_000_000)
    monkeypatch.setattr(panels, "LEAST_OF_A_PART", 1_000)
    asked = service.Service(run, index)
    whole = json.loads(asked.answer("panel", {"name": "kernels"})[1])
    assert whole["part"] is None  # it takes a twentieth
    found = json.loads(asked.answer("panel", {"name": "ops"})[1])
    first, last = found["part"]
    starts = held(index).get_column("start")
    inside = starts.is_between(first, last, closed="left").sum()
    assert 900 < inside <= 1_194  # what there is memory for
    assert (starts < first).sum() == pytest.approx((starts >= last).sum(), rel=0.2)
    note = found["blocks"][0]["text"]
    assert note.startswith(f"Made of {inside:,} of {index.events:,} events: those from ")
    assert note.endswith("would take about 5.401 MB of memory, more than is free.")
    # What it says is what those rows say.
    calls = run.table("host_ops").with_columns(pl.col("start_ns", "end_ns") - index.origin_ns)
    calls = calls.filter(pl.col("start_ns") < last, pl.col("end_ns") > first, layer="op")
    table = next(block for block in found["blocks"] if block["kind"] == "table")
    (counts,) = (column["values"] for column in table["columns"] if column["name"] == "instances")
    assert sum(counts) == calls.height
    # The findings are those of the same part.
    marks = json.loads(asked.answer("marks", {})[1])
    assert isinstance(marks, list)


def test_a_panel_of_a_range_that_a_person_chose(run, index, monkeypatch):
    asked = service.Service(run, index)
    length = index.length_ns
    query = {"name": "kernels", "from": str(length // 4), "to": str(length // 2)}
    found = json.loads(asked.answer("panel", query)[1])
    assert found["part"] == [length // 4, length // 2]
    assert found["blocks"][0]["text"].endswith("the range that you chose.")
    ops = run.table("device_ops").with_columns(pl.col("start_ns", "end_ns") - index.origin_ns)
    ops = ops.filter(pl.col("start_ns") >= length // 4, pl.col("end_ns") <= length // 2)
    table = next(block for block in found["blocks"] if block["kind"] == "table")
    (counts,) = (column["values"] for column in table["columns"] if column["name"] == "instances")
    assert sum(counts) == ops.height
    with pytest.raises(RequestError, match="no event begins in this range"):
        asked.answer("panel", {**query, "from": str(length + 5), "to": str(length + 9)})
    monkeypatch.setattr(panels, "MOST_OF_A_PART", 100)
    monkeypatch.setattr(panels, "LEAST_OF_A_PART", 1)
    with pytest.raises(RequestError, match="more than 100"):
        asked.answer("panel", query)


@pytest.mark.parametrize("most", [0, 1, 50, 5_000, 10**9])
def test_the_middle_holds_as_much_as_it_may(index, most):
    first, last = index.find_middle(most)
    starts = held(index).get_column("start")
    count = starts.is_between(first, last, closed="left").sum()
    assert count == index.count_between(first, last)
    wider = starts.is_between(first - 1, last + 1, closed="left").sum()
    assert count <= max(most, index.count_between(first, first + 2))
    assert wider > most or count == index.events


@pytest.mark.campaign
def test_a_large_runs_panels_are_made_apart_once_and_say_the_same(run, index, monkeypatch):
    wanted = service.Service(run, index)
    own = {name: wanted.panels.find(name) for name in ("kernels", panels.MARKS)}
    monkeypatch.setattr(panels, "HELD_BYTES", 0)
    fresh = door.open(str(run.parts[0].store))
    asked = service.Service(fresh, index)
    for name, text in own.items():
        made, wanted_text = json.loads(asked.panels.find(name)), json.loads(text)
        if name != panels.MARKS:
            assert made.pop("large")
            assert not wanted_text.pop("large")
        assert made == wanted_text
    assert not fresh._tables  # nothing was read here
    assert not asked.panels._texts  # nor is held
    monkeypatch.setattr(panels.Panels, "make_text", lambda *_: pytest.fail("made again"))
    again = service.Service(door.open(str(run.parts[0].store)), index)
    assert again.panels.find("kernels") == asked.panels.find("kernels")


def test_some_columns_of_a_large_table_say_what_all_do(run, monkeypatch):
    asked = ("windows", "kernels", "memcpy")
    plain = [door.open(str(run.parts[0].store)).ask(name) for name in asked]
    monkeypatch.setattr(model_run, "MANY_ROWS", 0)
    fresh = door.open(str(run.parts[0].store))
    assert [fresh.ask(name).rows() for name in asked] == [frame.rows() for frame in plain]
    assert not fresh._tables


def test_a_report_of_large_tables_is_the_same(run, monkeypatch):
    plain = door.open(str(run.parts[0].store)).report()
    monkeypatch.setattr(model_run, "MANY_ROWS", 0)
    assert door.open(str(run.parts[0].store)).report() == plain
    assert plain["findings"]


def test_a_panels_process_that_is_ended_is_said_to_be(run, index, monkeypatch):
    monkeypatch.setattr(panels, "HELD_BYTES", 0)
    monkeypatch.setattr(panels, "answer_apart", _end_at_once)
    with pytest.raises(RequestError, match="ended before it was done: most often the system"):
        service.Service(run, index).answer("panel", {"name": "idle"})


def _end_at_once(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_of_a_panels_process_is_the_answer(run, index, monkeypatch, tmp_path):
    monkeypatch.setattr(panels, "HELD_BYTES", 0)
    shutil.copytree(run.parts[0].store, tmp_path / "cut.sightline")
    cut = door.open(str(tmp_path / "cut.sightline"))
    for path in (tmp_path / "cut.sightline" / "device_ops").rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(StoreError, match="device_ops"):
        service.Service(cut, index).answer("panel", {"name": "kernels"})


# -- who may ask ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(run, index):
    running = Server(service.Service(run, index))
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict, bytes]:
    """Status, headers and body; the Host header is the right one unless given."""
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    given = {"Host": f"127.0.0.1:{port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    for name, value in given.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def base(server: Server) -> str:
    return urlsplit(server.url).path


@pytest.mark.pages
def test_the_page_is_given_to_who_has_the_token(server):
    status, headers, body = ask(server, base(server))
    assert status == 200
    assert b"connect-src 'self'" in body
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/window", "/x/", "/{}x/", "/%2e%2e/"])
def test_another_token_is_refused(server, path):
    assert ask(server, path.format(server.token))[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # made to resolve to this machine: DNS rebinding
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "192.168.1.7:8000"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another server of this machine
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Dest": "image"},
    ],
)
def test_other_hosts_and_origins_are_refused(server, headers):
    assert ask(server, base(server), **headers)[0] == 403
    assert ask(server, base(server), method="POST", **headers)[0] == 403


def test_the_page_itself_may_ask(server):
    port = server.server_address[1]
    for host in (f"127.0.0.1:{port}", "localhost:9000", f"[::1]:{port}"):
        own = {"Host": host, "Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert ask(server, f"{base(server)}event?id=0", **own)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_only_get_is_answered(server, method):
    status, headers, _ = ask(server, base(server), method=method)
    assert (status, headers.get("Allow")) == (405, "GET")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "run.json",
        "start",
        "..%5c..%5cx",
        "window/../panel",
    ],
)
def test_no_path_is_a_file(server, name):
    status, _, body = ask(server, base(server) + name)
    assert status == 404
    assert b"root:" not in body


@pytest.mark.parametrize(
    "query",
    [
        "window?from=0&to=9&column=nan&lanes=0",
        "window?from=9&to=0&column=1&lanes=0",
        "window?from=0&to=9&column=1&lanes=99",
        "window?from=1_0&to=99&column=1&lanes=0",
        "window",
        "event?id=-1",
        "event?id=999999999",
        "event?id=1e3",
        "panel?name=timeline",
        "panel?name=..",
        "next?at=0&after=0&name=99999",
        "breakdown?from=0&to=" + "9" * 30,
    ],
)
def test_a_wrong_question_is_an_error_in_words(server, query):
    status, _, body = ask(server, base(server) + query)
    assert status == 400, body
    assert json.loads(body)["error"]


@pytest.mark.pages
def test_a_run_without_a_device_or_with_markup_in_its_names(tmp_path):
    evil = "</script><script>window.owned=1</script>"
    trace = traces.write(tmp_path, [traces.op(evil, 1, 90), traces.op("aten::mm", 2, 3)])
    run = door.open(str(trace))
    (tmp_path / "index").mkdir()
    index = build_index(run, tmp_path / "index")
    kind, body = service.Service(run, index).answer("", {})
    assert kind.startswith("text/html")
    assert evil.encode() not in body
    assert index.events == run.rows("host_ops")
    assert max(answers.overview(index)[HOST_CLASS["op"]]) > 0.5


@pytest.mark.pages
def test_a_recording_without_a_timeline_has_the_other_panels(tmp_path):
    (tmp_path / "k.ncu-rep").write_bytes(
        report([Kernel(metrics={"gpu__time_duration.sum": 1000.0})])
    )
    run = door.open(str(tmp_path / "k.ncu-rep"))
    (tmp_path / "index").mkdir()
    asked = service.Service(run, build_index(run, tmp_path / "index"))
    _, page = asked.answer("", {})
    names = [panel["name"] for panel in read_data(page)["panels"]]
    assert "kernels" in names
    assert "timeline" not in names
    _, panel = asked.answer("panel", {"name": "recording"})
    assert json.loads(panel)["blocks"][0]["title"] == "Recordings"


# -- the index is kept ----------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SIGHTLINE_CACHE", str(folder))
    return folder


def count_builds(monkeypatch) -> list[int]:
    built = []

    def counted(run, folder, say):
        built.append(1)
        return build_index(run, folder, say)

    monkeypatch.setattr(serve, "build_index", counted)
    return built


def test_the_second_server_takes_the_index_of_the_first(run, cache, monkeypatch):
    built = count_builds(monkeypatch)
    first, second = serve.prepare_index(run), serve.prepare_index(run)
    assert built == [1]
    assert held(second).equals(held(first))
    assert (second.keys, second.lanes, second.covers) == (first.keys, first.lanes, first.covers)
    everything = (0, second.length_ns, second.length_ns / 800, range(len(second.lanes)))
    assert window(second, *everything) == window(first, *everything)
    assert len(list(cache.rglob("serve-*"))) == 1


@pytest.mark.parametrize("damage", ["no json", "cut off", "gone"])
def test_a_damaged_index_is_made_again(run, cache, monkeypatch, damage):
    built = count_builds(monkeypatch)
    whole = held(serve.prepare_index(run))
    (entry,) = cache.rglob("serve-*")
    if damage == "no json":
        (entry / "index.json").write_text("{")
    elif damage == "cut off":
        (entry / "end").write_bytes((entry / "end").read_bytes()[:800])
    else:
        (entry / "start").unlink()
    assert held(serve.prepare_index(run)).equals(whole)
    assert built == [1, 1]


def test_a_cache_that_cannot_be_written_is_done_without(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "file" / "cache"))
    assert serve.prepare_index(run).events == run.rows("device_ops") + run.rows("host_ops")


def test_a_full_disk_is_said(run, cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(serve, "build_index", full)
    with pytest.raises(StoreError, match=r"(?i)no space left on device") as told:
        serve.prepare_index(run)
    assert "SIGHTLINE_CACHE" in str(told.value.hint)
    assert list(cache.rglob("serve-*")) == []
    assert list(cache.rglob("work")) == []


# -- SQL ------------------------------------------------------------------------------------------


def test_a_query_is_answered_with_every_digit(run, index):
    asked = service.Service(run, index)
    query = (
        "SELECT count(*) AS n, 9007199254740993 AS large, 1.5 AS half, DATE '2024-05-06' AS day, "
        "NULL AS nothing FROM host_ops"
    )
    kind, body = asked.answer("sql", {"q": query})
    block = json.loads(body)["blocks"][0]
    columns = {c["name"]: (c["unit"], c["values"]) for c in block["columns"]}
    assert kind.startswith("application/json")
    assert block["title"] == "1 row"
    assert columns == {
        "n": ("id", [run.rows("host_ops")]),
        "large": ("", ["9007199254740993"]),  # no number of the page holds it
        "half": ("", [1.5]),
        "day": ("", ["2024-05-06"]),
    }


def test_a_query_has_bounds(run, index, tmp_path, monkeypatch):
    asked = service.Service(run, index)
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for query in (f"SELECT * FROM read_csv('{secret}')", "SELEC 1", "", "x" * 20_000):
        with pytest.raises(RequestError):
            asked.answer("sql", {"q": query})
    few = Bounds(rows=7, seconds=600, memory_bytes=2_000_000_000)
    monkeypatch.setattr(service, "BOUNDS", few)
    block = json.loads(asked.answer("sql", {"q": "SELECT * FROM range(100)"})[1])["blocks"][0]
    assert (block["title"], block["rows"]) == ("The first 7 rows", 7)


def test_a_query_that_never_ends_is_stopped(run):
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    with pytest.raises(RequestError, match=r"longer than 0\.2 s"):
        answer_query(run, endless, bounds=Bounds(5, 0.2, 2_000_000_000))
    with pytest.raises(RequestError, match=r"(?i)memory"):
        answer_query(
            run, "SELECT list(range) FROM range(50000000)", bounds=Bounds(5, 600, 50_000_000)
        )
