"""The service's one configuration file, in TOML: what it says, checked before anything starts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sightline.cluster.access import ROLES, Network, Rules, Token
from sightline.cluster.names import is_cluster
from sightline.cluster.store import Keeping
from sightline.errors import InputError, RequestError

_KEYS = {
    "": {"cluster", "store", "bucket", "listen", "names", "certificate", "key", "plain", "keep",
         "units", "access", "sources", "trace", "oidc", "nats",
         "tell"},
    "keep": {"samples_days", "jobs_days"},
    "access": {"tokens", "header", "proxies", "roles", "projects"},
    "tokens": {"name", "role", "sha256"},
    "sources": {"slurm", "clustercockpit", "prometheus", "limits", "every_minutes"},
    "trace": {"command", "on", "most"},
    "tell": {"on", "webhook", "command", "rounds"},
    "nats": {"url", "user", "password_file", "token_file", "ca", "metrics", "jobs", "durable"},
    "oidc": {"issuer", "client_id", "client_secret_file", "claim", "redirect"},
}  # fmt: skip
BUCKET = "s3://"
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,62}(?:/[A-Za-z0-9._=-]{1,255})*/?")
# https://docs.nats.io/nats-concepts/subjects: tokens between dots, * for one and > for the rest.
_SUBJECT = re.compile(r"(?:[A-Za-z0-9_-]{1,64}|\*)(?:\.(?:[A-Za-z0-9_-]{1,64}|\*)){0,15}(?:\.>)?")
_DURABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Of `sightline daemon` on the job's nodes, whose token is in SIGHTLINE_TOKEN.
_CAPTURE = (
    "sightline", "capture", "--job", "{job}", "--hosts", "{hosts}", "--for", "2s", "-o", "{output}",
)  # fmt: skip


@dataclass(frozen=True)
class Sources:
    """Where jobs are read from, beside what is sent: paths, an address, each how many minutes."""

    slurm: bool = False
    clustercockpit: tuple[str, ...] = ()
    prometheus: str = ""
    limits: tuple[str, ...] = ()
    every_minutes: float = 5.0


@dataclass(frozen=True)
class Tracing:
    """How a job is recorded: a command without a shell; for which rules without being asked."""

    command: tuple[str, ...] = _CAPTURE
    on: tuple[str, ...] = ()
    most: int = 2  # at a time


@dataclass(frozen=True)
class Telling:
    """Who is told of problems of jobs that run: of which rules, after how many rounds in a row."""

    on: tuple[str, ...] = ()
    webhook: str = ""
    command: str = ""
    rounds: int = 3  # ours: three minutes; a figure that only touches a threshold is not told


@dataclass(frozen=True)
class Provider:
    """An OpenID Connect provider: its address, our name there, where it sends people back to."""

    issuer: str
    client_id: str
    secret: str
    redirect: str
    claim: str = "preferred_username"


@dataclass(frozen=True)
class Broker:
    """A NATS server: its address, who we are there, and the subjects that are listened to."""

    url: str
    user: str = ""
    password: str = ""
    token: str = ""
    ca: str = ""
    metrics: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    durable: str = ""  # of JetStream: what is not acknowledged is sent again


@dataclass(frozen=True)
class Config:
    """All of it."""

    cluster: str
    store: Path
    host: str = "127.0.0.1"
    port: int = 8270
    names: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""
    plain: bool = False
    keeping: Keeping = field(default_factory=Keeping)
    units: Mapping[str, str] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    sources: Sources = field(default_factory=Sources)
    tracing: Tracing = field(default_factory=Tracing)
    provider: Provider | None = None
    broker: Broker | None = None
    telling: Telling = field(default_factory=Telling)
    bucket: str = ""  # where the jobs lie in object storage; empty: in the store's folder


def read_config(path: Path) -> Config:
    """Raises InputError, and says what is wrong and where."""
    import tomllib

    try:
        held = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(
            f"cannot read {path}",
            why=(error.strerror or str(error)).lower(),
            hint="sightline cluster init   writes one",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML", why=str(error)) from error
    try:
        return make_config(held, path.parent)
    except RequestError as error:
        raise InputError(f"{path} cannot be used", why=str(error)) from error


def make_config(held: Mapping[str, Any], folder: Path) -> Config:
    """Of a document; paths in it are of `folder`. Raises RequestError."""
    _check_keys(held, "")
    cluster = _text(held, "cluster")
    if not is_cluster(cluster):
        raise RequestError("`cluster` must be a name of letters, digits, - and _")
    host, port = read_address(_text(held, "listen", "127.0.0.1:8270"))
    keep = _table(held, "keep")
    days = {key: _count(keep, key, getattr(Keeping(), key)) for key in _KEYS["keep"]}
    return Config(
        cluster,
        folder / _text(held, "store", "store"),
        host,
        port,
        _texts(held, "names"),
        _path(folder, _text(held, "certificate", "")),
        _path(folder, _text(held, "key", "")),
        held.get("plain") is True,
        Keeping(**days),
        {name: str(unit) for name, unit in _table(held, "units", check=False).items()},
        _read_rules(_table(held, "access")),
        _read_sources(_table(held, "sources"), folder),
        _read_tracing(_table(held, "trace")),
        _read_provider(_table(held, "oidc"), folder) if "oidc" in held else None,
        _read_broker(_table(held, "nats"), folder, held) if "nats" in held else None,
        _read_telling(_table(held, "tell")),
        _read_bucket(held),
    )


def _read_bucket(held: Mapping[str, Any]) -> str:
    """Where the jobs lie in object storage; empty: in the store's folder."""
    url = _text(held, "bucket", "")
    if url and not _BUCKET.fullmatch(url):
        raise RequestError("`bucket` is  s3://BUCKET/FOLDER", why="a name has no other characters")
    return url.rstrip("/")


