"""What is told to others when a policy is violated: a webhook, or a command.

Both get the event as JSON, and neither holds the rounds up: a thread of its own sends what waits,
and drops the oldest of more than a hundred.
"""

from __future__ import annotations

import base64
import json
import queue
import shlex
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from sightline.errors import RequestError
from sightline.record.monitor.readings import Event

_TIMEOUT_S = 10
_MOST = 100


def describe_event(event: Event) -> dict[str, object]:
    """An event as data."""
    return {
        "time_ns": event.time_ns,
        "event": event.kind,
        "kind": event.entity.kind,
        "device_id": event.entity.device_id,
        "source": event.entity.source,
        "text": event.text,
    }


def take_credentials(url: str) -> tuple[str, dict[str, str]]:
    """An address without its user and password, and the header that has them (RFC 7617)."""
    parts = urlsplit(url)
    named, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    user, _, word = named.partition(":")
    pair = f"{unquote(user)}:{unquote(word)}".encode()
    header = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return urlunsplit(parts._replace(netloc=host)), header


class StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the library makes a GET without the event of it, which succeeds."""

    def redirect_request(self, *_: Any) -> None:
        """Let the answer be the error that it is to us."""


class Notifier:
    """Sends events to a URL and to a command's standard input; `failed` is told what did not go."""

    def __init__(self, url: str | None, command: str | None, failed: Callable[[str], None]) -> None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise RequestError(
                f"{url} is not an address for a webhook", hint="It begins with http:// or https://."
            )
        self._url, self._failed = url, failed
        self._opener = urllib.request.build_opener(StayHere)
        try:
            self._command = shlex.split(command) if command else None
        except ValueError as error:
            raise RequestError(f"the command cannot be read: {command}", why=str(error)) from error
        self._waiting: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_MOST)
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-notices")
        self._thread.start()

    def send(self, event: Event) -> None:
        """Take an event on; where too many wait, the oldest is dropped."""
        self.tell(event.text, describe_event(event))

    def tell(self, text: str, data: Mapping[str, object]) -> None:
        """Take anything on, as a sentence and as data."""
        body = json.dumps(data).encode()
        while True:
            try:
                self._waiting.put_nowait((text, body))
                return
            except queue.Full:
                dropped = self._waiting.get_nowait()
                if dropped is not None:
                    self._failed(f"dropped: {dropped[0]}")

    def close(self) -> None:
        """Send what waits, for ten seconds at most."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_TIMEOUT_S)
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            _, body = waiting
            if self._url is not None:
                self._post(self._url, body)
            if self._command is not None:
                self._call(self._command, body)

    def _post(self, url: str, body: bytes) -> None:
        url, headers = take_credentials(url)
        headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, body, headers)  # noqa: S310  # checked: http
        try:
            self._opener.open(request, timeout=_TIMEOUT_S).close()
        except (OSError, ValueError, HTTPException) as error:
            self._failed(f"the webhook was not reached: {error}")

    def _call(self, command: list[str], body: bytes) -> None:
        try:
            done = subprocess.run(  # noqa: S603  # the user's own command, without a shell
                command, input=body, timeout=_TIMEOUT_S, check=False, stdout=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._failed(f"the command failed: {error}")
            return
        if done.returncode:
            self._failed(f"the command ended with {done.returncode}: {command[0]}")
