"""Signing in by OpenID Connect, against a provider that signs, checks PKCE, and then lies."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

pytest.importorskip("authlib", reason="the extra 'cluster' is not installed")
pytest.importorskip("requests", reason="the extra 'cluster' is not installed")

from joserfc import jwk, jwt

from sightline.cluster.config import Provider
from sightline.doors.http.provider import ProviderLogin
from support.cluster_service import Own, make_rules, run_service


class Issuer:
    """A provider: discovery, keys, codes that are good once, tokens with what `changed` says."""

    def __init__(self) -> None:
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
        self.other = jwk.RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
        self.codes: dict[str, dict[str, str]] = {}
        self.changed: dict[str, Any] = {}
        self.signs_with = self.key
        self.header = {"alg": "RS256", "kid": "k1"}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply(issuer.describe(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._reply(issuer.exchange(dict(parse_qsl(body)), self.headers))

            def _reply(self, document: dict[str, Any] | None) -> None:
                data = json.dumps(document or {"error": "invalid_grant"}).encode()
                self.send_response(200 if document else 400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def describe(self, path: str) -> dict[str, Any] | None:
        if path == "/.well-known/openid-configuration":
            names = {
                "authorization_endpoint": "auth",
                "token_endpoint": "token",
                "jwks_uri": "keys",
            }
            return {"issuer": self.url, **{k: f"{self.url}/{v}" for k, v in names.items()}}
        return {"keys": [self.key.as_dict(private=False)]} if path == "/keys" else None

    def agree(self, address: str) -> str:
        """A person signs in at the address that they were sent to: the address to come back to."""
        query = {k: v[0] for k, v in parse_qs(urlsplit(address).query).items()}
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"/callback?code={code}&state={query['state']}"

    def exchange(self, form: dict[str, str], headers: Any) -> dict[str, Any] | None:
        asked = self.codes.pop(form.get("code", ""), None)
        secret = base64.b64encode(b"us:a secret").decode()
        if asked is None or headers["Authorization"] != f"Basic {secret}":
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": "us", "sub": "17", "exp": now + 300, "iat": now,
            "nonce": asked["nonce"], "preferred_username": "ada", **self.changed,
        }  # fmt: skip
        token = jwt.encode(self.header, claims, self.signs_with, algorithms=[self.header["alg"]])
        return {"access_token": "x", "token_type": "Bearer", "id_token": token}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def own(tmp_path, issuer) -> Iterator[Own]:
    provider = Provider(issuer.url, "us", "a secret", "http://127.0.0.1:8270/callback")
    with run_service(tmp_path, provider=ProviderLogin(provider, make_rules())) as made:
        yield made


def go_there(own: Own) -> tuple[str, dict[str, str]]:
    assert own.ask("/").headers["Location"] == "/login"
    reply = own.ask("/login")
    return reply.headers["Location"], {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}


def test_a_person_signs_in(own, issuer):
    address, cookie = go_there(own)
    reply = own.ask(issuer.agree(address), **cookie)
    assert reply.status == 303, reply.body
    sent = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}
    assert b"ada" in own.ask("/", **sent).body


def test_a_name_has_its_role(own, issuer):
    issuer.changed = {"preferred_username": "root"}
    address, cookie = go_there(own)
    reply = own.ask(issuer.agree(address), **cookie)
    sent = {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}
    assert b"admin" in own.ask("/", **sent).body


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "http://evil.example"}, {"aud": "another"}, {"exp": 1}, {"nonce": "another"},
        {"preferred_username": ""}, {"preferred_username": "a b"}, {"preferred_username": None},
        {"preferred_username": "<script>"},
    ],
)  # fmt: skip
def test_a_token_that_is_not_for_us_is_refused(own, issuer, changed):
    issuer.changed = changed
    address, cookie = go_there(own)
    reply = own.ask(issuer.agree(address), **cookie)
    assert reply.status == 403
    assert "Set-Cookie" not in reply.headers


def test_signatures_of_others_and_of_none_are_refused(own, issuer):
    issuer.signs_with = issuer.other
    address, cookie = go_there(own)
    assert own.ask(issuer.agree(address), **cookie).status == 403
    # Signed with a shared secret instead of the issuer's key (RFC 8725, 2.1).
    issuer.signs_with = jwk.OctKey.import_key("what everybody knows, and is long enough")
    issuer.header = {"alg": "HS256", "kid": "k1"}
    address, cookie = go_there(own)
    assert own.ask(issuer.agree(address), **cookie).status == 403


def test_states_and_codes_are_good_once_and_for_one_browser(own, issuer):
    address, cookie = go_there(own)
    back = issuer.agree(address)
    assert own.ask(back).status == 403  # another browser, which was given the address
    assert own.ask(back, Cookie="sightline-login=x").status == 403
    assert own.ask(back, **cookie).status == 303
    assert own.ask(back, **cookie).status == 403
    assert own.ask("/callback", **cookie).status == 403
    address, cookie = go_there(own)
    state = issuer.agree(address).partition("state=")[2]
    assert own.ask(f"/callback?code=made-up&state={state}", **cookie).status == 403


def test_a_callback_without_a_provider_is_nothing(tmp_path):
    with run_service(tmp_path) as made:
        assert made.ask("/callback?code=x&state=y").status == 401