def read_address(text: str) -> tuple[str, int]:
    """An IP address and a port: 127.0.0.1:8270, [::1]:0. Raises RequestError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise RequestError(f"'{text}' is not an address with a port: 127.0.0.1:8270")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        raise RequestError(f"'{text}' does not begin with an IP address") from None
    return host.strip("[]"), int(port)


def _read_rules(access: Mapping[str, Any]) -> Rules:
    tokens = []
    for one in access.get("tokens", []):
        if not isinstance(one, dict):
            raise RequestError("`tokens` must be a list of tables: name, role, sha256")
        _check_keys(one, "tokens")
        tokens.append(Token(_text(one, "name"), _text(one, "role"), _text(one, "sha256")))
    proxies: list[Network] = []
    for text in _texts(access, "proxies"):
        try:
            proxies.append(ipaddress.ip_network(text))
        except ValueError:
            raise RequestError(f"'{text}' of `proxies` is not a network: 10.0.0.5/32") from None
    header = _text(access, "header", "")
    if header and not proxies:
        raise RequestError(
            "a `header` counts only from `proxies`", why="anybody could send it otherwise"
        )
    roles = {str(name): str(role) for name, role in _plain(access, "roles").items()}
    if wrong := sorted(set(roles.values()) - set(ROLES)):
        raise RequestError(f"there is no role '{wrong[0]}'", why=f"there are {', '.join(ROLES)}")
    projects = {str(n): tuple(map(str, p)) for n, p in _plain(access, "projects").items()}
    return Rules(tuple(tokens), header, tuple(proxies), roles, projects)


def _read_sources(held: Mapping[str, Any], folder: Path) -> Sources:
    return Sources(
        held.get("slurm") is True,
        tuple(_path(folder, text) for text in _texts(held, "clustercockpit")),
        _text(held, "prometheus", ""),
        tuple(_path(folder, text) for text in _texts(held, "limits")),
        float(held.get("every_minutes", 5.0)),
    )


def _read_tracing(held: Mapping[str, Any]) -> Tracing:
    command = _texts(held, "command") or _CAPTURE
    if "{output}" not in command:
        raise RequestError("the `command` that records has a word {output}: the folder to write")
    return Tracing(command, _texts(held, "on"), _count(held, "most", 2))


def _read_telling(held: Mapping[str, Any]) -> Telling:
    made = Telling(
        _texts(held, "on"),
        _text(held, "webhook", ""),
        _text(held, "command", ""),
        _count(held, "rounds", Telling().rounds),
    )
    if made.on and not (made.webhook or made.command):
        raise RequestError("`tell` needs a `webhook` or a `command`: whom to tell")
    if made.rounds < 1:
        raise RequestError("`rounds` must be 1 or more")
    return made


def _read_broker(held: Mapping[str, Any], folder: Path, top: Mapping[str, Any]) -> Broker:
    url = _text(held, "url")
    parts = urlsplit(url)
    if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.username:
        raise RequestError("the `url` of `nats` must be tls://HOST:4222, without a password")
    is_own = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme == "nats" and not is_own and top.get("plain") is not True:
        raise RequestError(
            "others could read the password on the way to NATS",
            hint="Write  tls://…; or say  plain = true  where the network is the cluster's own.",
        )
    user, subjects = _text(held, "user", ""), _texts(held, "metrics") + _texts(held, "jobs")
    password = _read_secret(held, "password_file", folder) if user else ""
    token = "" if user else _read_secret(held, "token_file", folder)
    if not subjects or not all(_SUBJECT.fullmatch(one) for one in subjects):
        raise RequestError("`metrics` and `jobs` of `nats` must be lists of one subject or more")
    durable = _text(held, "durable", "")
    if durable and not _DURABLE.fullmatch(durable):
        raise RequestError("`durable` must be a name of letters, digits, - and _")
    ca = _path(folder, _text(held, "ca", ""))
    metrics, jobs = _texts(held, "metrics"), _texts(held, "jobs")
    return Broker(url, user, password, token, ca, metrics, jobs, durable)


def _read_secret(held: Mapping[str, Any], key: str, folder: Path) -> str:
    """The words of a file. Raises RequestError: unreadable, or empty."""
    try:
        secret = Path(_path(folder, _text(held, key))).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise RequestError(f"the `{key}` cannot be read", why=why) from error
    if not secret:
        raise RequestError(f"the `{key}` is empty")
    return secret


def _read_provider(held: Mapping[str, Any], folder: Path) -> Provider:
    secret = _read_secret(held, "client_secret_file", folder)
    issuer, redirect = _text(held, "issuer"), _text(held, "redirect")
    for address in (issuer, redirect):
        if not address.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise RequestError("addresses of `oidc` must begin with https://")
    claim = _text(held, "claim", "preferred_username")
    return Provider(issuer.rstrip("/"), _text(held, "client_id"), secret, redirect, claim)


def _check_keys(held: Mapping[str, Any], table: str) -> None:
    unknown = sorted(set(held) - _KEYS[table])
    if unknown:
        from sightline.core.registry import did_you_mean

        known = sorted(_KEYS[table])
        raise RequestError(
            f"`{unknown[0]}` is not a known setting", why=did_you_mean(unknown[0], known)
        )


def _table(held: Mapping[str, Any], key: str, *, check: bool = True) -> Mapping[str, Any]:
    found = _plain(held, key)
    if check:
        _check_keys(found, key)
    return found


def _plain(held: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = held.get(key, {})
    if not isinstance(found, dict):
        raise RequestError(f"`{key}` is a table")
    return found


def _text(held: Mapping[str, Any], key: str, default: str | None = None) -> str:
    found = held.get(key, default)
    if not isinstance(found, str) or (default is None and not found):
        raise RequestError(f"`{key}` is a text")
    return found


def _texts(held: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = held.get(key, [])
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise RequestError(f"`{key}` must be a list of strings")
    return tuple(found)


def _count(held: Mapping[str, Any], key: str, default: int) -> int:
    found = held.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 100_000:
        raise RequestError(f"`{key}` must be a whole number")
    return found


def _path(folder: Path, text: str) -> str:
    return text if text.startswith(BUCKET) else str(folder / text) if text else ""
