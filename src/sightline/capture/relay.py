"""A daemon that asks others for somebody: what makes a tree of them, each of which asks some.

Who asks says which nodes, and what each is to be asked. The answer holds what they said, byte for
byte, and when each question left on this node's clock and how long it took, so that clocks can be
compared through it. Nothing but questions of captures is passed on, to nobody but daemons that know
the token and show a certificate of the given authority; a relayed question cannot be relayed again.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sightline.capture.client import Address, Answer, Client, TooLongError, take_data
from sightline.errors import InputError, RequestError, SightlineError

RELAY = "/v1/relay"
MOST_NODES = 64  # that one daemon asks for somebody: as many as have a connection to it at most
_MOST_QUESTIONS = 8  # for one node in one request: a clock takes four
# Ours: a node of eight ranks sends 64 kB (docs/scale.md); what is longer is asked for directly.
_MOST_BYTES = 1 << 20
_AT_ONCE = 16  # more at once would know clocks worse: they answer one after the other
_NODE_S = 10.0  # for one question; four rounds of them are 40 s
RELAY_S = 60.0  # for who waits for all of them
KEPT_S = 10.0  # a connection that nobody used for so long, its daemon ends, too (server._QUIET_S)
_PASSED = re.compile(
    r"GET /v1/clock|GET /v1/node|POST /v1/captures|POST /v1/triggers/[a-z-]{1,40}"
    r"|GET /v1/captures/[0-9a-f]{16}(?:/ranks)?"
)
_HOST = re.compile(r"[0-9A-Za-z_.:%-]{1,253}")


@dataclass(frozen=True)
class Question:
    """What a node is asked."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True)
class Told:
    """An answer. It was asked at `asked_ns` on our clock, known to `unsure_ns`, in `took_ns`."""

    answer: Answer
    asked_ns: int
    took_ns: int
    unsure_ns: int = 0


@dataclass(frozen=True)
class Part:
    """What one node is to be asked, one question after the other."""

    address: Address
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Passed:
    """What became of one node's part: its answers, or why there are none.

    `is_long`: they do not fit through here; the node itself has them.
    """

    told: list[Told]
    problem: SightlineError | None = None
    is_long: bool = False


def ask_in_turn(client: Client, questions: Sequence[Question]) -> list[Told]:
    """Ask one daemon one question after the other. Raises InputError."""
    told = []
    for one in questions:
        asked_ns, since = time.time_ns(), time.perf_counter_ns()
        answer = client.ask(one.method, one.path, one.body)
        told.append(Told(answer, asked_ns, time.perf_counter_ns() - since))
    return told


class Relay:
    """What a daemon does that asks others: with its own token, over TLS and never without."""

    def __init__(self, token: str, context: ssl.SSLContext) -> None:
        self._token, self._context = token, context
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int, str | None], tuple[Client, float]] = {}
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def answer(self, body: bytes) -> bytes:
        """Ask whom a request names; never raises for what a node does. Raises RequestError."""
        from concurrent.futures import ThreadPoolExecutor

        parts = decode_parts(body)
        with ThreadPoolExecutor(min(_AT_ONCE, len(parts))) as pool:
            passed = list(pool.map(self._ask, parts))
        return encode_passed(passed)

    def close(self) -> None:
        """End all connections."""
        with self._lock:
            self._is_closed = True
        self._drop_kept(0.0)

    def _ask(self, part: Part) -> Passed:
        where = part.address
        key = (where.host, where.port, where.certified)
        with self._lock:
            client, _ = self._kept.pop(key, (None, 0.0))
        if client is None:
            name = f"{where.host}:{where.port}"
            address = Address(
                name, None, where.host, where.port, self._token, self._context, where.certified
            )
            client = Client(address, _NODE_S, _MOST_BYTES)
        try:
            told = ask_in_turn(client, part.questions)
        except InputError as error:
            client.close()
            return Passed([], error, isinstance(error.__cause__, TooLongError))
        except ValueError as error:  # a name that no resolver takes
            client.close()
            return Passed([], InputError(f"{where.host} cannot be asked", why=str(error)))
        self._keep(key, client)
        return Passed(told)

    def _keep(self, key: tuple[str, int, str | None], client: Client) -> None:
        with self._lock:
            other, _ = self._kept.pop(key, (None, 0.0))
            is_kept = not self._is_closed and len(self._kept) < MOST_NODES
            if is_kept:
                self._kept[key] = client, time.monotonic()
                self._wait()
        if other is not None:
            other.close()
        if not is_kept:
            client.close()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(KEPT_S, self._drop_kept, (KEPT_S,))
            self._timer.daemon = True
            self._timer.start()

    def _drop_kept(self, older_s: float) -> None:
        limit = time.monotonic() - older_s
        with self._lock:
            old = [key for key, (_, at) in self._kept.items() if at <= limit]
            dropped = [self._kept.pop(key)[0] for key in old]
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if self._kept and not self._is_closed:
                self._wait()
        for client in dropped:
            client.close()


