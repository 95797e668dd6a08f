"""Daemons that ask others: a tree of them, what it says of clocks, and what is not passed on."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attack.mutate import damage
from sightline.capture import relay as relays
from sightline.capture.api import Api, Reply, Rules
from sightline.capture.asking import Direct, Tree, choose_asker, compare_times, split_parts
from sightline.capture.client import Address, Answer, Client
from sightline.capture.controller import NONE, Wanted, capture, look_around
from sightline.capture.relay import (
    Part,
    Passed,
    Question,
    Relay,
    Told,
    decode_parts,
    decode_passed,
    encode_parts,
    encode_passed,
)
from sightline.capture.server import NetServer
from sightline.errors import InputError, RequestError
from support.campaigns import CAMPAIGNS
from support.certificates import Certificate, make_certificate
from support.many_ranks import HOST, Cause, Program
from support.nodes import run_node, write_plain

TOKEN = "0123456789abcdef"
ROUNDS = 3000 if CAMPAIGNS else 300
CLOCK = Question("GET", "/v1/clock")


class Fleet:
    """Daemons behind TLS at ports of this machine, and who asks them."""

    def __init__(self, stack: ExitStack, certificate: Certificate) -> None:
        self._stack, self.certificate = stack, certificate
        self.said: list[str] = []
        self.servers: list[NetServer] = []

    def make_relay(self) -> Relay:
        relay = Relay(TOKEN, self.certificate.trusted)
        self._stack.callback(relay.close)
        return relay

    def serve(self, api: Any) -> Client:
        """An address at which it answers, and a client of it."""
        server = NetServer("127.0.0.1", 0, api, TOKEN, self.certificate.own)
        self.servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        port = server.server_address[1]
        trusted = self.certificate.trusted
        client = Client(Address(f"n{port}", None, "127.0.0.1", port, TOKEN, trusted), 5)
        self._stack.callback(client.close)
        return client

    def stand_in(self, ahead_ns: int = 0, *, asks: bool = True, long: int = 0) -> Client:
        """A daemon that has only a clock, which is ahead, and asks others where it may."""
        relay = _AheadRelay(self, ahead_ns) if asks else None

        def answer(method: str, path: str, body: bytes, user: int) -> Reply:
            if path == relays.RELAY:
                if relay is None:
                    return Reply(404, {"error": "this daemon does not ask other nodes"})
                return Reply(200, content=relay.answer(body))
            return Reply(200, {"time_ns": time.time_ns() + ahead_ns, "pad": "x" * long})

        return self.serve(SimpleNamespace(answer=answer))

    def close(self, client: Client) -> None:
        """End the daemon of that client, as one that is killed."""
        for server in self.servers:
            if server.server_address[1] == client.address.port:
                server.shutdown()
                server.server_close()


class _AheadRelay:
    def __init__(self, fleet: Fleet, ahead_ns: int) -> None:
        self._relay, self._ahead_ns = fleet.make_relay(), ahead_ns

    def answer(self, body: bytes) -> bytes:
        """As a relay's whose clock is ahead."""
        passed = decode_passed(self._relay.answer(body), decode_parts(body))
        return encode_passed(
            [
                Passed(
                    [Told(t.answer, t.asked_ns + self._ahead_ns, t.took_ns) for t in one.told],
                    one.problem,
                    one.is_long,
                )
                for one in passed
            ]
        )


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(stack, make_certificate(tmp_path))


def is_connected(client: Client) -> bool:
    return client._connection is not None


@pytest.mark.timing
@pytest.mark.usefixtures("quick")
def test_a_tree_names_the_late_rank(tmp_path: Path, fleet: Fleet) -> None:
    """Four nodes, two of which ask the others; who asks has no connection to those."""
    job = Program(4, steps=6, causes=(Cause(HOST, 2, 500_000),))
    traces = write_plain(job, tmp_path / "job")
    out = tmp_path / "out"
    out.mkdir()
    with ExitStack() as stack:
        clients = []
        for rank, trace in enumerate(traces):
            relay = fleet.make_relay()
            own = stack.enter_context(run_node(tmp_path / f"n{rank}", name=f"n{rank}", relay=relay))
            own.start(rank=rank, trace=trace, env={"WORLD_SIZE": "4"})
            own.wait_for(1)
            clients.append(fleet.serve(own.api))
        tree = Tree(clients, 2, fleet.said.append)
        found = look_around(clients, tree)
        assert [node.problem for node in found] == [None] * 4
        assert [node.name for node in found] == ["n0", "n1", "n2", "n3"]
        wanted = Wanted(seconds=0.1, warm_up_s=0.0, traces=NONE)
        outcome = capture(found, wanted, out, fleet.said.append, tree)
        assert [is_connected(client) for client in clients] == [True, False, True, False]
    assert outcome.problems == []
    assert outcome.answer is not None
    worst = outcome.answer.verdict.stragglers.row(0, named=True)
    assert (worst["ranks"], worst["cause"]) == ([2], "host late")


