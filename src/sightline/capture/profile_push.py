"""Windows of a continuous profile pushed to servers of profiles, each in its own wire format.

    otlp        a collector of OpenTelemetry, or what speaks its protocol: flames/otel_profile
    pyroscope   push.v1.PusherService/Push over Connect: protobuf by POST
                (grafana/pyroscope, api/push/v1/push.proto, api/types/v1/types.proto)
    parca       parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw over gRPC-Web, which
                Parca serves beside gRPC: a frame of five bytes, then protobuf
                (parca-dev/parca, profilestore.proto, pkg/server/server.go)

An address holds no credentials: they come from the variable SIGHTLINE_PUSH_TOKEN (a bearer's), of
OTLP also from OTEL_EXPORTER_OTLP_HEADERS. A redirection is not followed.
"""

from __future__ import annotations

import os
import re
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import polars as pl

from sightline.core.protobuf import declare_messages
from sightline.core.units import format_note, format_several
from sightline.errors import InputError, MissingDataError, RequestError
from sightline.flames import otel_profile, pprof
from sightline.flames.stacks import Stacks
from sightline.history.profiles import read_stacks, read_values, read_windows
from sightline.record.monitor.notices import StayHere

KINDS = ("otlp", "pyroscope", "parca")
TOKEN = "SIGHTLINE_PUSH_TOKEN"  # noqa: S105  # the name of a variable
_OTLP_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_TIMEOUT_S = 10.0
_MOST_ANSWER = 1 << 16
_FRAME = struct.Struct(">BI")  # gRPC over HTTP2: "Length-Prefixed-Message"
_TRAILERS = 0x80  # of gRPC-Web (grpc/doc/PROTOCOL-WEB.md)
_PATHS = {
    "otlp": otel_profile.PATH,
    "pyroscope": "/push.v1.PusherService/Push",
    "parca": "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
}
_TYPES = {
    "otlp": "application/x-protobuf",
    "pyroscope": "application/proto",
    "parca": "application/grpc-web+proto",
}

_MESSAGES = declare_messages(
    """
PushRequest: 1 series []Series
Series: 1 labels []Label, 2 samples []Sample
WriteRawRequest: 2 series []LabelledSeries
LabelledSeries: 1 labels LabelSet, 2 samples []Sample
LabelSet: 1 labels []Label
Label: 1 name text, 2 value text
Sample: 1 raw_profile bytes
"""
)


@dataclass(frozen=True)
class Target:
    """A server of profiles: its kind, where to push, and with which headers."""

    kind: str
    address: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Window:
    """What is pushed: stacks of some time of a job on a node."""

    stacks: Stacks
    begin_ns: int
    duration_ns: int
    labels: Mapping[str, str]


def read_target(text: str, env: Mapping[str, str] | None = None) -> Target:
    """The server of `KIND=URL`. Raises RequestError, which repeats no secret."""
    env = os.environ if env is None else env
    kind, equals, url = text.partition("=")
    parts = urlsplit(url)
    if not equals or kind not in KINDS or parts.scheme not in ("http", "https") or not parts.netloc:
        raise RequestError(
            "this does not name a profile server",
            why=f"the form is KIND=URL, where KIND is one of {', '.join(KINDS)}",
            hint="--push pyroscope=http://127.0.0.1:4040",
        )
    if "@" in parts.netloc:
        raise RequestError(
            "an address on a command line is read by others, with the password in it",
            hint=f"Put a bearer token into the variable {TOKEN}",
        )
    headers = {"Content-Type": _TYPES[kind], "User-Agent": "sightline"}
    if token := env.get(TOKEN, "").strip():
        headers["Authorization"] = f"Bearer {token}"
    if kind == "otlp":
        for pair in filter(None, env.get(_OTLP_HEADERS, "").split(",")):
            name, _, value = pair.partition("=")
            headers[name.strip()] = unquote(value.strip())
    if any(re.search(r"[\r\n\0]", f"{name}{value}") for name, value in headers.items()):
        raise RequestError("a header contains a line break")
    path = parts.path.rstrip("/")
    whole = path if path.endswith(_PATHS[kind]) else path + _PATHS[kind]
    return Target(kind, urlunsplit((parts.scheme, parts.netloc, whole, "", "")), headers)


