"""What a daemon answers, whoever carries the question: paths, and who may ask what.

GET  /v1/clock                     this node's time
GET  /v1/node                      who listens here, and what is being made
POST /v1/captures                  record (request.CaptureRequest)
GET  /v1/captures                  what is kept
GET  /v1/captures/ID               how far one is
GET  /v1/captures/ID/ranks         its reduced ranks; /fingerprint likewise
GET  /v1/captures/ID/files/NAME    one of its traces
POST /v1/triggers/NAME             something happened: record, if that trigger is armed
POST /v1/relay                     ask other nodes some of these (relay.py)
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.capture import shelf as shelves
from sightline.capture.listeners import Listener, has_gpu
from sightline.capture.node import Node
from sightline.capture.relay import RELAY, Relay
from sightline.capture.request import decode_request
from sightline.errors import InputError, RequestError

_CAPTURE = re.compile(r"/v1/captures/([0-9a-f]{16})(?:/(ranks|fingerprint|files/([\w.-]{1,200})))?")
_TRIGGER = re.compile(r"/v1/triggers/([a-z-]{1,40})")


@dataclass(frozen=True)
class Reply:
    """An answer: data, a file, or bytes."""

    status: int
    data: Any = None
    file: Path | None = None
    content: bytes | None = None


@dataclass(frozen=True)
class Rules:
    """Who may do what beside root, the daemon's own user, and each with their own processes."""

    allowed: Container[int] = ()

    def may_all(self, user: int) -> bool:
        """Whether a user may record all that listen."""
        return user in (0, os.geteuid()) or user in self.allowed

    def may_record(self, user: int) -> Callable[[Listener], bool]:
        """Which processes a user may record."""
        return lambda one: self.may_all(user) or one.user == user

    def may_read(self, user: int, state: dict[str, Any]) -> bool:
        """Whether a user may see a capture."""
        return self.may_all(user) or state.get("user") == user


class Api:
    """The paths. `fire`: what a trigger from outside does; whether one of that name is armed.

    `relay`: what asks other nodes; None: nothing does.
    """

    def __init__(
        self,
        node: Node,
        name: str,
        rules: Rules,
        fire: Callable[[str], bool] = lambda name: False,
        relay: Relay | None = None,
    ) -> None:
        self._node, self._name, self._rules, self._fire = node, name, rules, fire
        self._relay = relay

    def answer(self, method: str, path: str, body: bytes, user: int) -> Reply:
        """Answer one user's question; never raises for what somebody sent."""
        try:
            return self._answer(method, path, body, user)
        except (RequestError, InputError) as error:
            status = 409 if isinstance(error, RequestError) else 507
            return Reply(status, {"error": error.what, "why": error.why})

    def _answer(self, method: str, path: str, body: bytes, user: int) -> Reply:
        if (method, path) == ("GET", "/v1/clock"):
            return Reply(200, {"time_ns": time.time_ns()})
        if (method, path) == ("GET", "/v1/node"):
            return Reply(200, self._describe(user))
        if (method, path) == ("GET", "/v1/captures"):
            kept = [s for s in self._node.shelf.read_states() if self._rules.may_read(user, s)]
            return Reply(200, {"captures": kept})
        if (method, path) == ("POST", "/v1/captures"):
            may = self._rules.may_record(user)
            capture = self._node.begin(decode_request(body), user, may)
            if not self._rules.may_read(user, capture.describe()):
                return Reply(404, {"error": "there is no such capture"})
            return Reply(202, capture.describe())
        if (method, path) == ("POST", RELAY):
            return self._pass_on(body, user)
        if method == "POST" and (named := _TRIGGER.fullmatch(path)):
            if not self._rules.may_all(user):
                return Reply(403, {"error": "this user may not trigger captures"})
            if not self._fire(named[1]):
                return Reply(404, {"error": f"no trigger {named[1]} is armed"})
            return Reply(202, {})
        if method == "GET" and (asked := _CAPTURE.fullmatch(path)):
            return self._read(asked, user)
        return Reply(404, {"error": "there is nothing at this path"})

    def _pass_on(self, body: bytes, user: int) -> Reply:
        # Elsewhere it is this daemon's user who asks: whom it allows here, nobody there does.
        if user not in (0, os.geteuid()):
            return Reply(403, {"error": "this user may not ask other nodes"})
        if self._relay is None:
            why = "it was started without --ca"
            return Reply(404, {"error": "this daemon does not ask other nodes", "why": why})
        return Reply(200, content=self._relay.answer(body))

    def _describe(self, user: int) -> dict[str, Any]:
        may = self._rules.may_record(user)
        running = self._node.running
        return {
            "node": self._name,
            "time_ns": time.time_ns(),
            "has_gpu": has_gpu(),
            "listeners": [o.describe() for o in self._node.keeper.list_listeners() if may(o)],
            "capturing": None if running is None else running.request.id,
        }

    def _read(self, asked: re.Match[str], user: int) -> Reply:
        state = self._node.read(asked[1])
        if state is None or not self._rules.may_read(user, state):
            return Reply(404, {"error": "there is no such capture"})
        folder = self._node.shelf.folder / asked[1]
        if asked[2] is None:
            traces = sorted((folder / shelves.RUN).glob("*.json*"))
            files = {p.name: p.stat().st_size for p in traces if p.is_file()}
            return Reply(200, {**state, "files": files})
        name = asked[3]
        place = folder / shelves.RUN / name if name else folder / asked[2]
        if (name or "").startswith(".") or not place.is_file() or place.is_symlink():
            return Reply(404, {"error": "there is no such file"})
        return Reply(200, file=place)


def encode(reply: Reply) -> bytes:
    """An answer as it is sent. Raises OSError where its file is gone."""
    if reply.content is not None:
        return reply.content
    return json.dumps(reply.data).encode() if reply.file is None else reply.file.read_bytes()
