"""Windows for servers of profiles: read back by other decoders, and servers that refuse or lie."""

from __future__ import annotations

import gzip
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sightline.capture.profile_push import (
    Target,
    Window,
    encode_window,
    find_refusal,
    list_pushed,
    name_labels,
    push_window,
    read_target,
)
from sightline.compare.sides import open_side
from sightline.core.protobuf import declare_messages
from sightline.errors import InputError, RequestError
from sightline.flames.stacks import stack_paths
from sightline.history.profiles import add_window
from support.command import sightline
from support.many_ranks import Program, write_ranks

BEGIN_NS, LENGTH_NS = 1_700_000_000 * 10**9, 200_000_000
STACKS = stack_paths(
    [
        ((("python", "train"), ("kernel", "gemm")), "exact", {"gpu_time_ns": 30}),
        ((("python", "train"), ("kernel", "add")), "exact", {"gpu_time_ns": 12}),
    ]
)
LABELS = {"job": "4711", "node": "n1", "9 lives": "<b>"}
WINDOW = Window(STACKS, BEGIN_NS, LENGTH_NS, LABELS)
# The servers' own schemas, and pprof's, written down again: what is sent is not read by its writer.
THEIRS = declare_messages(
    """
PyroscopePush: 1 series []PyroscopeSeries
PyroscopeSeries: 1 labels []Pair, 2 samples []Raw
ParcaWrite: 1 tenant text, 2 series []ParcaSeries, 3 normalized bool
ParcaSeries: 1 labels Set, 2 samples []Raw
Set: 1 labels []Pair
Pair: 1 name text, 2 value text
Raw: 1 raw_profile bytes
Profile: 1 sample_type []Kind, 2 sample []Sample, 4 location []Location, 5 function []Function,
    6 string_table []text, 9 time_nanos int, 10 duration_nanos int, 11 period_type Kind,
    12 period int
Kind: 1 type int, 2 unit int
Sample: 1 location_id []uint, 2 value []int
Location: 1 id uint, 4 line []Line
Line: 1 function_id uint
Function: 1 id uint, 2 name int
"""
)


def read_pprof(raw: bytes) -> tuple[Any, dict[str, int]]:
    """A profile, and its weight by the names of a stack, root first."""
    told = THEIRS["Profile"].FromString(gzip.decompress(raw))
    names = {one.id: told.string_table[one.name] for one in told.function}
    places = {one.id: names[one.line[0].function_id] for one in told.location}
    found = {
        ";".join(places[place] for place in reversed(one.location_id)): one.value[0]
        for one in told.sample
    }
    return told, found


EXPECTED = {"train;gemm": 30, "train;add": 12}


def check_profile(raw: bytes) -> None:
    told, found = read_pprof(raw)
    assert found == EXPECTED
    assert (told.time_nanos, told.duration_nanos, told.period) == (BEGIN_NS, LENGTH_NS, 1)
    (kind,) = told.sample_type
    for one in (kind, told.period_type):
        assert told.string_table[one.type] == "gpu_time_ns"
        assert told.string_table[one.unit] == "nanoseconds"


def test_pyroscope() -> None:
    told = THEIRS["PyroscopePush"].FromString(encode_window("pyroscope", WINDOW))
    (series,) = told.series
    labels = {one.name: one.value for one in series.labels}
    assert labels == {"__name__": "gpu", "service_name": "4711", "job": "4711", "node": "n1",
                      "_9_lives": "<b>"}  # fmt: skip
    (sample,) = series.samples
    check_profile(sample.raw_profile)


def test_parca() -> None:
    body = encode_window("parca", WINDOW)
    flags, size = struct.unpack_from(">BI", body)
    assert (flags, size) == (0, len(body) - 5)
    (series,) = THEIRS["ParcaWrite"].FromString(body[5:]).series
    assert {one.name: one.value for one in series.labels.labels} == name_labels(WINDOW)
    check_profile(series.samples[0].raw_profile)


def test_opentelemetry() -> None:
    """Read by OpenTelemetry's own classes."""
    service = pytest.importorskip(
        "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2",
        exc_type=ImportError,
    )
    told = service.ExportProfilesServiceRequest.FromString(encode_window("otlp", WINDOW))
    tables, texts = told.dictionary, told.dictionary.string_table
    (resource,) = told.resource_profiles
    attributes = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert attributes["service.name"] == "4711"
    assert attributes["host.name"] == "n1"
    (scope,) = resource.scope_profiles
    (profile,) = scope.profiles
    assert (profile.time_unix_nano, profile.duration_nano) == (BEGIN_NS, LENGTH_NS)
    assert len(profile.profile_id) == 16
    assert texts[profile.sample_type.type_strindex] == "gpu_time_ns"
    assert texts[profile.sample_type.unit_strindex] == "nanoseconds"
    found = {}
    for sample in profile.samples:
        names = []
        for place in tables.stack_table[sample.stack_index].location_indices:
            (line,) = tables.location_table[place].lines
            names.append(texts[tables.function_table[line.function_index].name_strindex])
        found[";".join(reversed(names))] = sample.values[0]
    assert found == EXPECTED
    # "index 0 ... MUST be the zero value" (profiles.proto), of each table.
    assert texts[0] == ""
    for table in ("mapping", "location", "function", "link", "attribute", "stack"):
        first = getattr(tables, f"{table}_table")[0]
        assert first == type(first)()
    for kept in (tables.location_table, tables.function_table, tables.stack_table):
        assert len({one.SerializeToString() for one in kept}) == len(kept)