def push_window(target: Target, window: Window) -> None:
    """Push it. Raises InputError with what the server says where it does not take it."""
    body = encode_window(target.kind, window)
    request = urllib.request.Request(  # noqa: S310  # read_target lets HTTP through only
        target.address, body, dict(target.headers), method="POST"
    )
    place = urlsplit(target.address).netloc
    try:
        with urllib.request.build_opener(StayHere).open(request, timeout=_TIMEOUT_S) as answer:
            told, headers = answer.read(_MOST_ANSWER), dict(answer.headers.items())
    except urllib.error.HTTPError as error:
        with error:
            why = _read_error(error)
        raise InputError(f"{place} does not take the profile", why=why) from error
    except (OSError, HTTPException, ValueError) as error:
        why = str(getattr(error, "reason", error))
        raise InputError(f"{place} cannot be reached", why=why) from error
    problem = find_refusal(told, headers) if target.kind == "parca" else None
    if problem is not None:
        raise InputError(f"{place} does not take the profile", why=problem)


def encode_window(kind: str, window: Window) -> bytes:
    """The body of the request."""
    if kind == "otlp":
        resource = {"service.name": window.labels.get("job", "none")}
        resource |= {"host.name": window.labels.get("node", "")}
        resource |= {f"sightline.{key}": value for key, value in window.labels.items()}
        return otel_profile.write(window.stacks, window.begin_ns, window.duration_ns, resource)
    raw = pprof.write(window.stacks, window.begin_ns, window.duration_ns)
    labels = name_labels(window)
    if kind == "pyroscope":
        push = _MESSAGES["PushRequest"]()
        series = push.series.add()
        for name, value in labels.items():
            series.labels.add(name=name, value=value)
        series.samples.add(raw_profile=raw)
        return bytes(push.SerializeToString())
    written = _MESSAGES["WriteRawRequest"]()
    labelled = written.series.add()
    for name, value in labels.items():
        labelled.labels.labels.add(name=name, value=value)
    labelled.samples.add(raw_profile=raw)
    body = bytes(written.SerializeToString())
    return _FRAME.pack(0, len(body)) + body


def name_labels(window: Window) -> dict[str, str]:
    """A window's labels as Prometheus names them, with the profile's name and the service's.

    (prometheus.io, "Data model": [a-zA-Z_][a-zA-Z0-9_]*; two underscores at the start are its own.)
    """
    labels = {"__name__": "gpu", "service_name": window.labels.get("job", "none")}
    for key, value in window.labels.items():
        name = re.sub(r"[^a-zA-Z0-9_]", "_", key).lstrip("_") or "label"
        name = f"_{name}" if name[0].isdigit() else name
        labels.setdefault(name, value)
    return labels


def find_refusal(body: bytes, headers: Mapping[str, str]) -> str | None:
    """Why a server of gRPC-Web refused, by its trailers or headers; None where it did not."""
    told = {name.lower(): value for name, value in headers.items()}
    while len(body) >= _FRAME.size:
        flags, size = _FRAME.unpack_from(body)
        if flags & ~(_TRAILERS | 1):  # 1: compressed
            break
        part, body = body[_FRAME.size : _FRAME.size + size], body[_FRAME.size + size :]
        if len(part) < size:
            return "its answer was cut off"
        if flags & _TRAILERS:
            lines = part.decode("utf-8", "replace").splitlines()
            told |= {n.strip().lower(): v.strip() for n, _, v in (x.partition(":") for x in lines)}
    status = told.get("grpc-status")
    if status is None:
        return "it does not speak gRPC-Web"
    if status == "0":
        return None
    return unquote(told.get("grpc-message", ""))[:200] or f"status {status[:20]}"


def list_pushed(
    folder: Path, where: Mapping[str, str], begin_ns: int = 0, most: int | None = None
) -> list[Window]:
    """The windows of a history that have stacks and these values of columns, in order of time.

    `begin_ns`: those of that moment or later; `most`: the last ones of those. Raises InputError.
    """
    rows = read_windows(folder).filter(
        pl.col("added_ns") >= begin_ns, *(pl.col(key) == value for key, value in where.items())
    )
    windows = []
    for row in (rows if most is None else rows.tail(most)).to_dicts():
        try:
            stacks, _ = read_stacks(folder, [row["run_id"]])
        except MissingDataError:
            continue
        step_ns = read_values(folder, row["run_id"]).get("step_ns", 0.0)
        labels = {"job": row["job"], "node": row["node"], "gpu": row["gpu"] or ""}
        duration_ns = round(step_ns * row["steps"])
        windows.append(Window(stacks, row["added_ns"], duration_ns, labels))
    return windows


def push_all(target: Target, windows: list[Window], say: Callable[[str], None]) -> int:
    """Push windows in their order; how many were. InputError of the first that is refused."""
    for number, window in enumerate(windows):
        try:
            push_window(target, window)
        except InputError:
            if number:
                say(format_note(number, f"of {format_several(len(windows), 'window')} were pushed"))
            raise
    return len(windows)


def _read_error(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read(_MOST_ANSWER).decode("utf-8", "replace").strip()
    except (OSError, HTTPException):
        text = ""
    return f"status {error.code}" + (f": {text.splitlines()[0][:200]}" if text else "")
