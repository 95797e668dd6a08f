"""The daemon's addresses: a socket with its users, and HTTPS with a token."""

from __future__ import annotations

import os
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.capture.client import Address, Client
from sightline.capture.server import NetServer, UnixServer, make_context
from sightline.errors import InputError, RequestError
from support.certificates import make_certificate
from support.nodes import OwnNode, run_node

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("quick")]
TOKEN = "0123456789abcdef"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OwnNode]:
    with run_node(tmp_path / "n") as node:
        yield node


@contextmanager
def listen(node: OwnNode, context: ssl.SSLContext | None = None) -> Iterator[int]:
    server = NetServer("127.0.0.1", 0, node.api, TOKEN, context)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def asking(
    port: int,
    token: str | None = TOKEN,
    context: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    certified: str | None = None,
) -> Iterator[Client]:
    client = Client(Address("far", None, host, port, token, context, certified), 5)
    try:
        yield client
    finally:
        client.close()


def test_a_token_is_asked_for(node: OwnNode) -> None:
    with listen(node) as port:
        with asking(port) as client:
            assert client.ask_data("GET", "/v1/node")["node"] == "node"
        for token in (None, "another token, as long"):
            with asking(port, token) as client, pytest.raises(RequestError, match="refused"):
                client.ask_data("GET", "/v1/node")


def test_who_answers_must_know_the_token(node: OwnNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NetServer, "prove", lambda *_: "0" * 64)
    with listen(node) as port, asking(port) as client:
        with pytest.raises(InputError) as caught:
            client.ask("GET", "/v1/node")
        assert caught.value.why == "the server that answers does not know the token"


def test_tls(node: OwnNode, tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    key, trusted = made.key, made.trusted
    with listen(node, made.own) as port:
        with asking(port, context=trusted) as client:
            assert client.ask_data("GET", "/v1/node")["node"] == "node"
            assert client.ask_data("GET", "/v1/clock")["time_ns"] > 0  # the same connection
        with asking(port, context=ssl.create_default_context()) as client:
            with pytest.raises(InputError) as caught:
                client.ask("GET", "/v1/node")
            assert "certificate" in str(caught.value.why).lower()
        # It is another host's certificate.
        with (
            asking(port, context=trusted, host="localhost") as client,
            pytest.raises(InputError),
        ):
            client.ask("GET", "/v1/node")
        # Found by a name, it must show that name's.
        with asking(port, context=trusted, host="localhost", certified="127.0.0.1") as client:
            assert client.ask_data("GET", "/v1/node")["node"] == "node"
        with (
            asking(port, context=trusted, certified="service") as client,
            pytest.raises(InputError),
        ):
            client.ask("GET", "/v1/node")
    with pytest.raises(RequestError, match="cannot use the certificate"):
        make_context(str(key), str(key))


def test_no_address_that_others_reach_without_tls(node: OwnNode) -> None:
    with pytest.raises(RequestError, match="can be reached from other machines") as caught:
        NetServer("0.0.0.0", 0, node.api, TOKEN, None)
    assert "--certificate" in str(caught.value.hint)


def test_whose_socket_it_is(node: OwnNode) -> None:
    assert stat.S_IMODE((node.sockets / "daemon.sock").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_in_which_others_may_put_sockets(node: OwnNode, tmp_path: Path) -> None:
    place = node.sockets / "o"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(RequestError, match="cannot listen") as caught:
        UnixServer(place / "d", node.api, for_all=False)
    assert caught.value.why == "other users may replace files in this folder"
