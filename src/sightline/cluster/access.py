"""Who asks, and what they may see: tokens, a reverse proxy's header, sessions of browsers.

Roles are ClusterCockpit's: a user sees their own jobs, a manager those of their projects, too,
support and admin see all; only an admin changes tags that all see. A token of role `ingest` may
send points and jobs, and see nothing. Who is nobody's user is refused: there is no default.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from sightline.errors import RequestError

USER, MANAGER, SUPPORT, ADMIN, INGEST = "user", "manager", "support", "admin", "ingest"
ROLES = (USER, MANAGER, SUPPORT, ADMIN, INGEST)
LEAST_TOKEN = 16  # characters; NIST SP 800-63B asks for 112 bits of look-up secrets: 28 of hex
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SESSION_S = 12 * 3600.0
_MOST_SESSIONS = 10_000

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Visitor:
    """Who asks. `only_user` and `only_projects` are what a search is confined to."""

    name: str
    role: str
    projects: tuple[str, ...] = ()

    @property
    def sees_all(self) -> bool:
        """Whether they see everybody's jobs."""
        return self.role in (SUPPORT, ADMIN)

    @property
    def only_user(self) -> str | None:
        """Whose jobs they see; None: everybody's."""
        return None if self.sees_all else self.name

    @property
    def only_projects(self) -> tuple[str, ...]:
        """Projects whose jobs they see beside their own."""
        return self.projects if self.role == MANAGER else ()

    def may_see(self, row: Mapping[str, object]) -> bool:
        """Whether a job is one that they may see."""
        if self.role == INGEST:
            return False
        mine = self.sees_all or row.get("user") == self.name
        return bool(mine or row.get("project") in self.only_projects)


@dataclass(frozen=True)
class Token:
    """Of a program: the hash of its token, its name and role."""

    name: str
    role: str
    sha256: str

    def __post_init__(self) -> None:
        if self.role not in ROLES or not _HASH.fullmatch(self.sha256):
            raise RequestError(
                f"the token '{self.name}' has a role and the SHA-256 of it in hexadecimal",
                why=f"roles are {', '.join(ROLES)}",
                hint="sightline cluster token   makes one, and prints both",
            )
        if self.sha256 == hashlib.sha256(b"").hexdigest():
            raise RequestError(f"the token '{self.name}' is empty")


@dataclass(frozen=True)
class Rules:
    """How people are known: tokens, a proxy's header with the networks it comes from, roles."""

    tokens: tuple[Token, ...] = ()
    header: str = ""
    proxies: tuple[Network, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    projects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def make_visitor(self, name: str) -> Visitor | None:
        """A person of this name, who was recognized; None where it can be nobody's."""
        if not _NAME.fullmatch(name):
            return None
        return Visitor(name, self.roles.get(name, USER), self.projects.get(name, ()))


def make_token() -> tuple[str, str]:
    """A new token, and the hash that a configuration has of it."""
    token = secrets.token_urlsafe(32)
    return token, hash_token(token)


def hash_token(token: str) -> str:
    """SHA-256 in hexadecimal. Raises RequestError for one that could be guessed."""
    if len(token) < LEAST_TOKEN:
        raise RequestError(f"a token has {LEAST_TOKEN} characters at least")
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(headers: Mapping[str, str], rules: Rules) -> Visitor | None:
    """Who a request's token is of: `Authorization: Bearer|Token …` or `X-Auth-Token: …`."""
    kind, _, word = headers.get("Authorization", "").partition(" ")
    given = word.strip() if kind.lower() in ("bearer", "token") else ""
    given = given or headers.get("X-Auth-Token", "").strip()
    if len(given) < LEAST_TOKEN:
        return None
    digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()
    found = None
    for token in rules.tokens:  # all of them: how long it takes says nothing
        if hmac.compare_digest(token.sha256, digest):
            projects = rules.projects.get(token.name, ())
            found = Visitor(token.name, token.role, projects)
    return found


def find_proxied(headers: Mapping[str, str], peer: str, rules: Rules) -> Visitor | None:
    """Who a reverse proxy says it is; nobody where the request comes from elsewhere."""
    if not rules.header or not rules.proxies:
        return None
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    if not any(address.version == n.version and address in n for n in rules.proxies):
        return None
    return rules.make_visitor(headers.get(rules.header, ""))


class Sessions:
    """Browsers that were recognized once: a secret in a cookie, another one in their forms."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Visitor, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)

    def begin(self, visitor: Visitor) -> str:
        """The secret of a new session. Beyond 10,000 the oldest ends."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._known[_hide(secret)] = (visitor, time.monotonic() + _SESSION_S)
            while len(self._known) > _MOST_SESSIONS:
                self._known.popitem(last=False)
        return secret

    def find(self, secret: str) -> Visitor | None:
        """Whose session it is."""
        with self._lock:
            visitor, until = self._known.get(_hide(secret), (None, 0.0))
            if visitor is not None and time.monotonic() > until:
                del self._known[_hide(secret)]
                return None
        return visitor

    def end(self, secret: str) -> None:
        """Forget it."""
        with self._lock:
            self._known.pop(_hide(secret), None)

    def sign(self, who: str) -> str:
        """What a form of theirs has: no page of another site knows it."""
        return hmac.new(self._key, who.encode(), hashlib.sha256).hexdigest()

    def is_signed(self, who: str, given: str) -> bool:
        """Whether a form is one that they were given."""
        return hmac.compare_digest(self.sign(who).encode(), given.encode())


def _hide(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