MS = 1_000_000


@pytest.mark.timing
def test_clocks_are_known_through_a_tree(fleet: Fleet) -> None:
    """Of a node against its asker, and of that against ours: what is unsure adds up."""
    ahead = [30 * MS, -50 * MS, 50 * MS]
    clients = [fleet.stand_in(ns) for ns in ahead]
    tree = Tree(clients, 3, fleet.said.append)
    found = tree.ask([(client, (CLOCK,) * 4) for client in clients])
    known = []
    for told in found:
        assert isinstance(told, list)
        known.append(compare_times("n", told))
    for (offset, unsure), ns in zip(known, ahead, strict=True):
        assert abs(offset - ns) <= unsure
        assert unsure < 25 * MS
    assert [is_connected(client) for client in clients] == [True, False, False]
    assert fleet.said == []


def test_one_that_is_gone_is_replaced(fleet: Fleet) -> None:
    """The first daemon of a group dies: the next one asks, and who is gone is named."""
    clients = [fleet.stand_in() for _ in range(3)]
    tree = Tree(clients, 3, fleet.said.append)
    assert all(isinstance(told, list) for told in tree.ask([(c, (CLOCK,)) for c in clients]))
    clients[0].close()
    fleet.close(clients[0])
    gone, *others = tree.ask([(client, (CLOCK,)) for client in clients])
    assert isinstance(gone, InputError)
    assert f"no daemon listens at 127.0.0.1:{clients[0].address.port}" in gone.what
    assert all(isinstance(told, list) for told in others)
    assert is_connected(clients[1])
    assert not is_connected(clients[2])


def test_nodes_whose_daemons_ask_nobody(fleet: Fleet) -> None:
    clients = [fleet.stand_in(asks=False) for _ in range(4)]
    tree = Tree(clients, 2, fleet.said.append)
    for _ in range(2):
        assert all(isinstance(told, list) for told in tree.ask([(c, (CLOCK,)) for c in clients]))
    (said,) = fleet.said
    assert "nodes are asked one by one" in said
    assert "this daemon does not ask other nodes" in said


def test_what_is_too_long_is_asked_for_directly(fleet: Fleet) -> None:
    clients = [fleet.stand_in(), fleet.stand_in(long=2 << 20)]
    tree = Tree(clients, 2, fleet.said.append)
    _, told = tree.ask([(client, (CLOCK,)) for client in clients])
    assert isinstance(told, list)
    assert len(told[0].answer.body) > 2 << 20
    assert is_connected(clients[1])


def test_who_does_not_know_the_token_is_no_node(fleet: Fleet) -> None:
    """A relay believes nobody who cannot prove it, whatever certificate he shows."""
    clients = [fleet.stand_in(), fleet.stand_in()]
    fleet.servers[1]._verifier.token = "another token, as long"
    tree = Tree(clients, 2, fleet.said.append)
    _, node = look_around(clients, tree)
    assert "the request is refused: it is signed with another token" in str(node.problem)


def test_connections_are_ended_when_nobody_uses_them(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relays, "KEPT_S", 0.05)
    relay = fleet.make_relay()
    part = Part(fleet.stand_in(asks=False).address, (CLOCK,))
    (passed,) = decode_passed(relay.answer(encode_parts([part])), [part])
    assert passed.told[0].answer.status == 200
    while relay._kept:
        time.sleep(0.01)
    relay.close()


def test_who_may_have_others_asked(fleet: Fleet) -> None:
    """Only who is this daemon's user: elsewhere the daemon asks as that user."""
    body = encode_parts([Part(Address("n", host="127.0.0.1", port=9), (CLOCK,))])
    other, own = os.geteuid() + 1, os.geteuid()
    node: Any = None  # it is not looked at
    api = Api(node, "n", Rules(allowed={other}), relay=fleet.make_relay())
    assert api.answer("POST", relays.RELAY, body, other).status == 403
    assert api.answer("POST", relays.RELAY, body, own).status == 200
    alone = Api(node, "n", Rules())
    refused = alone.answer("POST", relays.RELAY, body, own)
    assert (refused.status, refused.data["why"]) == (404, "it was started without --ca")


