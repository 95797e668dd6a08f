"""Signing in by OpenID Connect: the code flow with PKCE, by Authlib; tokens are checked by joserfc.

What comes back from a browser counts only with the state that this browser was sent away with, and
an identity token only with the nonce, the issuer, our name and a signature of the issuer's keys.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any

from sightline.cluster.access import Rules, Visitor
from sightline.cluster.config import Provider
from sightline.core.optional_packages import load_package
from sightline.doors.http.messages import HTML, Reply, Request, say
from sightline.errors import InputError, RequestError

_COOKIE = "sightline-login"
_LONGEST_S = 600.0
_MOST = 1_000  # people on their way to the provider
_TIMEOUT_S = 10
_SCOPE = "openid profile email"
# RFC 8725, 3.1: the algorithms that are expected, and no others; none of shared secrets.
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]


class ProviderLogin:
    """Sends people to a provider, and takes in who comes back. May be used by several threads."""

    def __init__(self, provider: Provider, rules: Rules) -> None:
        """Raises RequestError where the packages are missing, InputError for a silent provider."""
        what = "people are signed in by OpenID Connect"
        self._client: Any = load_package("authlib.integrations.requests_client", "authlib", what)
        load_package("requests", "requests", what)
        self._jwt: Any = load_package("joserfc.jwt", "joserfc", what)
        self._jwk: Any = load_package("joserfc.jwk", "joserfc", what)
        self._provider, self._rules = provider, rules
        self._about = self._fetch(f"{provider.issuer}/.well-known/openid-configuration")
        if str(self._about.get("issuer", "")).rstrip("/") != provider.issuer:
            raise InputError(f"{provider.issuer} says that it is another issuer")
        self._away: OrderedDict[str, tuple[str, str, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> tuple[Reply, Visitor | None]:
        """/login and /callback: a reply, or who it is."""
        if request.path.rstrip("/") == "/login":
            return self._send_away(), None
        try:
            return Reply(200), self._take_in(request)
        except RequestError as error:
            return say(403, str(error)), None

    def _session(self) -> Any:
        made = self._client.OAuth2Session(
            self._provider.client_id,
            self._provider.secret,
            scope=_SCOPE,
            redirect_uri=self._provider.redirect,
            code_challenge_method="S256",
        )
        made.max_redirects = 0
        return made

    def _send_away(self) -> Reply:
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        with self._session() as session:
            url, _ = session.create_authorization_url(
                self._about["authorization_endpoint"],
                state=state,
                nonce=nonce,
                code_verifier=verifier,
            )
        with self._lock:
            self._away[state] = (nonce, verifier, time.monotonic() + _LONGEST_S)
            while len(self._away) > _MOST:
                self._away.popitem(last=False)
        cookie = f"{_COOKIE}={state}; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"
        cookie += "; Secure" if self._provider.redirect.startswith("https:") else ""
        return Reply(303, b"", HTML, {"Location": str(url), "Set-Cookie": cookie})

    def _take_in(self, request: Request) -> Visitor:
        state = request.query.get("state", "")
        try:
            cookie = SimpleCookie(request.headers.get("Cookie", "")[:4096]).get(_COOKIE)
        except CookieError:
            cookie = None
        held = cookie.value if cookie is not None else ""
        if not state or not hmac.compare_digest(state.encode(), held.encode()):
            raise RequestError("this browser did not begin to sign in here")
        with self._lock:
            nonce, verifier, until = self._away.pop(state, ("", "", 0.0))
        if not nonce or time.monotonic() > until:
            raise RequestError("signing in took too long, or was done already")
        try:
            with self._session() as session:
                token = session.fetch_token(
                    self._about["token_endpoint"],
                    code=request.query.get("code", ""),
                    code_verifier=verifier,
                    timeout=_TIMEOUT_S,
                )
            claims = self._check(str(token.get("id_token", "")), nonce)
        except RequestError:
            raise
        except Exception as error:  # Authlib's, requests' and joserfc's have no common one
            raise RequestError("the provider's answer cannot be used") from error
        name = claims.get(self._provider.claim)
        visitor = self._rules.make_visitor(name) if isinstance(name, str) else None
        if visitor is None:
            raise RequestError("the provider gives no name that can be used")
        return visitor

    def _check(self, text: str, nonce: str) -> dict[str, Any]:
        """The claims of a token that is the issuer's, for us, of now and of this login."""
        keys = self._jwk.KeySet.import_key_set(self._fetch(self._about["jwks_uri"]))
        token = self._jwt.decode(text, keys, algorithms=_ALGORITHMS)
        registry = self._jwt.JWTClaimsRegistry(
            leeway=60,
            iss={"essential": True, "value": self._about["issuer"]},
            aud={"essential": True, "value": self._provider.client_id},
            exp={"essential": True},
        )
        registry.validate(token.claims)
        if not hmac.compare_digest(str(token.claims.get("nonce", "")).encode(), nonce.encode()):
            raise RequestError("the provider's answer belongs to another sign-in")
        return dict(token.claims)

    def _fetch(self, address: str) -> dict[str, Any]:
        import requests

        try:
            reply = requests.get(address, timeout=_TIMEOUT_S, allow_redirects=False)
            reply.raise_for_status()
            found = reply.json()
        except (requests.RequestException, ValueError) as error:
            raise InputError(f"{address} does not answer as a provider", why=str(error)) from error
        return dict(found) if isinstance(found, dict) else {}
