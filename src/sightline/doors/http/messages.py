"""A request and a reply, without a socket."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

MOST_BODY = 16 << 20  # bytes as sent, ours: a batch of cc-metric-collector has some 100 kB
MOST_UNPACKED = 64 << 20
_MOST_FIELDS = 100
COOKIE = "sightline"
HTML, JSON = "text/html; charset=utf-8", "application/json; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """What was asked: names of headers are as they are usually written."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    peer: str = ""

    def read_cookie(self) -> str:
        """The secret of the browser's session; "" without one."""
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")[:4096]).get(COOKIE)
        except CookieError:
            return ""
        return found.value if found is not None else ""

    def read_form(self) -> dict[str, str]:
        """The fields of a form. Raises ValueError."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded" or len(self.body) > 65_536:
            raise ValueError("it is not a form")
        return dict(parse_qsl(self.body.decode(), max_num_fields=_MOST_FIELDS))

    def read_json(self) -> Any:
        """The document. Raises ValueError for what is none."""
        whole = self.unpack()
        if len(whole) > MOST_BODY:
            raise ValueError(f"a document has {MOST_BODY:,} bytes at most")
        try:
            return json.loads(whole)
        except (UnicodeDecodeError, RecursionError) as error:
            raise ValueError("the body is not JSON") from error

    def unpack(self) -> bytes:
        """The body without its compression. Raises ValueError: damaged, or too large unpacked."""
        coding = self.headers.get("Content-Encoding", "").strip().lower()
        if coding in ("", "identity"):
            return self.body
        if coding == "snappy":
            return _unpack_snappy(self.body)
        if coding != "gzip":
            raise ValueError("a body must be plain, gzip or snappy")
        unpacker = zlib.decompressobj(wbits=31)
        try:
            whole = unpacker.decompress(self.body, MOST_UNPACKED + 1)
        except zlib.error as error:
            raise ValueError("the gzipped body is damaged") from error
        if len(whole) > MOST_UNPACKED or not unpacker.eof:
            raise ValueError(f"the gzipped body is cut off, or has over {MOST_UNPACKED:,} bytes")
        return whole


def _unpack_snappy(body: bytes) -> bytes:
    """A block of snappy, as remote write has it: how long it is unpacked stands at its front."""
    from cramjam import DecompressionError, snappy

    try:
        length = snappy.decompress_raw_len(body)
        if length > MOST_UNPACKED:
            raise ValueError(f"the body has over {MOST_UNPACKED:,} bytes unpacked")
        return bytes(snappy.decompress_raw(body))
    except DecompressionError as error:
        raise ValueError("the body is not a block of snappy") from error


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    status: int
    body: bytes = b""
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def say(status: int, text: str, why: str | None = None) -> Reply:
    """A message for a program."""
    found = {"error" if status >= 400 else "msg": text, **({"why": why} if why else {})}
    return Reply(status, json.dumps(found).encode())


def go(target: str, cookie: str | None = None, *, secure: bool = False) -> Reply:
    """To another page of ours; `cookie` is the secret of a session, "" ends it."""
    headers = {"Location": target}
    if cookie is not None:
        age = 43_200 if cookie else 0
        headers["Set-Cookie"] = (
            f"{COOKIE}={cookie}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax"
            + ("; Secure" if secure else "")
        )
    return Reply(303, b"", HTML, headers)