WHOLE = {"host": "n1", "port": 9477, "certified": None, "questions": [["GET", "/v1/node", ""]]}


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "n1\r\nX: y"},
        {"host": ""},
        {"host": "-" * 300},
        {"host": "/run/sightline/daemon.sock"},
        {"port": 0},
        {"port": True},
        {"port": 70_000},
        {"port": "22"},
        {"certified": "a b"},
        {"questions": []},
        {"questions": [["GET", "/v1/node", ""]] * 9},
        {"questions": [["POST", "/v1/relay", "{}"]]},
        {"questions": [["GET", "/v1/captures/" + "a" * 16 + "/files/x", ""]]},
        {"questions": [["GET", "/", ""]]},
        {"questions": [["GET", "/v1/node\r\nHost: x", ""]]},
        {"questions": [["DELETE", "/v1/captures", ""]]},
        {"questions": [["GET", "/v1/node"]]},
        {"questions": 7},
    ],
)
def test_what_is_not_passed_on(changed: dict[str, Any]) -> None:
    body = json.dumps({"nodes": [{**WHOLE, **changed}]}).encode()
    with pytest.raises(RequestError, match="not a request for other nodes"):
        decode_parts(body)


def test_requests_for_others_that_make_no_sense() -> None:
    rng = random.Random(4)
    seed = json.dumps({"nodes": [WHOLE]}).encode()
    assert len(decode_parts(seed)) == 1
    bodies = [b"", b"[]", b"{}", b'{"nodes": []}', b"[" * 60_000]
    bodies += [json.dumps({"nodes": [WHOLE] * 65}).encode(), b'{"nodes": "' + b"x" * 60 + b'"}']
    for body in bodies:
        with pytest.raises(RequestError):
            decode_parts(body)
    for _ in range(ROUNDS):
        try:
            parts = decode_parts(damage(seed, rng, seed)[1])
        except RequestError:
            continue
        assert all(0 < part.address.port < 65_536 for part in parts)
        assert all(q.path != relays.RELAY for part in parts for q in part.questions)


def test_answers_of_a_relay_that_make_no_sense() -> None:
    rng = random.Random(6)
    parts = [Part(Address("a"), (CLOCK, CLOCK)), Part(Address("b"), (CLOCK,))]
    told = Told(Answer(200, b'{"time_ns": 1}'), 5, 7)
    seed = encode_passed([Passed([told, told]), Passed([], InputError("gone", why="so"))])
    first, second = decode_passed(seed, parts)
    assert first.told == [told, told]
    assert (second.problem and second.problem.what) == "gone"
    with pytest.raises(InputError):
        decode_passed(seed, parts[:1])
    for _ in range(ROUNDS):
        try:
            passed = decode_passed(damage(seed, rng, seed)[1], parts)
        except InputError:
            continue
        assert len(passed) == 2


def test_when_there_is_a_tree(fleet: Fleet) -> None:
    trusted = fleet.certificate.trusted
    many = [Client(Address(f"n{n}", None, f"n{n}", 9477, TOKEN, trusted)) for n in range(501)]
    assert isinstance(choose_asker(many, None, fleet.said.append), Tree)
    assert isinstance(choose_asker(many[:500], None, fleet.said.append), Direct)
    assert isinstance(choose_asker(many, 0, fleet.said.append), Direct)
    assert isinstance(choose_asker(many[:9], 3, fleet.said.append), Tree)
    for fan_out in (1, 65, -1):
        with pytest.raises(RequestError, match="is not a valid value"):
            choose_asker(many, fan_out, fleet.said.append)
    plain = [Client(Address("n", None, "127.0.0.1", 9477, TOKEN))] * 501
    assert isinstance(choose_asker(plain, None, fleet.said.append), Direct)
    with pytest.raises(RequestError, match="over TLS only"):
        choose_asker(plain, 3, fleet.said.append)


def test_requests_are_as_long_as_a_daemon_reads() -> None:
    question = Question("POST", "/v1/captures", b"x" * 30_000)
    parts = [Part(Address(f"n{n}", host=f"n{n}"), (question,)) for n in range(5)]
    assert [len(few) for few in split_parts(parts)] == [2, 2, 1]
    short = [Part(Address(f"n{n}", host=f"n{n}"), (CLOCK,)) for n in range(70)]
    assert [len(few) for few in split_parts(short)] == [64, 6]