# -- as it is sent -------------------------------------------------------------------------------


def encode_parts(parts: Sequence[Part]) -> bytes:
    """A request for several nodes."""
    return json.dumps({"nodes": [_describe(part) for part in parts]}).encode()


def _describe(part: Part) -> dict[str, Any]:
    return {
        "host": part.address.host,
        "port": part.address.port,
        "certified": part.address.certified,
        "questions": [[q.method, q.path, q.body.decode()] for q in part.questions],
    }


def decode_parts(body: bytes) -> list[Part]:
    """The nodes of a request and what they are asked. Raises RequestError for all else."""
    try:
        told = json.loads(body)["nodes"]
        if not 1 <= len(told) <= MOST_NODES:
            raise ValueError(f"one daemon asks 1 to {MOST_NODES} others")
        return [_read_part(one) for one in told]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RequestError("this is not a request for other nodes", why=str(error)[:200]) from error


def _read_part(told: Any) -> Part:
    host, port, certified = str(told["host"]), told["port"], told.get("certified")
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host[:40]!r} is not a host")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65_536:
        raise ValueError(f"{str(port)[:40]!r} is not a port")
    if certified is not None and not _HOST.fullmatch(str(certified)):
        raise ValueError(f"{str(certified)[:40]!r} is not a name")
    questions = tuple(_read_question(one) for one in told["questions"])
    if not 1 <= len(questions) <= _MOST_QUESTIONS:
        raise ValueError(f"a node is asked 1 to {_MOST_QUESTIONS} questions at a time")
    name = None if certified is None else str(certified)
    return Part(Address(host, host=host, port=port, certified=name), questions)


def _read_question(told: Any) -> Question:
    method, path, body = map(str, told)
    if not _PASSED.fullmatch(f"{method} {path}"):
        raise ValueError(f"{method[:10]} {path[:40]} may not be passed on")
    return Question(method, path, body.encode())


def encode_passed(passed: Sequence[Passed]) -> bytes:
    """What nodes said: a line of JSON, and behind it their answers' bytes."""
    head = [
        {
            "problem": None if one.problem is None else [one.problem.what, one.problem.why],
            "is_long": one.is_long,
            "told": [
                [t.answer.status, t.asked_ns, t.took_ns, len(t.answer.body)] for t in one.told
            ],
        }
        for one in passed
    ]
    bodies = b"".join(t.answer.body for one in passed for t in one.told)
    return json.dumps({"nodes": head}).encode() + b"\n" + bodies


def decode_passed(data: bytes, parts: Sequence[Part]) -> list[Passed]:
    """What a relay's answer says of each part. Raises InputError where it makes no sense."""
    head, _, bodies = data.partition(b"\n")
    try:
        told, at = json.loads(head)["nodes"], 0
        if len(told) != len(parts):
            raise ValueError("it answers for other nodes")
        passed = []
        for one, part in zip(told, parts, strict=True):
            found, at = _read_told(one["told"], bodies, at)
            if one["problem"] is None and len(found) != len(part.questions):
                raise ValueError("answers are missing")
            passed.append(Passed(found, _read_problem(one["problem"]), bool(one["is_long"])))
        if at != len(bodies):
            raise ValueError("it has data after its end")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError("the daemon's answer is malformed", why=str(error)[:200]) from error
    return passed


def _read_told(told: Any, bodies: bytes, at: int) -> tuple[list[Told], int]:
    found = []
    for status, asked_ns, took_ns, size in told:
        if not all(isinstance(n, int) for n in (status, asked_ns, took_ns, size)):
            raise TypeError("a number is malformed")
        if not (0 <= size <= len(bodies) - at and 0 <= took_ns < 1 << 60):
            raise ValueError("it was cut off")
        found.append(Told(Answer(status, bodies[at : at + size]), asked_ns, took_ns))
        at += size
    return found, at


def _read_problem(told: Any) -> SightlineError | None:
    if told is None:
        return None
    what, why = told
    return InputError(str(what)[:400], why=None if why is None else str(why)[:400])


def take_passed(client: Client, parts: Sequence[Part]) -> list[Passed]:
    """Have a daemon ask others. Raises InputError, and RequestError where it asks nobody."""
    answer = client.ask("POST", RELAY, encode_parts(parts))
    if answer.status >= 300:
        take_data(client.address.name, answer)
    return decode_passed(answer.body, parts)
