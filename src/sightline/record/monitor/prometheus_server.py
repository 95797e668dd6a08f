"""Questions to a Prometheus server: an address, a path, bytes."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import urlsplit

from sightline.errors import InputError, RequestError
from sightline.record.monitor.notices import StayHere, take_credentials

_TIMEOUT_S, _MOST_BYTES = 30, 64 << 20


def open_server(url: str) -> Callable[[str], bytes]:
    """What asks a server at an address such as http://prometheus:9090. Raises RequestError.

    A user and a password in it are sent as a header; no redirection is followed. What it returns
    raises InputError where the server does not answer.
    """
    base, headers = take_credentials(url.rstrip("/"))
    if urlsplit(base).scheme not in ("http", "https") or not urlsplit(base).hostname:
        raise RequestError(
            "--prometheus is not an address",
            hint="Write for example  --prometheus http://host:9090",
        )
    opener = urllib.request.build_opener(StayHere)

    def fetch(path: str) -> bytes:
        request = urllib.request.Request(base + path, headers=headers)  # noqa: S310 - checked above
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                data: bytes = answer.read(_MOST_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise InputError("Prometheus did not answer", why=str(error)) from error
        if len(data) > _MOST_BYTES:
            raise InputError("Prometheus answered with more than can be read at once")
        return data

    return fetch