Answer = tuple[int, Mapping[str, str], bytes]


@contextmanager
def serve(answer: Answer) -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    """A server that answers so, and what it was sent."""
    taken: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((self.path, dict(self.headers.items()), body))
            self.send_response(answer[0])
            for name, value in answer[1].items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer[2])

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", taken
        finally:
            server.shutdown()
            thread.join()


TRAILERS = b"\x80\0\0\0\x0fgrpc-status:0\r\n"
REFUSED = b"\x80\0\0\0\x29grpc-status:3\r\ngrpc-message:no%20time\r\n\r\n"


@pytest.mark.parametrize(
    ("kind", "path", "form", "answer"),
    [
        ("otlp", "/v1development/profiles", "application/x-protobuf", b""),
        ("pyroscope", "/a/push.v1.PusherService/Push", "application/proto", b""),
        (
            "parca",
            "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
            "application/grpc-web+proto",
            b"\0\0\0\0\0" + TRAILERS,
        ),
    ],
)
def test_a_push(kind: str, path: str, form: str, answer: bytes) -> None:
    with serve((200, {}, answer)) as (url, taken):
        prefix = "/a/" if path.startswith("/a") else ""
        env = {"SIGHTLINE_PUSH_TOKEN": "t0ken", "OTEL_EXPORTER_OTLP_HEADERS": "x=a%20b"}
        push_window(read_target(f"{kind}={url}{prefix}", env), WINDOW)
    ((asked, headers, body),) = taken
    assert (asked, headers["Content-Type"]) == (path, form)
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers.get("X") == ("a b" if kind == "otlp" else None)
    assert body == encode_window(kind, WINDOW)


@pytest.mark.parametrize(
    ("kind", "answer", "why"),
    [
        ("otlp", (400, {}, b"bad profile\nmore"), "status 400: bad profile"),
        ("pyroscope", (302, {"Location": "/elsewhere"}, b""), "status 302"),
        ("pyroscope", (500, {}, b"\xff" * 300_000), "status 500"),
        ("parca", (200, {}, REFUSED), "no time"),
        ("parca", (200, {"grpc-status": "16"}, b""), "status 16"),
        ("parca", (200, {}, b"<html>"), "it does not speak gRPC-Web"),
        ("parca", (200, {}, b"\x80\xff\xff\xff\xff"), "cut off"),
    ],
)
def test_a_server_that_does_not_take_it(kind: str, answer: Answer, why: str) -> None:
    with serve(answer) as (url, taken), pytest.raises(InputError) as caught:
        push_window(read_target(f"{kind}={url}", {}), WINDOW)
    assert why in str(caught.value.why)
    assert len(str(caught.value.why)) < 300
    assert len(taken) == 1  # neither asked again nor led elsewhere


def test_a_server_that_is_not_there() -> None:
    target = Target("otlp", "http://127.0.0.1:1/x", {})
    with pytest.raises(InputError, match="cannot be reached"):
        push_window(target, WINDOW)


def test_addresses_that_are_none() -> None:
    for text in ("", "x=http://a", "otlp", "otlp=file:///etc/passwd", "otlp=http:", "otlp=a:1"):
        with pytest.raises(RequestError):
            read_target(text, {})
    with pytest.raises(RequestError) as caught:
        read_target("otlp=http://ada:secret@a:1", {})
    assert "secret" not in f"{caught.value.what} {caught.value.why} {caught.value.hint}"
    with pytest.raises(RequestError, match="a line break"):
        read_target("otlp=http://a", {"OTEL_EXPORTER_OTLP_HEADERS": "a=b%0d%0ac: d"})


@pytest.mark.parametrize("end", range(0, len(REFUSED), 7))
def test_answers_that_are_cut(end: int) -> None:
    assert find_refusal(REFUSED[:end], {}) is not None


def test_windows_of_a_history(tmp_path: Path) -> None:
    for number in range(2):
        (trace,) = write_ranks(Program(1, steps=6, seed=number), tmp_path / f"w{number}")
        (sample,) = open_side([str(trace)])
        labels = {"job": "4711", "node": "n1"}
        add_window(tmp_path / "h", sample, labels, BEGIN_NS + number * 600 * 10**9)
    windows = list_pushed(tmp_path / "h", {"job": "4711"})
    assert [one.begin_ns - BEGIN_NS for one in windows] == [0, 600 * 10**9]
    assert windows[0].labels["node"] == "n1"
    assert windows[0].duration_ns > 0
    assert list_pushed(tmp_path / "h", {"job": "8"}) == []
    with serve((200, {}, b"")) as (url, taken):
        done = sightline("history", "push", f"pyroscope={url}", "--history", tmp_path / "h",
                         "--last", "1")  # fmt: skip
    assert done.code == 0, done.err
    assert "1 window pushed" in done.err
    ((_, _, body),) = taken
    (series,) = THEIRS["PyroscopePush"].FromString(body).series
    told, found = read_pprof(series.samples[0].raw_profile)
    assert told.time_nanos == BEGIN_NS + 600 * 10**9
    assert sum(found.values()) == windows[1].stacks.total(windows[1].stacks.weights[0])
